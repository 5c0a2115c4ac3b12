"""``paceline forecaster`` as people start it, and its interface under a hundred wrong questions."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path

import httpx
import numpy as np
import psutil
import pytest

from forecaster.__main__ import main
from forecaster.models import network

BIN = Path(sys.executable).parent
Start = Callable[..., subprocess.Popen[str]]
QUESTION = {"values": [1.0, 2.0, 3.0] * 10, "interval_s": 1.0, "horizon": 2}


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts the command; what it says is on one pipe."""
    made: list[subprocess.Popen[str]] = []

    def run(*arguments: str, **environ: str) -> subprocess.Popen[str]:
        command = [str(BIN / "paceline"), "forecaster", *arguments]
        own = {**os.environ, "OMP_NUM_THREADS": "1", **environ}
        process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=own)
        made.append(process)
        return process

    yield run
    for process in made:
        process.kill()
        process.wait()
        if process.stderr is not None:
            process.stderr.close()


def address_of(process: subprocess.Popen[str]) -> str:
    """Where it listens, by its own words."""
    assert process.stderr is not None
    for line in process.stderr:
        if "listening on " in line:
            return line.split("listening on ")[1].split(";")[0].strip()
    raise AssertionError("it did not start")


def answers(address: str) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return httpx.get(f"{address}/healthz").status_code == 200
    return False


@pytest.mark.landing
@pytest.mark.e2e
def test_it_answers_without_a_broker_and_stops_when_told(start: Start, until: Callable[..., None]) -> None:
    """Questions need nothing but the command; a batch is shared out over processes; SIGTERM ends it cleanly."""
    process = start("--no-bus", "--port", "0", "--processors", "2")
    address = address_of(process)
    until(lambda: answers(address))
    assert len(httpx.post(f"{address}/v1/forecast", json=QUESTION).json()["values"]) == 2
    batch = httpx.post(f"{address}/v1/forecast/batch", json={"questions": [QUESTION] * 100}, timeout=None)
    assert len(batch.json()["answers"]) == 100
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 0


def lives(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    return False


@pytest.mark.e2e
def test_killed_it_leaves_no_process_behind(start: Start, until: Callable[..., None]) -> None:
    """The processes that share out a batch have nobody to tell them: they see it for themselves."""
    process = start("--no-bus", "--port", "0", "--processors", "2")
    address = address_of(process)
    until(lambda: answers(address))
    httpx.post(f"{address}/v1/forecast/batch", json={"questions": [QUESTION] * 100}, timeout=None)
    workers = psutil.Process(process.pid).children(recursive=True)
    assert len(workers) >= 3
    process.kill()
    until(lambda: not any(map(lives, workers)))


@pytest.fixture
def other_weights(tmp_path: Path) -> Path:
    """Weights that forecast everything five scales higher than those shipped do."""
    with resources.files("forecaster.models").joinpath(network.WEIGHTS).open("rb") as opened, np.load(opened) as table:
        arrays = dict(table)
    last = max(name for name in arrays if name.startswith("decoder.") and name.endswith(".bias"))
    arrays[last][:, 0] += 5.0
    path = tmp_path / "other.npz"
    np.savez(path, **arrays)
    return path


@pytest.mark.e2e
def test_a_batch_is_answered_by_the_weights_that_were_given(
    start: Start, until: Callable[..., None], other_weights: Path
) -> None:
    """Worker processes answer with ``--network FILE`` as the service itself does, not with the shipped weights."""
    process = start("--no-bus", "--port", "0", "--processors", "2", "--network", str(other_weights))
    address = address_of(process)
    until(lambda: answers(address))
    question = QUESTION | {"model": "network"}
    alone = httpx.post(f"{address}/v1/forecast", json=question, timeout=None).json()
    batch = httpx.post(f"{address}/v1/forecast/batch", json={"questions": [question] * 100}, timeout=None).json()
    assert alone["values"][0][4] > 5.0
    assert batch["answers"] == [alone] * 100


@pytest.mark.e2e
def test_it_answers_while_the_broker_is_away(start: Start, until: Callable[..., None]) -> None:
    """Questions are answered, and /readyz says what it waits for."""
    process = start("--port", "0", "--brokers", "127.0.0.1:9")
    address = address_of(process)
    until(lambda: answers(address))
    waits = httpx.get(f"{address}/readyz")
    assert waits.status_code == 503
    question = {"values": [1.0, 2.0], "interval_s": 1.0, "horizon": 1}
    assert httpx.post(f"{address}/v1/forecast", json=question).status_code == 200


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--no-bus", "--network", "/nowhere.npz"], "--network"),
        (["--no-bus", "--port", "0", "--prometheus", "http://127.0.0.1:9"], "--prometheus"),
        (["--no-bus", "--address", "192.0.2.1"], "--port"),
        (["train", "/nowhere.jsonl", "--out", "/tmp/never.npz"], "nowhere"),
    ],
)
def test_what_cannot_be_done_is_one_line(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Cause and mend on one line, and a status that is not 0."""
    assert main(arguments) != 0
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("paceline forecaster:")]
    assert words in line


@pytest.mark.slow
def test_the_interface_keeps_its_word(address: str) -> None:
    """Whatever is sent to any route, the answer is one that OpenAPI declares, and never a server error."""
    # Here, not above: every process that collects tests would spend half a second on it, and beside the wheel, where
    # this test is left out, there are no experiments.
    import schemathesis

    from experiments.fuzzing import http

    operations = http.operations("forecaster", schemathesis.openapi.from_url(f"{address}/openapi.json"))
    assert set(operations) == {name for name in http.names() if name.startswith("http forecaster ")}
    assert len(operations) >= 12
    for operation in operations.values():
        assert http.ask(operation, 12, 0) >= 1
