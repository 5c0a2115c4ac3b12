"""The archiver on a broker: every row once, whatever ends it, in a folder."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from archive import archiver as archivers
from archive.archiver import Archiver
from archive.merging import Days
from paceline import topics, wire
from paceline.history.store import Store
from paceline.kafka import clients
from paceline.kafka.settings import BrokerSettings
from paceline.topics import Topic
from tests.derived_events import finding, job_window
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.bus
Ask = Callable[..., list[tuple[Any, ...]]]
Until = Callable[..., Any]
Send = Callable[..., None]


@pytest.fixture
def send(broker: BrokerSettings) -> Iterator[Send]:
    """Publishes events, or bytes, on a topic."""
    with contextlib.closing(clients.producer(broker, "test")) as client:

        def put(topic: Topic, *made: Any, key: bytes = b"train") -> None:
            for one in made:
                client.send(topic.name, one if isinstance(one, bytes) else wire.encode(one), key=key)
            client.flush()

        yield put


@contextlib.contextmanager
def archiving(broker: BrokerSettings, store: Store, commit_s: float = 0.2) -> Iterator[Archiver]:
    """An archiver of findings and windows, stopped as by SIGTERM."""
    made = Archiver(broker, store, [topics.FINDING, topics.WINDOW], Days(), commit_s, threading.Event())
    made.thread.start()
    try:
        yield made
    finally:
        assert made.thread.stop(PATIENCE_S)


def counted(ask: Ask, store: Store, cluster: str, table: str = "finding") -> int:
    """Rows of ``cluster``."""
    if store.newest() is None:
        return 0
    [(rows,)] = ask(f"SELECT count(*) FROM {table} WHERE cluster = ?", cluster)
    return int(rows)


@pytest.mark.exactly_once
def test_what_is_published_is_archived_once_over_many_starts(
    broker: BrokerSettings, store: Store, ask: Ask, send: Send, until: Until
):
    cluster = f"starts-{time.time_ns()}"
    for start in range(4):
        with archiving(broker, store, 0.1 if start % 2 else 3600.0) as running:
            made = [finding(id=f"f{start}-{number}", cluster=cluster) for number in range(50)]
            send(topics.FINDING, *made)
            send(topics.WINDOW, job_window(cluster=cluster, start_s=time.time() + start))
            until(lambda: running.messages["finding"] >= 50 and running.messages["window"] >= 1)
    with archiving(broker, store, 0.1):  # Topics hold what other tests have said, which may have been read first.
        until(lambda: counted(ask, store, cluster) >= 200 and counted(ask, store, cluster, "job_window") >= 4)
    assert (counted(ask, store, cluster), counted(ask, store, cluster, "job_window")) == (200, 4)
    [(rows, places)] = ask("SELECT count(*), count(DISTINCT (kafka_partition, kafka_offset)) FROM finding")
    assert rows == places


@pytest.mark.exactly_once
def test_a_store_that_fails_is_told_and_loses_and_doubles_nothing(
    broker: BrokerSettings, store: Store, ask: Ask, send: Send, until: Until, monkeypatch: pytest.MonkeyPatch
):
    cluster, whole, failing = f"fails-{time.time_ns()}", store.files.create, threading.Event()

    def create(path: str, data: bytes) -> None:
        if failing.is_set() and path.startswith("manifest"):
            raise OSError(28, "No space left on device")
        whole(path, data)

    monkeypatch.setattr(store.files, "create", create)
    with archiving(broker, store) as running:
        send(topics.FINDING, *(finding(id=f"a{number}", cluster=cluster) for number in range(20)))
        until(lambda: counted(ask, store, cluster) == 20)
        failing.set()
        send(topics.FINDING, *(finding(id=f"b{number}", cluster=cluster) for number in range(20)))
        until(lambda: "No space left on device" in (running.waits() or ""))
        failing.clear()
        until(lambda: counted(ask, store, cluster) == 40)
        until(lambda: running.waits() is None)
    assert ask("SELECT count(DISTINCT id) FROM finding WHERE cluster = ?", cluster) == [(40,)]


def test_what_cannot_be_decoded_is_counted_and_passed_over(
    broker: BrokerSettings, store: Store, ask: Ask, send: Send, until: Until
):
    cluster = f"odd-{time.time_ns()}"
    with archiving(broker, store) as running:
        send(topics.FINDING, b"{torn", b"", b"null", finding(cluster=cluster), b'{"schema_version": 9}')
        until(lambda: counted(ask, store, cluster) == 1)
        until(lambda: running.unusable.get("finding", 0) >= 2)


def test_a_topic_that_is_made_anew_is_read_whole_and_the_gap_is_told(
    own_broker: BrokerSettings, store: Store, ask: Ask, until: Until
):
    def put(*made: Any) -> None:
        with contextlib.closing(clients.producer(own_broker, "test")) as client:
            for one in made:
                client.send(topics.FINDING.name, wire.encode(one), key=b"train")
            client.flush()

    put(*(finding(id=f"old{number}") for number in range(9)))
    with archiving(own_broker, store):
        until(lambda: counted(ask, store, "c") == 9)
    with contextlib.closing(clients.admin(own_broker)) as client:
        client.delete_topics([topics.FINDING.name])
        until(lambda: topics.FINDING.name not in client.list_topics())
    until(lambda: made(own_broker))
    put(finding(id="new"))
    with archiving(own_broker, store):
        until(lambda: counted(ask, store, "c") == 10)
    held = store.newest()
    assert held is not None
    assert any(gap.remade for gap in held.gaps)


def made(broker: BrokerSettings) -> bool:
    """Whether the topic is there. One who asks may be told that it took too long, though it is made."""
    from paceline.kafka.topic_admin import ensure_topics

    with contextlib.suppress(Exception), contextlib.closing(clients.admin(broker)) as client:
        ensure_topics(broker)
        return topics.FINDING.name in client.list_topics()
    return False


def test_a_commit_does_not_wait_for_its_time_where_much_is_read(
    broker: BrokerSettings, store: Store, ask: Ask, send: Send, until: Until, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(archivers, "MOST_BYTES", 10_000)
    cluster = f"much-{time.time_ns()}"
    with archiving(broker, store, 3600.0):
        send(topics.FINDING, *(finding(id=f"f{number}", cluster=cluster) for number in range(500)))
        until(lambda: counted(ask, store, cluster) == 500)


def test_files_are_merged_also_while_the_bus_never_rests(
    broker: BrokerSettings, store: Store, ask: Ask, send: Send, until: Until
):
    cluster = f"busy-{time.time_ns()}"
    with archiving(broker, store, 0.05) as running:
        numbers = iter(range(10_000))

        def merged() -> bool:
            send(topics.FINDING, finding(id=f"f{next(numbers)}", cluster=cluster))
            return running.totals().get("merged", 0) > 0

        until(merged)
        sent = next(numbers)
        until(lambda: counted(ask, store, cluster) == sent)
    assert ask("SELECT count(DISTINCT id) FROM finding WHERE cluster = ?", cluster) == [(sent,)]


def test_nothing_is_written_where_nothing_is_said(own_broker: BrokerSettings, store: Store, until: Until):
    """On a broker of its own: whoever else speaks on one that is shared is archived, too."""
    with archiving(own_broker, store, 0.05) as running:
        until(lambda: running.waits() is None and store.newest() is not None)
        until(lambda: running.lag and not any(running.lag.values()))
        tries = {running.committed_s}
        until(lambda: tries.add(running.committed_s) or len(tries) > 3)  # what was read is committed
        versions = store.versions()
        until(lambda: tries.add(running.committed_s) or len(tries) > 8)
        assert store.versions() == versions
