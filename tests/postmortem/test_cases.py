"""Jobs that hung or died, each through the whole path: the verdict is the one that lies beside the files."""

import json
import random
import re
import shutil
from pathlib import Path

import msgspec
import pytest

from paceline import words
from paceline.events import Finding
from postmortem.__main__ import main
from postmortem.deciding.decide import decide
from postmortem.reading.files import read

CASES = sorted(path for path in (Path(__file__).parent / "cases").iterdir() if path.is_dir())
FIELDS = ("kind", "ranks", "victims", "nodes", "group", "seq", "line", "others_line", "worker_line")


#: What a case's cause must say, and what it must not: the meaning of ``cause`` and ``not`` beside the files.
MEANT = {
    "01": (("rank 2 is in barrier", "all_reduce number 18", "one all_reduce less"), ("network", "rank 0")),
    "02": (("rank 5 is the only one that reports no timeout in group fsdp", "11 against 12", "7753"), ("rank 0",)),
    "03": (("input: rank 3 waits for its loader", "worker 41377", "uninterruptible", "0042.tar"), ("network", "211")),
    "04": (("out of host memory", "pid 7202", "rank 2 on node-1", "memory limit of its job"), ("rank 0", "first")),
    "05": (("rank 2 was still in load_shard", "all_reduce timed out", "SIGTERM"), ("rank 0", "crash")),
    "06": (("rank 2 gives 2004 bytes to all_reduce 17", "the others give 2000"), ("rank 1", "memory", "network")),
    "07": (("wait in barrier for rank 0", "write_checkpoint", "moves: 191304 bytes"), ("hang",)),
    "08": (("ranks 0 and 1 wait in group default_pg for ranks 2 and 3", "group second"), ("missing", "network")),
    "09": (("both ends", "retries (status 12)", "only the kernel of node-3", "mlx5_3", "lost the link"), ("rank",)),
    "10": (("Xid 79 on the GPU of rank 12", "only where the host noticed it"), ("backward", "rank 3", "rank 0")),
    "11": (("rank 2: KeyError: 'Grüße' at /home/ray/data.py:31 encode",), ("train.py", "rank 0", "RayTaskError")),
    "12": (("rank 5 was killed (SIGKILL)",), ("rank 1", "rank 0")),
    "13": (("rank 3: json.decoder.JSONDecodeError", "/app/shards.py:18 read"), ("rank 0", "rank 2", "NCCL")),
    "14": (("rank 3", "913"), ("rank 0 ", "dump")),
    "15": (("rank 3 is in broadcast", "all_reduce number 9"), ("rank 0",)),
    "16": (("rank 1 called ALLREDUCE, TensorShape=[501]", "TensorShape=[500]"), ("rank 3", "layout")),
    "17": (("rank 1", "Aborted"), ("rank 0", "rank 2", "whose")),
    "18": (("rank 3", "exit code 0", "left early"), ("rank 0",)),
    "19": (("rank 3", "Segmentation fault"), ("rank 0", "whose")),
    "20": (("rank 0", "disk is full", "Errno 28"), ("rank 1", "inline_container")),
    "21": (("rank 5 (process 48005 on 172.16.64.210, GPU 5)", "AllReduce up to 60", "not moved"), ("in flight",)),
    "22": (("rank 3 (process 48003 on 172.16.64.210, GPU 3)", "considers it dead", "is stopped"), ("launched",)),
}
#: What the advice is about, where the case leaves some; the word is in it whatever its sentence.
NEXT = {
    "02": "stack of rank 5",
    "04": "memory",
    "07": "no hang",
    "08": "same order",
    "09": "node-3",
    "10": "node-1",
    "21": "--pid 48005",
}


