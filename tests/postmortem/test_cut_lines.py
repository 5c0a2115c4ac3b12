"""Logs whose lines were cut in two, by a container runtime, a log driver, a shipper or a terminal."""

import itertools
import json
import re
from pathlib import Path

import pytest

from postmortem.deciding.decide import decide
from postmortem.reading.files import read

CASES = Path(__file__).parent / "cases"
FIELDS = ("kind", "ranks", "victims", "nodes", "group", "seq", "line", "others_line")
STAMP = "2026-11-20T09:13:57.123456789Z"
DIED = (
    "[rank2]: Traceback (most recent call last):\n"
    '[rank2]:   File "/app/train.py", line 10, in step\n'
    "[rank2]:     work()\n"
    "[rank2]: ValueError: bad label\n"
)
LONG = "x" * 20_000


def pieces(line, width):
    return [line[at : at + width] for at in range(0, len(line), width)] or [""]


def runtime(lines, width):
    for line in lines:
        *cut, last = pieces(line, width)
        yield from (f"{STAMP} stderr P {part}" for part in cut)
        yield f"{STAMP} stderr F {last}"


def docker(lines, width):
    for line in lines:
        for part in pieces(f"{line}\n", width):
            yield json.dumps({"log": part, "stream": "stderr", "time": STAMP})


def fluent(lines, width):
    for number, line in enumerate(lines):
        cut = pieces(line, width)
        for ordinal, part in enumerate(cut, 1):
            last = str(ordinal == len(cut)).lower()
            marks = (
                {"partial_message": "true", "partial_id": f"i{number}", "partial_last": last} if len(cut) > 1 else {}
            )
            yield json.dumps({"container_id": "a1", "log": part, "source": "stderr", **marks})


def fluent_bit(lines, width):
    for line in lines:
        *cut, last = pieces(line, width)
        yield from (json.dumps({"log": part, "stream": "stderr", "logtag": "P", "time": STAMP}) for part in cut)
        yield json.dumps({"log": last, "stream": "stderr", "logtag": "F", "time": STAMP})


def terminal(lines, width):
    for line in lines:
        yield from pieces(line, width)


CUT = {function.__name__: function for function in (runtime, docker, fluent, fluent_bit, terminal)}


def verdict(path):
    return decide(read([str(path)], 1 << 30).statements)


def fields(made):
    return [(name, getattr(made, name)) for name in FIELDS]


@pytest.mark.parametrize("width", [80, 100, 120, 137, 200])
@pytest.mark.parametrize("how", CUT)
@pytest.mark.parametrize("case", ["02", "05"])
def test_a_log_whose_lines_were_cut_gives_the_same_verdict(tmp_path, case, how, width):
    lines = (CASES / case / "job.log").read_text().splitlines()
    for file in (CASES / case).rglob("*"):
        if file.is_file() and file.name not in ("job.log", "verdict.json"):
            (tmp_path / file.relative_to(CASES / case)).parent.mkdir(exist_ok=True, parents=True)
            (tmp_path / file.relative_to(CASES / case)).write_bytes(file.read_bytes())
    (tmp_path / "job.log").write_text("".join(f"{line}\n" for line in CUT[how](lines, width)))
    assert fields(verdict(tmp_path)) == fields(verdict(CASES / case))


@pytest.mark.parametrize("how", ["runtime", "docker", "fluent", "fluent_bit"])
def test_what_stands_behind_16384_characters_is_read(tmp_path, how):
    gone = "srun: error: node-3: task 2: Killed"
    lines = [f"[rank0]: {LONG}", *DIED.splitlines()[:-1], f"[rank2]: ValueError: {LONG}", f"{LONG} {gone}"]
    (tmp_path / "job.log").write_text("".join(f"{line}\n" for line in CUT[how](lines, 16384)))
    read_ = read([str(tmp_path)], 1 << 30).statements
    assert (decide(read_).ranks, decide(read_).line) == ((2,), "/app/train.py:10 step")
    assert [one.node for one in read_ if type(one).__name__ == "Exit"] == ["node-3"]


def test_a_word_that_is_cut_far_in_a_long_line_is_found(tmp_path):
    timeout = next(line for line in (CASES / "02" / "job.log").read_text().splitlines() if "Watchdog caught" in line)
    said = f"{'x' * 16_300} {timeout}"
    (tmp_path / "job.log").write_text("".join(f"{line}\n" for line in docker([said, "end"], 16384)))
    (statement,) = [one for one in read([str(tmp_path)], 1 << 30).statements if type(one).__name__ == "Timeout"]
    assert statement.operation


def test_parts_of_two_streams_keep_apart(tmp_path):
    out = [f"{STAMP} stdout P step 1 ", f"{STAMP} stdout F loss 0.5"] * 4
    err = list(runtime(DIED.splitlines(), 20))
    mixed = [line for pair in itertools.zip_longest(err, out) for line in pair if line]
    (tmp_path / "job.log").write_text("".join(f"{line}\n" for line in mixed))
    assert (verdict(tmp_path).ranks, verdict(tmp_path).line) == ((2,), "/app/train.py:10 step")


