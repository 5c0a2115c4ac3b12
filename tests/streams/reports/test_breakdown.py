"""``paceline analyze --breakdown``: where each rank's device spent its time, and traces in place of a recording."""

import gzip
import json
import os

import pytest

from experiments.breakdown.traces import Made, document
from paceline import recording, wire
from paceline.columns import whole
from paceline.events import RankBreakdown, Speakers, StepTimings
from paceline.topics import OP
from streams.analyze import main
from streams.profiler_traces import is_trace

NONE = whole([])
FIELDS = {
    "job", "rank", "steps", "span_s", "compute_s", "exposed_communication_s", "exposed_copy_s", "idle_s", "on_device",
    "launch_delay_s", "device", "lost_kernels", "whole",
}  # fmt: skip


def told(rank, compute_s=3.0, job="job", **more):
    values = {"steps": 2, "span_s": 10.0, "exposed_communication_s": 4.0, "exposed_copy_s": 1.0, "idle_s": 2.0}
    return job, RankBreakdown(rank=rank, compute_s=compute_s, **values | more)


def recorded(path, *breakdowns):
    """A recording with a message for each breakdown."""
    with path.open("wb") as out:
        for sequence, (job, one) in enumerate(breakdowns):
            event = StepTimings(
                cluster="c", producer="p", sequence=sequence, job=job, attempt=0, node="n", t0_s=1.0,
                speakers=Speakers(ranks=whole([one.rank]), world_sizes=whole([2]), devices=[""]),
                rank=NONE, step=NONE, start_s=NONE, step_s=NONE, phases={}, breakdowns=[one],
            )  # fmt: skip
            out.write(recording.render(OP.name, job, 0, wire.encode(event)))
    return str(path)


def objects(text):
    return [json.loads(line) for line in text.splitlines()]


def test_json_is_an_object_a_rank(tmp_path, capsys):
    """By job and rank, the last word on each, with the fields that the contract names."""
    path = recorded(tmp_path / "r.jsonl", told(1), told(0, 2.0), told(0, 3.0), told(0, job="another"))
    assert main([path, "--breakdown", "--json"]) == 0
    found = objects(capsys.readouterr().out)
    assert [(one["job"], one["rank"], one["compute_s"]) for one in found] == [
        ("another", 0, 3.0),
        ("job", 0, 3.0),
        ("job", 1, 3.0),
    ]
    assert all(set(one) == FIELDS for one in found)


def test_the_table_has_shares_and_says_where_operators_stand_for_kernels(tmp_path, capsys):
    """A row a rank; an empty span has no shares."""
    empty = {"span_s": 0.0, "exposed_communication_s": 0.0, "exposed_copy_s": 0.0, "idle_s": 0.0}
    rows = (told(0, launch_delay_s=0.002), told(1, 0.0, on_device=False, **empty))
    assert main([recorded(tmp_path / "r.jsonl", *rows), "--breakdown"]) == 0
    head, names, first, second, note = capsys.readouterr().out.splitlines()
    assert head.startswith("job job:")
    assert names.split()[:3] == ["rank", "steps", "span"]
    assert " ".join(first.split()) == "0 2 10.0 s 3.00 s 30% 4.00 s 40% 1.00 s 10% 2.00 s 20% 2.00 ms"
    assert second.split()[0] == "1"
    assert "rank 1" in note


def test_a_recording_without_one_says_so(tmp_path, capsys):
    """A live run's phases do not tell when a device was idle; no number is made up."""
    path = tmp_path / "r.jsonl"
    path.write_bytes(b"nonsense\n")
    assert main([str(path), "--breakdown", "--json"]) == 2
    out, err = capsys.readouterr()
    assert not out
    assert len(err.splitlines()) == 1
    assert "no breakdown" in err


@pytest.mark.long
def test_traces_are_analyzed_as_they_are(tmp_path, capsys):
    """By way of the command that imports them; that is told, and a broken one among them left out."""
    files = []
    for rank in (0, 1):
        path = tmp_path / f"rank{rank}.json.gz"
        path.write_bytes(gzip.compress(json.dumps(document(Made(rank=rank))).encode()))
        files.append(str(path))
    assert main([*files, "--breakdown", "--json"]) == 0
    out, err = capsys.readouterr()
    assert [(one["rank"], one["steps"]) for one in objects(out)] == [(0, 3), (1, 3)]
    for one in objects(out):
        parts = sum(one[name] for name in ("compute_s", "exposed_communication_s", "exposed_copy_s", "idle_s"))
        assert parts == pytest.approx(one["span_s"])
    assert "imported" in err
    broken = tmp_path / "rank2.json.gz"
    broken.write_bytes((tmp_path / "rank0.json.gz").read_bytes()[:500])
    assert main([str(broken), *files, "--panel"]) in (0, 2)
    assert "rank2.json.gz" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b'{"traceEvents": []}', True),
        (b' {"schemaVersion": 1, "deviceProperties": [], "topic": 1}', True),
        (b'{"topic": "op", "value": {"x": "\\"traceEvents\\""}}', False),
        (b"[1]", False),
        (b"", False),
    ],
)
def test_a_trace_is_told_from_a_recording(tmp_path, content, found):
    """By what stands in it before anything is called a topic; packed, too, and broken off."""
    plain, packed = tmp_path / "a.json", tmp_path / "a.json.gz"
    plain.write_bytes(content)
    packed.write_bytes(gzip.compress(content)[:-4])
    assert is_trace(str(plain)) is is_trace(str(packed)) is found


def test_a_pipe_is_read_once(tmp_path):
    """It is a recording, whatever is in it."""
    os.mkfifo(tmp_path / "pipe")
    assert not is_trace(str(tmp_path / "pipe"))


def test_a_broken_trace_is_named(tmp_path, capsys):
    """Alone, it costs one line more than the one that says what it is."""
    path = tmp_path / "t.json"
    path.write_bytes(json.dumps(document(Made())).encode()[:5000])
    assert main([str(path), "--breakdown"]) == 2
    assert "t.json: no PyTorch profiler trace" in capsys.readouterr().err


def test_several_files_that_are_no_traces_are_refused(tmp_path, capsys):
    """Recordings are judged one at a time."""
    files = [recorded(tmp_path / f"{name}.jsonl", told(0)) for name in "ab"]
    assert main(files) == 2
    assert "one recording at a time" in capsys.readouterr().err
