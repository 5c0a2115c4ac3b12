"""What launchers, log drivers and other programs put around NCCL's lines: ranks that agree still agree, as they are."""

import io
import json

import pytest

from importers.log_wrappers import pieces
from importers.nccl_log import NcclLogs, plain_words
from importers.notes import Notes
from paceline import wire
from tests.streams.job_lines import JobDiagnosis

WORLD = 8


def log_of(rank, algo="Ring"):
    """What one of eight ranks on two nodes writes, in NCCL 2.27's words."""
    host, pid = f"gpu-{'ab'[rank // 4]}", 1000 + rank
    init = f"ncclCommInitRank comm 0x55d0 rank {rank} nranks {WORLD} cudaDev {rank % 4} busId 1000 commId 0xabc - Init"
    said = (
        *("cudaDriverVersion 12040", "NCCL version 2.27.5+cuda12.4", "Using network IB", f"{init} START"),
        *(f"NCCL_ALGO set by environment to {algo}", f"Channel 01/0 : {rank}[0] -> {rank ^ 4}[0] [send] via NET/IB/0"),
        *("16 coll channels, 16 collnet channels, 0 nvls channels, 32 p2p channels", f"{init} COMPLETE"),
    )
    return [f"{host}:{pid}:{pid + 50} [{rank % 4}] NCCL INFO {text}" for text in said]


def ranks_lines(algo="Ring"):
    """(rank, line) of all; ``algo`` is what rank 5 has."""
    return [(rank, line) for rank in range(WORLD) for line in log_of(rank, algo if rank == 5 else "Ring")]


def judged(lines):
    """The facts of each rank, the findings, and the notes of a log."""
    notes = Notes()
    logs = NcclLogs("job", notes)
    logs.read(io.BytesIO("\n".join(lines).encode() + b"\n"), 1_795_000_000.0)
    events = [wire.decode(message.topic, wire.encode(message.event)) for message in logs.messages()]
    facts = {
        rank: {fact: said[at] for fact, said in event.facts.words.items() if said[at]}
        for event in events
        for at, rank in enumerate(event.facts.ranks)
    }
    decision = JobDiagnosis()
    return facts, [finding for event in events for finding in decision.update(event)], notes


PLAIN, _, _ = judged([line for _, line in ranks_lines()])

BEFORE = {
    "nothing": "",
    "srun --label": "{rank}: ",
    "mpirun --tag-output": "[1,{rank}]<stdout>:",
    "mpirun of Open MPI 5": "[prterun-head-77@1,{rank}]<stdout>: ",
    "torchrun --tee": "[default{rank}]:",
    "kubectl --prefix --timestamps": "[pod/job-worker-{rank}/pytorch] 2026-11-20T10:00:00.123456789Z ",
    "stern": "job-worker-{rank} pytorch ",
    "docker compose": "worker-{rank}  | ",
    "CRI": "2026-11-20T10:00:00.123456789Z stdout F ",
    "Ray": "\x1b[36m(RayTrainWorker pid={rank}, ip=10.0.0.1)\x1b[0m ",
    "vLLM": "(EngineCore_{rank} pid=1000) ",
    "tqdm without a line end": "Epoch 1:  45%|####5     | 45/100 [00:01<00:02, 31.2it/s]",
    "colours": "\x1b[1;32m",
    "colours as syslog writes them": "#033[32m",
}
BEHIND = {
    "Ray": " [repeated 3x across cluster] (Ray deduplicates logs by default. Set RAY_DEDUP_LOGS=0)",
    "tqdm": "  45%|####5     | 45/100 [00:01<00:02, 31.2it/s]",
    "tqdm after a carriage return": "\r 45%|####5     | 45/100",
    "a logger": " INFO 10-11 12:00:00 [loader.py:120] Loading weights",
    "loss": " loss:2.31 step=7",
    "colours": "\x1b[0m",
    "colours whose escape is written out": "\\x1b[0m",
    "colours whose escape is written out in JSON": "\\u001b[0m",
    "colours whose escape is lost": "[0m",
    "a line end as rsyslog writes it": "#012",
    "a line end as a string has it": "\\n",
    "a window's end of line": "\r",
    "a quote": ' "',
}


@pytest.mark.parametrize("before", BEFORE.values(), ids=BEFORE)
def test_prefixes_of_launchers_change_nothing(before):
    """On every line."""
    facts, findings, _ = judged([before.format(rank=rank) + line for rank, line in ranks_lines()])
    assert findings == []
    assert facts == PLAIN


@pytest.mark.parametrize("behind", BEHIND.values(), ids=BEHIND)
@pytest.mark.parametrize("whose", ["one rank's", "all"])
def test_words_behind_nccls_own_change_nothing(behind, whose):
    """Of one rank, which would be accused, or of all."""
    lines = [line + behind if whose == "all" or rank == 5 else line for rank, line in ranks_lines()]
    facts, findings, _ = judged(lines)
    assert findings == []
    assert facts == PLAIN


@pytest.mark.parametrize("key", ["log", "MESSAGE", "message", "textPayload", "line"])
@pytest.mark.parametrize("cut", [False, True], ids=["whole", "cut off"])
def test_records_of_log_drivers_are_opened(key, cut):
    """Docker's json-file, journald, Fluent Bit, a cloud's: the text of NCCL's in it, whatever it is called."""
    records = [json.dumps({key: f"{line}\n", "stream": "stdout", "time": "t"}) for _, line in ranks_lines()]
    facts, findings, _ = judged([record[:-1] if cut else record for record in records])
    assert findings == []
    assert facts == PLAIN