def test_a_part_whose_rest_is_missing_is_read_as_it_is(tmp_path):
    (tmp_path / "job.log").write_text("".join(f"{STAMP} stderr P {line}\n" for line in DIED.splitlines()[-1:]))
    assert verdict(tmp_path) is None or verdict(tmp_path).ranks == ()
    (tmp_path / "job.log").write_text(
        "".join(f"{STAMP} stderr F {line}\n" for line in DIED.splitlines()[:-1])
        + f"{STAMP} stderr P {DIED.splitlines()[-1]}"
    )
    assert verdict(tmp_path).ranks == (2,)


def test_parts_without_an_end_take_bounded_memory(tmp_path):
    part = f"{STAMP} stderr P {'x' * 1000}\n"
    (tmp_path / "job.log").write_text(
        part * 1000 + "".join(f"{STAMP} stderr F {line}\n" for line in ["", *DIED.splitlines()])
    )
    assert verdict(tmp_path).ranks == (2,)


def test_records_that_never_end_a_line_are_whole(tmp_path):
    lines = [json.dumps({"log": line, "stream": "stderr"}) for line in DIED.splitlines()]
    (tmp_path / "job.log").write_text("".join(f"{line}\n" for line in lines))
    assert (verdict(tmp_path).ranks, verdict(tmp_path).line) == ((2,), "/app/train.py:10 step")


@pytest.mark.parametrize("width", [80, 93])
def test_lines_that_only_happen_to_be_as_wide_stay_apart(tmp_path, width):
    """Frames as long as the widest line of the log."""
    frame = '  File "/app/{}.py", line 10, in step'
    frame = frame.format("t" * (width - len(frame) + 2))
    said = "Traceback (most recent call last):\n" + f"{frame}\n    work()\n" * 3 + "ValueError: no\n"
    assert len(frame) == width
    (tmp_path / "rank2.log").write_text(said + "step 1\n" * 50)
    found = verdict(tmp_path)
    assert (found.ranks, found.line) == ((2,), f"/app/{re.search('t+', frame)[0]}.py:10 step")


def test_the_number_of_a_line_behind_cut_ones_is_right(tmp_path):
    lines = [*(f"step {n} {'x' * 150}" for n in range(5)), *DIED.splitlines()]
    written = list(terminal(lines, 80))
    (tmp_path / "job.log").write_text("".join(f"{line}\n" for line in written))
    assert verdict(tmp_path).grounds[0].line == written.index("[rank2]: ValueError: bad label") + 1


EVENTS = {
    "aws logs get-log-events": lambda lines: {
        "events": [{"timestamp": 7, "message": line, "ingestionTime": 8} for line in lines],
        "nextForwardToken": "f/1",
    },
    "a subscription": lambda lines: {
        "messageType": "DATA_MESSAGE",
        "logEvents": [{"id": "1", "timestamp": 7, "message": line} for line in lines],
    },
    "a collector of OpenTelemetry": lambda lines: {
        "resourceLogs": [
            {
                "resource": {"attributes": [{"key": "host.name", "value": {"stringValue": "n1"}}]},
                "scopeLogs": [{"scope": {}, "logRecords": [{"body": {"stringValue": line}} for line in lines]}],
            }
        ]
    },
    "a list of entries": lambda lines: [{"textPayload": line, "severity": "ERROR"} for line in lines],
    "hits of a search": lambda lines: {"hits": {"hits": [{"_source": {"log": line}} for line in lines]}},
}


@pytest.mark.long
@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("noise", [0, 3000])
@pytest.mark.parametrize("form", EVENTS)
def test_one_document_of_log_events_is_read(tmp_path, form, noise, indent):
    lines = [*(f"[rank0]: step {step} loss 0.5" for step in range(noise)), *DIED.splitlines()]
    (tmp_path / "events.json").write_text(json.dumps(EVENTS[form](lines), indent=indent))
    found = verdict(tmp_path)
    assert (found.ranks, found.line) == ((2,), "/app/train.py:10 step")


@pytest.mark.parametrize("form", EVENTS)
@pytest.mark.parametrize("at_once", [1, 4])
def test_batches_of_log_events_a_line_each_are_read(tmp_path, form, at_once):
    """As collectors append them to a file."""
    lines = [*(f"[rank0]: step {step} loss 0.5" for step in range(300)), *DIED.splitlines()]
    batches = [lines[at : at + at_once] for at in range(0, len(lines), at_once)]
    (tmp_path / "events.jsonl").write_text("".join(f"{json.dumps(EVENTS[form](batch))}\n" for batch in batches))
    found = verdict(tmp_path)
    assert (found.ranks, found.line) == ((2,), "/app/train.py:10 step")


@pytest.mark.slow
@pytest.mark.parametrize(
    "first", ["{'lr': 0.1}", '{"lr": 0.1, "layers": [1', '{\n  "lr": 0.1\n}', "{rank} starts", "[{", "{}"]
)
def test_a_log_that_begins_like_json_is_a_log(tmp_path, first):
    """Scripts print their options first."""
    (tmp_path / "job.log").write_text(f"{first}\n" + "[rank0]: step\n" * 9000 + DIED)
    assert (verdict(tmp_path).ranks, verdict(tmp_path).line) == ((2,), "/app/train.py:10 step")


def test_a_document_without_log_events_says_nothing(tmp_path):
    (tmp_path / "config.json").write_text(
        json.dumps({"model": {"layers": [1, 2]}, "errors": ["ValueError: no"]}, indent=2)
    )
    assert verdict(tmp_path) is None
