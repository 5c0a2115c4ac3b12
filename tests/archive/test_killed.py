"""``paceline archive`` as a process that is killed again and again: every message is there once."""

import contextlib
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from paceline import topics, wire
from paceline.history.query import History
from paceline.history.store import StoreError
from paceline.history.views import Scope
from paceline.kafka import clients, embedded
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.topic_admin import ensure_topics
from tests.derived_events import finding
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.bus, pytest.mark.e2e]
MESSAGES = 3000


@contextlib.contextmanager
def archive(address: str, folder: Path, *more: str) -> Iterator[subprocess.Popen[bytes]]:
    """The program, stopped at the end if it is still there."""
    command = [sys.executable, "-m", "archive", "--brokers", address, "--to", str(folder), "--commit-seconds", "1"]
    with subprocess.Popen([*command, *more]) as running:
        try:
            yield running
        finally:
            running.terminate()
            running.wait(PATIENCE_S)


def told(folder: Path, sql: str) -> list[tuple[Any, ...]]:
    """What the archive answers; nothing where there is none yet."""
    try:
        with History.open(str(folder), {}).connect(Scope(0.0, 1e11)) as connection:
            return connection.ask(sql).rows
    except StoreError:
        return [(0,)]


def in_database(folder: Path) -> int:
    """Findings in the database beside the files."""
    with contextlib.closing(sqlite3.connect(folder / "database.sqlite")) as database:
        return int(database.execute("SELECT count(*) FROM finding").fetchone()[0])


def _more_than(seen: int, folder: Path) -> bool:
    return bool(told(folder, "SELECT count(*) FROM finding")[0][0] > seen)


@pytest.mark.landing
@pytest.mark.exactly_once
def test_killed_at_any_moment_it_goes_on_without_loss_or_repetition(tmp_path: Path, until: Callable[..., Any]):
    folder = tmp_path / "archive"
    with embedded.start() as broker:
        settings = BrokerSettings().with_brokers(broker.address)
        ensure_topics(settings)
        with contextlib.closing(clients.producer(settings, "test")) as client:
            for number in range(MESSAGES):
                client.send(topics.FINDING.name, wire.encode(finding(id=f"f{number}")), key=str(number).encode())
            client.flush()
            seen = 0
            for kill in range(3):
                with archive(broker.address, folder) as running:
                    # In the middle of what it reads, writes and merges: as soon as more is there than before.
                    until(partial(_more_than, seen, folder))
                    running.send_signal(signal.SIGKILL)
                seen = told(folder, "SELECT count(*) FROM finding")[0][0]
                more = [finding(id=f"more{kill}-{number}") for number in range(100)]
                for one in more:
                    client.send(topics.FINDING.name, wire.encode(one), key=one.id.encode())
                client.flush()
            with archive(broker.address, folder) as running:
                until(lambda: told(folder, "SELECT count(DISTINCT id) FROM finding")[0][0] == MESSAGES + 300)
                until(lambda: in_database(folder) == MESSAGES + 300)
                running.send_signal(signal.SIGTERM)
                assert running.wait(PATIENCE_S) == 0
    rows = "SELECT count(*), count(DISTINCT (kafka_partition, kafka_offset)) FROM finding"
    assert told(folder, rows) == [(MESSAGES + 300, MESSAGES + 300)]
