"""Profiler traces as files: whose they are, which belong together, what is broken, however they are written."""

import gzip
import io
import json
import zlib

import pytest

from experiments.breakdown.traces import Made, document
from importers.__main__ import main
from importers.kineto import read
from importers.kineto_events import read_events
from importers.notes import Notes, SourceError
from paceline import recording, topics, wire

SMALL = Made(steps=2, layers=4)


def content(made=SMALL, **more):
    return document(made) | more


def write(path, what):
    path.parent.mkdir(parents=True, exist_ok=True)
    data = json.dumps(what).encode() if isinstance(what, dict) else what
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" and isinstance(what, dict) else data)
    return str(path)


def run(tmp_path, *files):
    """Import; the exit status, and the breakdowns by rank."""
    out = tmp_path / "out.jsonl"
    status = main(["kineto", *files, "-o", str(out)])
    told = {}
    for line in recording.read(str(out)) if out.exists() else ():
        event = wire.decode(topics.resolve(line.topic), line.value)
        told |= {one.rank: one for one in getattr(event, "breakdowns", ())}
    return status, told


def without_info(rank, **more):
    return document(Made(rank=rank, steps=2, layers=4, distributed=False)) | more


@pytest.mark.parametrize(
    "names",
    [
        ("worker0.171.pt.trace.json", "worker3.171.pt.trace.json"),
        ("rank0/trace.json.gz", "rank3/trace.json.gz"),
        ("trace_rank_0.json", "trace_rank_3.json"),
        ("rank-0.json", "rank-3.json"),
        ("171-TP-0.trace.json.gz", "171-TP-3.trace.json.gz"),
    ],
)
def test_ranks_from_names_and_folders(tmp_path, names):
    """Where distributedInfo does not tell them."""
    files = [write(tmp_path / name, without_info(rank)) for name, rank in zip(names, (0, 3), strict=True)]
    assert sorted(run(tmp_path, *files)[1]) == [0, 3]


def test_what_the_trace_says_goes_before_its_name(tmp_path):
    """A copy's name may be wrong."""
    assert list(run(tmp_path, write(tmp_path / "rank7.json", content()))[1]) == [0]


def test_a_lone_trace_that_names_no_rank_is_rank_0(tmp_path, capsys):
    """Two of them are refused, by name."""
    files = [write(tmp_path / name, without_info(0)) for name in ("a.json", "b.json")]
    assert list(run(tmp_path, files[0])[1]) == [0]
    assert run(tmp_path, *files)[0] == 2
    assert "a.json" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (Made(rank=1, world=4), "ranks"),
        (Made(rank=1, first_step=500), "steps"),
        (Made(rank=0), "rank 0 is already in"),
    ],
)
def test_two_jobs_are_refused(tmp_path, capsys, other, why):
    """Another world size, other steps, the same rank twice: one line that names the file, and no recording."""
    files = [write(tmp_path / "a.json", content(Made(rank=0))), write(tmp_path / "b.json", document(other))]
    assert run(tmp_path, *files) == (2, {})
    (line,) = capsys.readouterr().err.splitlines()
    assert "b.json" in line
    assert why in line


@pytest.mark.long
def test_traces_of_two_days_are_refused(tmp_path, capsys):
    """Where both have Unix time; a clock that counts from the machine's start says nothing."""
    day_ns = 86_400 * 10**9
    for base_ns, status in ((1_700_000_000 * 10**9, 2), (0, 0)):
        first = content(Made(rank=0), baseTimeNanoseconds=base_ns)
        second = content(Made(rank=1), baseTimeNanoseconds=base_ns + day_ns)
        files = [write(tmp_path / "a.json", first), write(tmp_path / "b.json", second)]
        assert run(tmp_path, *files)[0] == status
        assert ("24 hours apart" in capsys.readouterr().err) is bool(status)


