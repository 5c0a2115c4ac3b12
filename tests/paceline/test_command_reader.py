"""The reader on real brokers: what was asked before it came, what comes, floods, nonsense, absent brokers."""

import contextlib
import threading
import time
import uuid
from collections.abc import Callable, Iterator

import msgspec
import pytest

from paceline import wire
from paceline.command_reader import CommandReader
from paceline.command_rules import Action, CommandRules, Reader
from paceline.events import AuditEntry, Command
from paceline.kafka import clients
from paceline.kafka.settings import BrokerSettings
from paceline.topics import AUDIT, COMMAND, Topic
from tests.patience import PATIENCE_S

Until = Callable[..., object]


class Nothing(msgspec.Struct, forbid_unknown_fields=True):
    """No arguments."""


class Asked:
    """A reader of commands for a job of the test's own, and what it answered."""

    def __init__(self, settings: BrokerSettings, **options: object) -> None:
        self.settings, self.job = settings, f"job:{uuid.uuid4().hex}"
        self.entries: list[AuditEntry] = []
        self.done: list[str] = []
        rules = CommandRules(
            Reader("sidecar", "n1", "lab"), {"note": Action(Nothing, self._note)}, obeys=True, since_s=time.time()
        )
        self.reader = CommandReader(settings, "test", rules, self._publish, **options)

    def _note(self, target: str, wish: Nothing) -> str:
        self.done.append(target)
        return "noted"

    def _publish(self, topic: Topic, entry: AuditEntry) -> None:
        assert topic is AUDIT
        self.entries.append(entry)

    def command(self, number: int = 0, **fields: object) -> Command:
        said = {"id": f"{self.job[-8:]}-{number}", "cluster": "lab", "target": self.job, "action": "note"}
        return Command(**{**said, "expires_s": time.time() + 3600, "issuer": "test", **fields})

    def turn(self) -> list[str]:
        """Answer what has come; the ids that were answered so far."""
        self.reader.turn({self.job})
        return [entry.command_id for entry in self.entries]


def send(settings: BrokerSettings, *commands: Command | bytes) -> None:
    with contextlib.closing(clients.producer(settings, "test")) as producer:
        for command in commands:
            value = command if isinstance(command, bytes) else wire.encode(command)
            producer.send(COMMAND.name, value=value, key=b"key")
        producer.flush()


@pytest.fixture
def asked(broker: BrokerSettings) -> Iterator[Asked]:
    made = Asked(broker)
    yield made
    made.reader.close(PATIENCE_S)


def test_what_was_asked_before_and_has_not_expired_is_obeyed_and_then_what_comes(
    asked: Asked, broker: BrokerSettings, until: Until
):
    """Each once, in order, though delivered twice; what expired before is passed over."""
    late = asked.command(1, expires_s=time.time() - 1)
    first, second = asked.command(2), asked.command(3)
    send(broker, late, first, first)
    until(lambda: asked.turn() == [first.id])
    send(broker, first, second)
    until(lambda: asked.turn() == [first.id, second.id])
    assert asked.done == [asked.job] * 2


def test_nonsense_and_what_is_for_others_are_passed_over(asked: Asked, broker: BrokerSettings, until: Until):
    """Nobody can tell whom nonsense was meant for; the next command is obeyed."""
    last = asked.command(9)
    others = [asked.command(number, target="job:of-somebody-else") for number in range(1_000)]
    send(broker, b"nonsense", b"\xff", b'{"id":1}', asked.command(1, cluster="another"), *others, last)
    until(lambda: asked.turn() == [last.id])


@pytest.mark.slow
def test_a_flood_is_answered_at_a_bounded_rate(asked: Asked, broker: BrokerSettings, until: Until):
    """Three thousand at once: some fifty are obeyed, and an entry tells how many were not."""
    send(broker, *(asked.command(number) for number in range(3_000)))

    def told() -> bool:
        asked.turn()
        return len(asked.entries) + sum(entry.unanswered for entry in asked.entries) > 2_500

    began_s = time.monotonic()
    until(told)
    assert len(asked.entries) <= 51 + 10 * (time.monotonic() - began_s)
    assert len(asked.done) == len(asked.entries)


def test_nothing_is_read_before_somebody_is_there_to_be_asked(broker: BrokerSettings, until: Until):
    """A sidecar without ranks has no connection for commands; what was asked meanwhile is obeyed by its first job."""
    made = Asked(broker)
    command = made.command()
    send(broker, command)
    made.reader.turn(())
    assert "the reader of commands" not in [thread.name for thread in threading.enumerate()]
    until(lambda: made.turn() == [command.id])
    made.reader.close(PATIENCE_S)


def test_without_brokers_it_is_silent_and_nobody_waits(free_port: Callable[[], int], until: Until):
    """Turns return at once, the cause is told once, and it ends when it is told to."""
    told: list[str] = []
    made = Asked(BrokerSettings().with_brokers(f"127.0.0.1:{free_port()}"), on_lost=told.append)
    until(lambda: made.turn() or told)
    assert made.entries == []
    assert "connection refused" in told[0]
    made.reader.close(PATIENCE_S)
    assert len(told) == 1
