"""A sidecar beside a balancer: it records and publishes what rank 0 tells, and passes on the plans made for its job."""

import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from paceline import topics, wire
from paceline.events import BalanceObserved as ObservedEvent
from paceline.events import BalancePlan as PlanEvent
from paceline.kafka import clients
from paceline.kafka.settings import BrokerSettings
from paceline.recording import Line, read
from paceline.training.balance_messages import BALANCE, BalanceObserved, BalancePlan, BalanceWord, decode_told, encode
from paceline.training.messages import Bye

_spec = importlib.util.spec_from_file_location("rank", Path(__file__).parents[1] / "training" / "rank.py")
assert _spec is not None
assert _spec.loader is not None
rank = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(rank)

Start = Callable[..., "subprocess.Popen[bytes]"]
OBSERVED = BalanceObserved(3, 41, [3, 5], [0.25, 0.5], "kafka", "adaptive")
PLAN = BalancePlan(3, 40, [3, 5], "rank 0 turned slow")


@pytest.fixture
def start(tmp_path: Path, until: Callable[..., object]) -> Iterator[Start]:
    """Starts a sidecar with further options."""
    made: list[subprocess.Popen[bytes]] = []

    def begin(*options: str) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "paceline.sidecar", "--socket", str(tmp_path / "ranks"), *options]
        environ = {**os.environ, "PACELINE_SPOOL_DIR": str(tmp_path / "spool"), "PACELINE_NODE": "n1"}
        made.append(subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=environ))
        until((tmp_path / "ranks").exists)
        return made[-1]

    yield begin
    for process in made:
        process.kill()
        process.communicate()


def joined(path: Path, number: int, job: str) -> "rank.Speaker":
    """A rank of two that has been told that its balancer is understood."""
    speaker = rank.Speaker(str(path))
    speaker.say(rank.hello(number, 2, job))
    while not decode_told(speaker.socket.recv(65536))[0]:
        pass
    return speaker


def say(speaker: "rank.Speaker", **said: Any) -> None:
    data = encode(BalanceWord(**said))
    assert data is not None
    speaker.say(data)


def end(process: "subprocess.Popen[bytes]") -> str:
    """Hang up, and what it said."""
    return process.communicate()[1].decode()


def recorded(path: Path, kind: type) -> list[Any]:
    lines = (line for line in read(str(path)) if isinstance(line, Line))
    found = (wire.decode(topics.resolve(line.topic), line.value) for line in lines)
    return [event for event in found if isinstance(event, kind)]


@pytest.mark.slow
def test_a_recording_holds_what_the_balancer_did(start: Start, tmp_path: Path) -> None:
    """Plans and observations beside the timings; a word that is none costs nothing but itself, and the end tells it."""
    process = start("--record", str(tmp_path / "run.jsonl"), "--quiet", "--brokers", "none")
    speaker = joined(tmp_path / "ranks", 0, "balanced")
    say(speaker, plan=PLAN, observed=OBSERVED)
    speaker.say(BALANCE + b'{"plan":{"version":4,"first_batch":50,"shares":[0,8]}}')
    speaker.say(rank.step(0))
    speaker.say(Bye(ended_s=time.time()))
    speaker.close()
    said = end(process)
    (plan,) = recorded(tmp_path / "run.jsonl", PlanEvent)
    (observed,) = recorded(tmp_path / "run.jsonl", ObservedEvent)
    assert (plan.job, plan.version, plan.shares) == ("balanced", 3, [3, 5])
    assert (observed.job, observed.ready_s, observed.node) == ("balanced", [0.25, 0.5], "n1")
    assert "refused: 1 that could not be read" in said
    assert "connections were dropped" not in said


@pytest.mark.slow
def test_who_has_not_said_hello_says_nothing_of_balancing(start: Start, tmp_path: Path) -> None:
    """As with marks, the connection ends."""
    process = start("--record", str(tmp_path / "run.jsonl"), "--quiet", "--brokers", "none")
    speaker = rank.Speaker(str(tmp_path / "ranks"))
    say(speaker, observed=OBSERVED)
    assert speaker.socket.recv(1) == b""
    speaker.close()
    assert "1 connections were dropped" in end(process)


@pytest.mark.slow
def test_without_a_bus_who_waits_for_plans_is_told_so(start: Start, tmp_path: Path) -> None:
    """Once, and the plan stays as it is."""
    process = start("--quiet", "--brokers", "none")
    speakers = [joined(tmp_path / "ranks", number, "balanced") for number in range(2)]
    for speaker in speakers:
        say(speaker, awaits=True)
        speaker.close()
    assert end(process).count("waits for plans of Kafka") == 1


