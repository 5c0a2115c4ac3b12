"""Spools whose owner is gone: delivered by the next, one folder after the other, never those in use."""

import contextlib
import os
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from paceline import events, topics, wire
from paceline.delivery.orphans import Orphans
from paceline.delivery.outbox import Message
from paceline.delivery.spool import Spool
from paceline.kafka import clients, embedded
from paceline.kafka.settings import BrokerSettings
from tests.heard import heard
from tests.patience import PATIENCE_S

LIMIT = 1_000_000
NOWHERE = BrokerSettings().with_brokers("127.0.0.1:1")


def leave(folder: Path, mark: str, count: int, ago_s: float = 1000.0) -> Spool:
    """A spool of ``count`` messages, written ``ago_s`` before now."""
    spool = Spool(folder, LIMIT)
    for number in range(count):
        letter = events.DeadLetter(
            reason=mark, topic="t", partition=0, offset=number, time_s=0.0, excerpt="x" * (1000 - len(mark))
        )
        spool.append(Message(topics.DEADLETTER.name, None, wire.encode(letter), 0))
    then_s = folder.stat().st_mtime - ago_s
    for path in (*folder.iterdir(), folder):
        os.utime(path, (then_s, then_s))
    return spool


def received(settings: BrokerSettings, mark: str, count: int) -> list[int]:
    got: list[int] = []
    with contextlib.closing(clients.consumer(settings, topics.DEADLETTER, from_beginning=True)) as consumer:
        for letter in heard(topics.DEADLETTER, consumer):
            got += [letter.offset] if letter.reason == mark else []
            if len(got) == count:
                return got
    return got


@pytest.mark.bus
def test_what_others_left_is_delivered_and_their_folders_go(
    embedded_broker: embedded.EmbeddedBroker, tmp_path: Path, until: Callable[..., object]
):
    """In order; a folder that is owned, or was written to just now, is left alone."""
    settings = BrokerSettings().with_brokers(embedded_broker.address)
    mark = uuid.uuid4().hex
    for name in ("dead", "fresh"):
        leave(tmp_path / name, mark, 300, 1000.0 if name == "dead" else 0.0).close()
    owned, own = leave(tmp_path / "owned", mark, 5), leave(tmp_path / "own", mark, 5)
    (tmp_path / "foreign").mkdir()
    orphans = Orphans(settings, tmp_path, tmp_path / "own", client_id="t", limit_bytes=LIMIT, on_warning=pytest.fail)
    until(lambda: not (tmp_path / "dead").exists())
    orphans.close(PATIENCE_S)
    assert received(settings, mark, 300) == list(range(300))
    assert (orphans.delivered, len(owned), len(own)) == (300, 5, 5)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["foreign", "fresh", "own", "owned"]
    assert not list((tmp_path / "foreign").iterdir())


def test_together_they_are_bounded_and_the_oldest_go(tmp_path: Path, until: Callable[..., object]):
    """Where Kafka never comes back, jobs that end one after the other must not fill the disk."""
    warned: list[str] = []
    for number in range(4):
        leave(tmp_path / f"job-{number}", "m", 10, ago_s=1000.0 - number).close()
    orphans = Orphans(NOWHERE, tmp_path, tmp_path / "own", client_id="t", limit_bytes=25_000, on_warning=warned.append)
    until(lambda: len(warned) == 2)
    orphans.close(PATIENCE_S)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["job-2", "job-3"]
    assert all("10 messages of an earlier run" in line for line in warned)
