"""``paceline suggestions``: what is listed, in which order, and what comes of accepting and dismissing."""

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator

import pytest

from paceline import topics, wire
from paceline.commands import suggestions
from paceline.events import Gain, Suggestion
from paceline.kafka import clients
from paceline.kafka.settings import BrokerSettings

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(broker: BrokerSettings) -> Run:
    """Runs the command as a user would."""

    def run(*words: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-W", "ignore", "-m", "paceline", "suggestions", *words, "--brokers", broker.address]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    return run


def made(job: str, number: int = 0, **fields: object) -> Suggestion:
    """A suggestion about ``job``."""
    now_s = time.time()
    said: dict[str, object] = {
        "id": f"{job}-{number}", "revision": 1, "cluster": "c", "action": "rebalance", "target": f"job:{job}",
        "job": job, "state": "new", "severity": "warning", "title": f"Title {number}", "reason": "It is slow.",
        "created_s": now_s - 600, "updated_s": now_s - 600, "expires_s": now_s + 600,
    }  # fmt: skip
    return Suggestion(**(said | fields))  # type: ignore[arg-type]


def mishaps(said: str) -> list[str]:
    """The lines on standard error, but for those that say that it waits for a broker that is slow to answer."""
    return [line for line in said.splitlines() if not line.endswith("; waiting for it")]


def publish(settings: BrokerSettings, *told: Suggestion) -> None:
    producer = clients.producer(settings, "test")
    for one in told:
        producer.send(topics.SUGGESTION.name, key=one.id.encode(), value=wire.encode(one))
    producer.flush()
    producer.close()


@pytest.mark.bus
def test_what_is_open_is_listed_the_largest_gain_first(broker: BrokerSettings, run: Run) -> None:
    """The newest revision of each, with its age, gain, steps and command; what is over, with --all."""
    job = f"listed-{uuid.uuid4().hex}"
    large = Gain(gpu_hours_per_day=40.0, gpu_hours_low=30.0, gpu_hours_high=50.0)
    publish(
        broker,
        made(job, 1, gain=Gain(gpu_hours_per_day=2.0)),
        made(job, 2, gain=Gain(gpu_hours_per_day=1.0)),
        made(job, 2, revision=2, gain=large, steps=["Look at n1."], apply=["scontrol update"], title="\x1b[31mRed"),
        made(job, 3, state="dismissed", by="ada", because="planned"),
        made(job, 4, expires_s=time.time() - 1),
        made(job, 5, state="a state of later"),
    )
    listed = run("--job", job)
    assert listed.returncode == 0
    assert mishaps(listed.stderr) == []
    heads = [line for line in listed.stdout.splitlines() if not line.startswith(" ")]
    assert [line.split()[0] for line in heads] == [f"{job}-2", f"{job}-1", f"{job}-5"]
    assert heads[0] == f"{job}-2  new, 10 min ago  +40 device-hours a day (30 to 50)"
    assert "    - Look at n1.\n    $ scontrol update\n" in listed.stdout
    assert "\x1b" not in listed.stdout
    every = run("--job", job, "--all", "--json")
    told = [json.loads(line) for line in every.stdout.splitlines()]
    assert {one["id"]: one["revision"] for one in told} == {
        f"{job}-{number}": 1 + (number == 2) for number in range(1, 6)
    }
    assert "by ada: planned" in run("--job", job, "--all").stdout


@pytest.mark.bus
def test_nothing_suggested_is_said(broker: BrokerSettings, run: Run) -> None:
    """Status 0, nothing on standard output; how many are over is told."""
    job = f"over-{uuid.uuid4().hex}"
    assert run("--job", job).stderr == "paceline suggestions: nothing is suggested\n"
    publish(broker, made(job, 1, state="expired"))
    done = run("--job", job)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "paceline suggestions: nothing is suggested; 1 are over (--all)\n"
    assert run("--job", job, "--all", "--cluster", "another").stdout == ""


@pytest.mark.bus
def test_watching_tells_what_changes(broker: BrokerSettings, until: Callable[..., object]) -> None:
    """Each revision once, those of other jobs never."""
    job = f"watched-{uuid.uuid4().hex}"
    publish(broker, made(job, 1))
    command = [sys.executable, "-W", "ignore", "-m", "paceline", "suggestions", "--watch", "--json", "--job", job]
    with subprocess.Popen([*command, "--brokers", broker.address], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert json.loads(process.stdout.readline())["revision"] == 1
            publish(broker, made(f"{job}-other"), made(job, 1), made(job, 1, revision=2, state="accepted"))
            latest = json.loads(process.stdout.readline())
            assert (latest["revision"], latest["state"]) == (2, "accepted")
        finally:
            process.terminate()


@pytest.fixture
def worker(broker: BrokerSettings) -> Iterator[None]:
    """A worker, as its users start it."""
    command = [sys.executable, "-W", "ignore", "-m", "streams", "--brokers", broker.address, "--log-level", "error"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        yield
        process.terminate()


@pytest.mark.bus
@pytest.mark.e2e
@pytest.mark.usefixtures("worker")
def test_what_no_worker_knows_is_refused_with_its_words(broker: BrokerSettings, run: Run) -> None:
    """Listed, but made by nobody: the worker that owns the cluster says so, and the status is 1."""
    job = f"forged-{uuid.uuid4().hex}"
    publish(broker, made(job, 1))
    done = run("--accept", f"{job}-1", "--wait", "200")
    assert done.returncode == 1
    assert mishaps(done.stderr) == []
    assert "refused: no such suggestion in cluster c" in done.stdout
    told = run("--dismiss", f"{job}-1", "--because", "so", "--wait", "200", "--json", "--issuer", "ada")
    entry = json.loads(told.stdout)
    assert (entry["action"], entry["issuer"], entry["outcome"]) == ("dismiss", "ada", "refused")


@pytest.mark.bus
def test_what_is_not_there_or_not_one_is_told(broker: BrokerSettings, run: Run) -> None:
    """Before anything is sent."""
    job = f"several-{uuid.uuid4().hex}"
    publish(broker, made(job, 1), made(job, 2))
    none = run("--accept", f"{job}-9")
    assert none.returncode == 1
    assert f"did you mean '{job}-1'?" in none.stderr or f"did you mean '{job}-2'?" in none.stderr
    several = run("--accept", job)
    assert several.returncode == 1
    assert f"2 suggestions begin with '{job}': {job}-1, {job}-2" in several.stderr


@pytest.mark.bus
def test_nobody_answers_without_a_worker(own_broker: BrokerSettings) -> None:
    """Said after as long as was asked for, with what to look at."""
    publish(own_broker, made("a", 1))
    command = [sys.executable, "-W", "ignore", "-m", "paceline", "suggestions"]
    command += ["--accept", "a-1", "--wait", "1"]  # it is to run out
    done = subprocess.run([*command, "--brokers", own_broker.address], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "no answer within 1 s: is `paceline streams` running" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--dismiss", "x"], "--dismiss wants --because TEXT"),
        (["--because", "x"], "--because is for --accept and --dismiss"),
        (["--accept", "x", "--dismiss", "y"], "not allowed with argument"),
        (["--accept", "x", "--because", "x" * 257], "257 characters; allowed: 256 at most"),
        (["--accept", "x", "--wait", "0"], "allowed: 1 to 86400"),
    ],
)
def test_wrong_options_are_status_2(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Before any broker is asked."""
    try:
        status = suggestions.main(words)
    except SystemExit as ended:
        status = int(str(ended.code))
    assert status == 2
    assert said in capsys.readouterr().err


@pytest.mark.slow
def test_no_broker_is_one_line_and_status_1() -> None:
    """With what to do."""
    command = [sys.executable, "-W", "ignore", "-m", "paceline", "suggestions", "--brokers", "127.0.0.1:1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert done.returncode == 1
    assert done.stderr.startswith("paceline suggestions: Kafka at 127.0.0.1:1: connection refused (")
    assert len(done.stderr.splitlines()) == 1