WHOLE = json.dumps(content()).encode()
BROKEN = {
    "empty.json": b"",
    "blank.json": b" \n",
    "no.json": b"not JSON",
    "cut.json": WHOLE[: len(WHOLE) // 2],
    "list.json": b"[]",
    "none.json": b'{"traceEvents": []}',
    "other.json": b'{"a": 1}',
    "wrong.json": b'{"traceEvents": [{"ph": 3}]}',
    "cut.json.gz": gzip.compress(WHOLE)[:-200],
    "tail.json.gz": gzip.compress(WHOLE)[:-4],
    "plain.json.gz": WHOLE,
    "damaged.json.gz": gzip.compress(WHOLE)[:100] + bytes(100) + gzip.compress(WHOLE)[200:],
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_trace_is_named_and_the_others_are_imported(tmp_path, capsys, name):
    """Alone it is an error; among others it is left out, and told."""
    bad, good = write(tmp_path / name, BROKEN[name]), write(tmp_path / "good.json", content())
    status, told = run(tmp_path, bad)
    assert status in (1, 2)
    assert not told
    (line,) = capsys.readouterr().err.splitlines()
    assert name in line
    status, told = run(tmp_path, bad, good)
    assert (status, list(told)) == (0, [0])
    assert [line for line in capsys.readouterr().err.splitlines() if "left out" in line and name in line]


def test_only_broken_traces_are_an_error(tmp_path, capsys):
    """One line, and no recording."""
    files = [write(tmp_path / name, BROKEN[name]) for name in ("empty.json", "no.json")]
    assert run(tmp_path, *files) == (2, {})
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_what_a_trace_says_of_nccl_is_a_fact_of_its_rank(tmp_path):
    """Its version, where it is a word."""
    files = []
    for rank, version in enumerate(("2.21.5", 7)):
        about = {"backend": "nccl", "rank": rank, "world_size": 2, "nccl_version": version}
        files.append(write(tmp_path / f"{rank}.json", content(Made(rank=rank), distributedInfo=about)))
    assert run(tmp_path, *files)[0] == 0
    events = [
        wire.decode(topics.resolve(line.topic), line.value) for line in recording.read(str(tmp_path / "out.jsonl"))
    ]
    (facts,) = [event.facts for event in events if getattr(event, "facts", None) is not None]
    assert (facts.ranks, facts.words) == ([0, 1], {"nccl_version": ["2.21.5", ""]})


def columns(document_or_bytes):
    """What is read of a trace, in plain words."""
    data = document_or_bytes if isinstance(document_or_bytes, bytes) else json.dumps(document_or_bytes).encode()
    events = read_events(io.BytesIO(data), "t.json", Notes())
    tables = [table._asdict() for table in (events.device, events.launches, events.host)]
    # Names and threads are numbered as they come.
    tables = [{name: column.tolist() for name, column in table.items() if name != "thread"} for table in tables]
    for table in tables[::2]:
        table["name"] = [events.names[index] for index in table["name"]]
    return tables, events.base_s, events.about, sorted(events.device_told), sorted(events.host_told)


@pytest.mark.parametrize("piece", [700, 5000, 1 << 23])
def test_a_trace_is_the_same_however_it_is_written_and_read(monkeypatch, piece):
    """Indented, with what surrounds the events before or after them, with borders inside of words: in any pieces."""
    whole = content(Made(), baseTimeNanoseconds=5 * 10**9)
    whole["traceEvents"][3]["args"]["words"] = "}, {"
    whole["traceEvents"][4]["args"]["nested"] = [{"a": 1}, {"b": [{}, {}]}]
    want = columns(whole)
    monkeypatch.setattr("importers.kineto_pieces._PIECE", piece)
    monkeypatch.setattr("importers.kineto_pieces._TAIL", piece // 2)
    after = {"traceEvents": whole["traceEvents"], **whole, "more": [{"x": 1}, {"y": 2}]}
    deeper = {"before": {"traceEvents": [1]}, **whole}
    for form in (whole, json.dumps(whole, indent=2).encode(), after, deeper):
        assert columns(form) == want


def test_nanoseconds_are_not_lost():
    """Times relative to a base have three digits behind the microsecond."""
    made = document(SMALL)
    for event in made["traceEvents"]:
        event["ts"] = event["ts"] + 0.125
    found = read(io.BytesIO(json.dumps(made | {"baseTimeNanoseconds": 1_700_000_000 * 10**9}).encode()), "t", Notes())
    plain = read(io.BytesIO(json.dumps(content()).encode()), "t", Notes())
    assert [row.phases for row in found.rows] == [pytest.approx(row.phases, abs=1e-12) for row in plain.rows]


@pytest.mark.slow
def test_no_piece_of_a_trace_is_read_as_another():
    """Whatever byte is missing from a trace: the same trace less an event, or an error that names the file."""
    for place in range(0, len(WHOLE), 97):
        data = WHOLE[:place] + WHOLE[place + 1 :]
        try:
            read(io.BytesIO(data), "t.json", Notes())
        except SourceError as error:
            assert "t.json" in str(error)  # noqa: PT017


def test_zlib_is_named_too(tmp_path, capsys):
    """A stream of zlib's that is called gzip is no gzip."""
    path = write(tmp_path / "z.json.gz", zlib.compress(WHOLE))
    assert run(tmp_path, path)[0] in (1, 2)
    assert "z.json.gz" in capsys.readouterr().err