def send(settings: BrokerSettings, job: str, *plans: PlanEvent | bytes) -> None:
    with contextlib.closing(clients.producer(settings, "test")) as producer:
        for plan in plans:
            value = plan if isinstance(plan, bytes) else wire.encode(plan)
            producer.send(topics.PLAN.name, value=value, key=job.encode())
        producer.flush()


def proposal(job: str, **changed: Any) -> PlanEvent:
    """A plan of the stream processors."""
    plan = PlanEvent(
        cluster="default", job=job, attempt=0, time_s=1.0, version=4, shares=[2, 6], made_by="streams", run=7
    )
    return msgspec.structs.replace(plan, **changed)


def test_plans_of_the_bus_come_to_all_who_wait_and_observations_go_there(
    start: Start, tmp_path: Path, broker: BrokerSettings
) -> None:
    """Made before they asked or after; hostile ones between them are refused and counted."""
    job = uuid.uuid4().hex
    process = start("--quiet", "--brokers", broker.address)
    send(broker, job, proposal(job))
    speakers = [joined(tmp_path / "ranks", number, job) for number in range(2)]
    for speaker in speakers:
        say(speaker, awaits=True, run=7)
        assert proposed(speaker) == (4, (2, 6))
    zero = json.dumps({**msgspec.to_builtins(proposal(job, version=9)), "shares": [0, 8]}).encode()
    send(
        broker,
        job,
        zero,
        b"nonsense",
        proposal(job, version=8, shares=[8]),
        proposal(job, version=6, run=8),
        proposal(job, version=7, attempt=5),
        proposal(job, version=5, shares=[1, 7]),
    )
    assert [proposed(speaker) for speaker in speakers] == [(5, (1, 7))] * 2
    say(speakers[0], observed=OBSERVED, plan=PLAN, run=7)
    seen = from_bus(broker, job)
    assert (seen[topics.BALANCE].job, seen[topics.BALANCE].shares) == (job, [3, 5])
    assert (seen[topics.PLAN].version, seen[topics.PLAN].first_batch) == (3, 40)
    assert {seen[topics.BALANCE].run, seen[topics.PLAN].run} == {7}
    for speaker in speakers:
        speaker.close()
    said = end(process)
    assert "1 that do not fit the run" in said
    assert "1 for another run" in said
    assert "1 for another attempt" in said
    assert "2 that could not be read" in said


def proposed(speaker: "rank.Speaker") -> tuple[int, tuple[int, ...]]:
    """The plan that a rank is told next."""
    while True:
        _, plan = decode_told(speaker.socket.recv(131_072))
        if plan is not None:
            return plan.version, plan.shares


def from_bus(settings: BrokerSettings, job: str) -> dict[topics.Topic, Any]:
    """The first observation of ``job``, and the first plan that its ranks follow."""
    seen: dict[topics.Topic, Any] = {}
    for topic in (topics.BALANCE, topics.PLAN):
        with contextlib.closing(clients.consumer(settings, topic, from_beginning=True)) as consumer:
            for row in consumer:
                if row.key != job.encode() or not row.value.startswith(b"{"):
                    continue
                with contextlib.suppress(wire.WireError):
                    event = wire.decode(topic, row.value)
                    if topic is topics.BALANCE or event.first_batch is not None:
                        seen[topic] = event
                        break
    return seen


def test_who_obeys_no_commands_follows_no_plans(start: Start, tmp_path: Path, broker: BrokerSettings) -> None:
    """What comes from the bus changes nothing of this run, and that is told."""
    job = uuid.uuid4().hex
    process = start("--quiet", "--brokers", broker.address, "--no-commands")
    send(broker, job, proposal(job))
    speaker = joined(tmp_path / "ranks", 0, job)
    say(speaker, awaits=True)
    say(speaker, observed=OBSERVED)
    assert from_bus_observed(broker, job).batch == 41
    speaker.socket.setblocking(False)
    told = []
    with contextlib.suppress(BlockingIOError):
        while True:
            told.append(decode_told(speaker.socket.recv(65536))[1])
    assert [plan for plan in told if plan is not None] == []
    speaker.close()
    assert "none are read here" in end(process)


def from_bus_observed(settings: BrokerSettings, job: str) -> ObservedEvent:
    """The first observation of ``job``."""
    with contextlib.closing(clients.consumer(settings, topics.BALANCE, from_beginning=True)) as consumer:
        return next(wire.decode(topics.BALANCE, row.value) for row in consumer if row.key == job.encode())