AROUND = {
    "a cloud's record with parts": lambda line: json.dumps({"jsonPayload": {"message": line}, "severity": "INFO"}),
    "a record of an answer": lambda line: json.dumps({"hits": [{"_source": {"log": line}}]}),
    "a record in a record": lambda line: json.dumps({"log": json.dumps({"message": line, "level": "info"})}),
    "JSON that is laid out": lambda line: f'    "textPayload": {json.dumps(line)},',
    "a record behind a prefix of CRI": lambda line: f'2026-11-20T10:00:00Z stdout F {{"message":{json.dumps(line)}}}',
    "a field of CSV": lambda line: f'"2026-11-20 10:00:00","{line}","stdout"',
    "bytes as Python shows them": lambda line: repr(f"{line}\n".encode()),
    "key=value": lambda line: f'time=2026-11-20T10:00:00Z level=info msg="{line}" stream=stdout',
}


@pytest.mark.parametrize("around", AROUND.values(), ids=AROUND)
def test_a_line_in_quotes_ends_where_they_do(around):
    """Whatever else is in the record; the same of one rank alone, which would be accused."""
    for lines in (
        [around(line) for _, line in ranks_lines()],
        [around(line) if rank == 5 else line for rank, line in ranks_lines()],
    ):
        facts, findings, _ = judged(lines)
        assert findings == []
        assert facts == PLAIN


def test_records_without_a_line_end_run_together():
    """Two and more of them on one line."""
    records = ["".join(json.dumps({"log": line}) for line in log_of(rank)) for rank in range(WORLD)]
    facts, findings, notes = judged(records)
    assert (facts, findings, notes.dropped) == (PLAIN, [], {})


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "utf-8"])
def test_a_log_in_utf_16_is_read(encoding):
    """As a PowerShell writes what it redirects; with its ends of lines."""
    notes = Notes()
    logs = NcclLogs("job", notes)
    text = "\r\n".join(line for _, line in ranks_lines()) + "\r\n"
    logs.read(io.BytesIO(text.encode(encoding)), 1_795_000_000.0)
    (first, *_) = logs.messages()
    assert first.event.facts.words["network"] == ["IB"] * 4
    assert not notes.dropped


@pytest.mark.parametrize("at", range(1, 8))
def test_lines_that_ran_together_are_told_apart(at):
    """Two ranks' lines without an end between them: nobody gets the other's words, and nobody is made up."""
    own, other = log_of(2), log_of(3)
    lines = [line for rank, line in ranks_lines() if rank not in (2, 3)]
    facts, findings, _ = judged([*lines, *own[:at], own[at] + other[at], *own[at + 1 :], *other[:at], *other[at + 1 :]])
    assert findings == []
    assert facts.keys() == PLAIN.keys()
    assert all(facts[rank].items() <= PLAIN[rank].items() for rank in facts)


def test_lines_of_hosts_that_nobody_knows_yet_run_together():
    """The first two lines of a log: what ends nowhere is left out and counted."""
    lines = [line for _, line in ranks_lines()]
    facts, findings, notes = judged(
        ["gpu-b:9:9 [0] NCCL INFO NCCL_ALGO set by environment to Ring,Tree" + lines[2], *lines]
    )
    assert (findings, facts) == ([], PLAIN)
    assert notes.dropped["lines that another line runs into"] == 1


@pytest.mark.parametrize("glued", ["Ring45%|##", "RingLoading checkpoint", "Ring[rank0]", "Ring\u2588\u2588"])
def test_a_word_seen_once_that_only_adds_text_accuses_nobody(glued):
    """Right behind the value, without a blank; it is counted."""
    facts, findings, notes = judged([line for _, line in ranks_lines(algo=glued)])
    assert (findings, facts) == ([], PLAIN)
    assert notes.dropped["words behind NCCL's own"] == 1


@pytest.mark.parametrize("other", ["Tree", "Ring,Tree", "RingTree", "allreduce:Ring"])
def test_another_value_is_still_a_mismatch(other):
    """Also one that begins alike."""
    _, (finding,), _ = judged([line for _, line in ranks_lines(algo=other)])
    assert (finding.kind, finding.ranks) == ("configuration_mismatch", [5])


@pytest.mark.parametrize(("word", "own"), [("1", "16"), ("IB", "IBext_v8"), ("2.27", "2.27.5"), ("IB", "IB_SHARP")])
def test_numbers_and_names_that_go_on_are_others(word, own):
    """They are NCCL's words, not another program's."""
    facts = {rank: {"fact": own if rank == 3 else word} for rank in range(WORLD)}
    assert plain_words(facts) == 0
    assert facts[3]["fact"] == own


def test_two_ranks_that_say_the_same_are_believed():
    """And so is one where no word is said by most."""
    facts = {rank: {"fact": "Ring!" if rank > 5 else "Ring"} for rank in range(WORLD)}
    assert plain_words(facts) == 0
    assert plain_words({0: {"fact": "Ring"}, 1: {"fact": "Ring!"}}) == 0


def test_a_host_whose_name_ends_like_anothers_is_its_own():
    """Containers give the same process ids on every host."""
    lines = [
        line.replace(f":{1000 + rank}:", ":7:").replace(f":{1050 + rank} ", ":57 ") for rank, line in ranks_lines()
    ]
    lines = [line.replace("gpu-b", "x-gpu-a") for line in lines]
    own = [f":{7}:", ":57 "]
    assert all(part in lines[0] for part in own)
    facts, findings, _ = judged([line for line in lines if "[0]" in line.split(" NCCL")[0]])
    assert (sorted(facts), findings) == ([0, 4], [])


def test_hostile_lines_cost_themselves():
    """Whatever stands in them."""
    for line in ('{"log": "' + "{" * 3000, "\x1b[" * 2000, "a:1:1 [0] NCCL INFO " * 200, '{"a": ' * 900):
        assert len(list(pieces(line))) < 1000