def found(path, capsys):
    assert main([str(path), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_the_verdict_is_right(case, tmp_path, capsys):
    wanted = json.loads((case / "verdict.json").read_text())
    finding = found(case, capsys)
    got = {name: finding[name] for name in FIELDS if name in wanted}
    if case.name == "07":  # No file there says the folder of the script.
        wanted["line"] = wanted["line"].removeprefix("/workspace/")
    assert got == {name: wanted[name] for name in got}


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_the_cause_and_the_advice_mean_what_is_right(case):
    wanted = json.loads((case / "verdict.json").read_text())
    made = decide(read([str(case)], 1 << 30).statements)
    says, says_not = MEANT[case.name]
    assert [words for words in says if words not in made.cause] == []
    assert [words for words in says_not if words in made.cause] == []
    assert made.sure == wanted.get("sure", made.sure)
    assert made.sure in ("certain", "likely")
    assert NEXT.get(case.name, "") in (made.next or "")


#: The title on the page and in alerts: kind, whom it is about, and the line of code whole.
TITLES = {
    "01": "Different collectives: rank 2, /workspace/job.py:45 evaluate",
    "02": "Hang: rank 5",
    "03": (
        "Hang: rank 3, /workspace/train.py:204 train_step, "
        "loader worker at shards.py:88 read_shard (dataset.py:54 __getitem__)"
    ),
    "04": "Died: rank 2",
    "05": "Hang: rank 2, /workspace/train.py:14 load_shard",
    "06": "Different collectives: rank 2, /workspace/job.py:44 sync_gradients",
    "07": "Waiting, no hang: the whole job, job.py:81 main, in write_checkpoint",
    "08": "Deadlock of groups: group default_pg, /workspace/job.py:90 main",
    "09": "Network fault: node-3 (mlx5_3)",
    "10": "Device fault: rank 12, /workspace/train.py:131 step",
    "11": "Died: rank 2, /home/ray/data.py:31 encode",
    "12": "Died: rank 5",
    "13": "Died: rank 3, /app/shards.py:18 read",
    "14": "Hang: rank 3",
    "15": "Different collectives: rank 3",
    "16": "Different collectives: rank 1, /app/job.py:46 reduce",
    "17": "Died: rank 1, /app/job.py:31 work",
    "18": "Died: rank 3",
    "19": "Died: rank 3, /app/job.py:21 work",
    "20": "Died: rank 0, /app/job.py:43 save",
    "21": "Hang: rank 5",
    "22": "Hang: rank 3",
}


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_the_title_names_the_kind_whom_and_the_line_whole(case, capsys):
    finding = msgspec.convert(found(case, capsys), Finding)
    title = words.verdict(finding)
    assert title == TITLES[case.name]
    assert (finding.line or "") in title
    # The sentence, which the title has no room for, is whole in the summary.
    assert finding.summary.rstrip(".").lower() == finding.cause.lower()


#: What other tools do to a log that does not change what it says.
REWRITTEN = {
    "colours": lambda line: f"\x1b[31m{line}\x1b[0m",
    "log driver": lambda line: json.dumps({"log": f"{line}\n", "stream": "stderr"}),
    "stamps of a container": lambda line: f"2026-11-20T09:13:57.123456789Z {line}",
    "stamps of a logger": lambda line: f"2026-11-20 09:13:57,123 {line}",
    "stamps in brackets": lambda line: f"[Nov 20 09:13:57] {line}",
    "no time": lambda line: re.sub(r"\[E\d{4} [\d:.]+ ", "[E ", line),
    "carriage returns": lambda line: f"{line}\r",
    "each line twice": lambda line: f"{line}\n{line}",
}


@pytest.mark.parametrize("how", REWRITTEN)
@pytest.mark.parametrize("case", [case for case in CASES if list(case.glob("*.log"))], ids=lambda path: path.name)
def test_what_tools_do_to_a_log_does_not_change_the_verdict(case, how, tmp_path):
    copy = tmp_path / "case"
    shutil.copytree(case, copy)
    for log in copy.glob("*.log"):
        lines = log.read_text().splitlines()
        log.write_text("".join(f"{REWRITTEN[how](line) if line.strip() else line}\n" for line in lines))
    made, wanted = (decide(read([str(folder)], 1 << 30).statements) for folder in (copy, case))
    assert [(name, getattr(made, name)) for name in FIELDS] == [(name, getattr(wanted, name)) for name in FIELDS]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", ["02", "05", "09", "10"])
def test_the_order_in_which_ranks_speak_does_not_change_the_verdict(name, seed, tmp_path):
    """Lines of one rank keep their order."""
    case, order = next(case for case in CASES if case.name == name), random.Random(seed)
    copy = tmp_path / "case"
    shutil.copytree(case, copy)
    said: dict[str, list[str]] = {}
    for line in (copy / "job.log").read_text().splitlines(keepends=True):
        rank = re.search(r"\[(?:rank|default)\d+\]", line)
        said.setdefault(rank[0] if rank else "", []).append(line)
    turns = [rank for rank, lines in said.items() for _ in lines]
    order.shuffle(turns)
    (copy / "job.log").write_text("".join(said[rank].pop(0) for rank in turns))
    made, wanted = (decide(read([str(folder)], 1 << 30).statements) for folder in (copy, case))
    assert [(name, getattr(made, name)) for name in FIELDS] == [(name, getattr(wanted, name)) for name in FIELDS]


def test_the_verdict_beside_the_files_is_no_evidence(tmp_path, capsys):
    (tmp_path / "verdict.json").write_text((CASES[0] / "verdict.json").read_text())
    assert main([str(tmp_path)]) == 1
    assert capsys.readouterr().out == ""


def test_text_names_the_rank_the_line_and_the_victims(capsys):
    assert main([str(CASES[0])]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Ranks called different collectives: rank 2 (certain)"
    assert "  line     /workspace/job.py:45 evaluate" in lines
    assert "  victims  ranks 0, 1 and 3" in lines
