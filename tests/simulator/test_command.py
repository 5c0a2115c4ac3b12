"""``paceline simulate``: what it writes, and what it says when it cannot."""

import contextlib
import json
import secrets

import pytest

from paceline import columns, topics, wire
from paceline.kafka import clients
from paceline.recording import Line, read
from simulator.__main__ import main


def test_recording_and_truth_are_written(tmp_path):
    """The recording holds events of the job, the truth its fault."""
    out, truth = tmp_path / "job.jsonl", tmp_path / "truth.json"
    options = ["--ranks", "4", "--steps", "20", "--job", "made-up", "--fault", "gc:rank=1,from=5"]
    assert main([*options, "-o", str(out), "--truth", str(truth)]) == 0
    lines = list(read(str(out)))
    assert lines
    assert all(isinstance(line, Line) and line.key.startswith("made-up") for line in lines)
    (fault,) = json.loads(truth.read_text())["faults"]
    assert (fault["cause"], fault["ranks"], fault["first_step"]) == ("garbage_collection", [1], 5)


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["-o", "x.jsonl", "--brokers", "localhost:1"],
        ["-o", "/nowhere/x.jsonl"],
        ["-o", "x.jsonl", "--pp", "3"],
        ["-o", "x.jsonl", "--tp", "0"],
        ["-o", "x.jsonl", "--stage-skew", "last"],
        ["-o", "x.jsonl", "--fault", "bad"],
        ["-o", "x.jsonl", "--fault", "link:rank=1", "--collectives", "0"],
    ],
)
def test_wrong_options_cost_one_line(options, capsys, tmp_path, monkeypatch):
    """Each wrong option ends with status 2 and one line."""
    monkeypatch.chdir(tmp_path)
    assert main(options) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.bus
def test_a_job_can_be_put_on_the_bus(broker, until):
    """Every message of the job reaches the brokers under its key, and decodes as its topic's event."""
    job = f"job-{secrets.token_hex(4)}"
    options = ["--job", job, "--ranks", "4", "--steps", "12", "--step-s", "0.2", "--collectives", "0"]
    assert main([*options, "--brokers", broker.address, "--speed", "0"]) == 0
    steps = set()
    with contextlib.closing(clients.consumer(broker, topics.OP, from_beginning=True, client_id="test")) as consumer:

        def complete():
            for found in consumer.poll(timeout_ms=500).values():
                for message in found:
                    if message.key == job.encode():
                        event = wire.decode(topics.OP, message.value)
                        steps.update(zip(columns.numbers(event.rank), columns.numbers(event.step), strict=True))
            return len(steps) == 4 * 12

        until(complete)
