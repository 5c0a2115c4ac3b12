"""What a follower does at a start with more than it has room for, and where the brokers become another cluster."""

import contextlib
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from paceline.kafka import clients, embedded, follow
from paceline.kafka.follow import BEGINNING, NOW, Follower, Jump, Start
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.start_budget import StartBudget
from paceline.kafka.topic_admin import ensure_topics
from paceline.topics import HOUR_MS, Topic
from tests.paceline.kafka.made_up_brokers import MadeUpBrokers
from tests.patience import PATIENCE_S

FLOODED = Topic("flooded", bytes, "none", "compacted", HOUR_MS, 1)
QUIET = Topic("quiet", bytes, "none", "compacted", HOUR_MS, 1)
SETTINGS = BrokerSettings()


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> MadeUpBrokers:
    monkeypatch.setattr(follow, "ASK_S", 0.0)
    return MadeUpBrokers(monkeypatch)


def read_to_the_end(follower: Follower) -> list[bytes]:
    """All values until it has caught up."""
    values: list[bytes] = []
    while not follower.caught_up:
        values += [record.value for _, records in follower.poll() for record in records]
    return values


@pytest.mark.long
def test_a_flood_is_left_out_but_for_its_newest_and_costs_no_other_topic(brokers: MadeUpBrokers):
    """A million old records, and three in another topic: ready after the budget, and it says what is missing."""
    brokers.put(FLOODED, *[b"%d" % number for number in range(1_000_000)])
    brokers.put(QUIET, b"1", b"2", b"3")
    skipped: list[tuple[Topic, int]] = []
    starts = {FLOODED: BEGINNING, QUIET: BEGINNING}
    budget = StartBudget(messages=2_000)
    with Follower(SETTINGS, starts, "test", budget=budget, on_skip=lambda *what: skipped.append(what)) as follower:
        values = read_to_the_end(follower)
        assert sorted(values[:3] + values[-3:])[-1] == b"999999"
        assert {b"1", b"2", b"3"} <= set(values)
        assert len(values) == brokers.read == 2_000
        assert skipped == [(FLOODED, 1_000_003 - 2_000)]
        brokers.put(FLOODED, *[b"live"] * 3_000)
        live: list[Any] = []
        for _ in range(6):
            live += [record for _, records in follower.poll() for record in records]
    assert len(live) == 3_000, "what comes after the start is under no budget"


def test_bytes_are_bounded_too(brokers: MadeUpBrokers):
    """Few and large ones."""
    brokers.put(FLOODED, *[b"%d" % number * 1_000 for number in range(1000, 5000)])
    with Follower(SETTINGS, {FLOODED: BEGINNING}, "test", budget=StartBudget(bytes=8_000_000)) as follower:
        values = read_to_the_end(follower)
    assert sum(map(len, values)) <= 8_000_000 + 500 * 4_000
    assert values[-1].startswith(b"4999")


def test_what_was_read_to_a_place_is_gone_on_with_whole(brokers: MadeUpBrokers):
    """After an outage, or from a place that was kept, nothing is left out."""
    brokers.put(FLOODED, *[b"x"] * 3_000)
    ids = {FLOODED.name: f"first-{FLOODED.name}"}
    skipped: list[Any] = []
    with Follower(
        SETTINGS, {FLOODED: BEGINNING}, "test", resume=True, places={(FLOODED.name, 0): 1_000}, topic_ids=ids,
        budget=StartBudget(messages=100), on_skip=lambda *what: skipped.append(what),
    ) as follower:  # fmt: skip
        assert len(read_to_the_end(follower)) == 2_000
        follower.close()
        brokers.put(FLOODED, *[b"y"] * 1_000)
        follower.poll()
        assert not follower.caught_up or follower.places()[FLOODED.name, 0] > 3_000
    assert skipped == []


def test_without_a_budget_all_is_read(brokers: MadeUpBrokers):
    """An archive leaves nothing out."""
    brokers.put(FLOODED, *[b"x"] * 3_000)
    with Follower(SETTINGS, {FLOODED: BEGINNING}, "test") as follower:
        assert len(read_to_the_end(follower)) == 3_000


@pytest.mark.parametrize("start", [BEGINNING, NOW, Start(messages=10)])
@pytest.mark.parametrize("resume", [True, False])
def test_another_cluster_is_told_before_anything_of_it_is_handed_on(brokers: MadeUpBrokers, start: Start, resume: bool):
    """Also where its topic is as long as the old one was, and where the client never lost its connection."""
    brokers.put(QUIET, b"old", b"old")
    happened: list[Any] = []
    with Follower(
        SETTINGS, {QUIET: start}, "test", resume=resume,
        on_cluster=lambda cause: happened.append(cause), on_jump=happened.append,
    ) as follower:  # fmt: skip
        read_to_the_end(follower)
        brokers.begin("second")
        brokers.put(QUIET, b"new", b"newer")
        for _ in range(4):
            happened += [record.value for _, records in follower.poll() for record in records]
        assert follower.cluster == "second"
    jump, cause, *values = happened
    assert values == [b"new", b"newer"]
    assert "another cluster now (second, was first)" in cause
    assert (jump.topic, jump.expected, jump.remade) == (QUIET, 2, True)
    assert isinstance(jump, Jump)


def test_places_of_a_topic_that_is_not_followed_are_no_loss_where_another_cluster_answers(brokers: MadeUpBrokers):
    """An archive that kept more topics before."""
    jumps: list[Jump] = []
    brokers.put(QUIET, b"old")
    places = {(QUIET.name, 0): 1, (FLOODED.name, 0): 7}
    with Follower(SETTINGS, {QUIET: BEGINNING}, "test", resume=True, places=places, on_jump=jumps.append) as follower:
        read_to_the_end(follower)
        brokers.begin("second")
        brokers.put(QUIET, b"new")
        assert follower.poll() == []
        assert read_to_the_end(follower) == [b"new"]
    assert [(jump.topic, jump.expected) for jump in jumps] == [(QUIET, 1)]


@pytest.mark.parametrize("later", [[b"4"], []])
def test_what_is_deleted_before_it_is_read_is_reported_while_connected(brokers: MadeUpBrokers, later: list[bytes]):
    """Retention takes offsets 1 and 2, and all else where nothing is published later: once, before what follows."""
    happened: list[Any] = []
    brokers.put(QUIET, b"0")
    with Follower(SETTINGS, {QUIET: BEGINNING}, "test", resume=True, on_jump=happened.append) as follower:
        read_to_the_end(follower)
        brokers.put(QUIET, b"1", b"2", *later)
        brokers.delete(QUIET, 3)
        for _ in range(3):
            happened += [record.value for _, records in follower.poll() for record in records]
    assert happened == [Jump(QUIET, 0, expected=1, first=3, end=3 + len(later)), *later]


def test_brokers_without_an_id_and_a_change_of_face_are_no_other_cluster(brokers: MadeUpBrokers):
    """An old broker tells no id; one that does so for a moment not is the same one."""
    brokers.put(QUIET, b"1")
    told: list[str] = []
    with Follower(SETTINGS, {QUIET: BEGINNING}, "test", on_cluster=told.append) as follower:
        for cluster in ("", "first", "", "first"):
            brokers.cluster = cluster
            follower.poll()
    assert told == []


def test_a_cluster_that_comes_and_goes_is_told_each_time(brokers: MadeUpBrokers):
    """A name that leads to either by turns."""
    told: list[str] = []
    brokers.put(QUIET, b"1")
    with Follower(SETTINGS, {QUIET: BEGINNING}, "test", on_cluster=told.append) as follower:
        for cluster in ("a", "b", "a"):
            brokers.begin(cluster)
            brokers.put(QUIET, b"1")
            follower.poll()
            follower.poll()
    assert len(told) == 2


@pytest.fixture
def topic() -> Topic:
    return Topic(f"started-{uuid.uuid4().hex}", bytes, "none", "raw", HOUR_MS, 1)


def send(settings: BrokerSettings, topic: Topic, values: list[bytes]) -> None:
    ensure_topics(settings, [topic])
    with contextlib.closing(clients.producer(settings, "test")) as producer:
        # The producer's batches are as large as the machine is slow, and an end that is told may be one batch off.
        for first in range(0, len(values), 1_000):
            for value in values[first : first + 1_000]:
                producer.send(topic.name, value)
            producer.flush(PATIENCE_S)


@pytest.mark.bus
def test_fifty_thousand_records_keep_no_reader_waiting(
    broker: BrokerSettings, topic: Topic, until: Callable[..., None]
):
    """On a real topic: the newest of each partition come, the rest is told, and what comes then is read whole."""
    send(broker, topic, [b"%d" % number for number in range(50_000)])
    skipped: list[int] = []
    values: list[bytes] = []
    with Follower(
        broker, {topic: BEGINNING}, "test", budget=StartBudget(1_000), on_skip=lambda _, left: skipped.append(left)
    ) as follower:

        def read() -> bool:
            values.extend(record.value for _, records in follower.poll() for record in records)
            return follower.caught_up

        # The embedded broker tells an end that is a batch early: the rest comes as what is new.
        until(lambda: read() and b"49999" in values)
        assert 1_000 <= len(values) < 5_000
        assert sum(skipped) + len(values) == 50_000
        send(broker, topic, [b"live"])
        until(lambda: read() and values[-1] == b"live")


@pytest.mark.bus
@pytest.mark.parametrize("noticed", [True, False])
def test_two_embedded_brokers_on_one_port_are_two_clusters(
    topic: Topic, until: Callable[..., None], free_port: Callable[[], int], noticed: bool
):
    """Killed and started again, whether the outage was noticed or not: nothing of the second before it is told."""
    port = free_port()
    happened: list[Any] = []
    first = embedded.start(port)
    try:
        settings = BrokerSettings().with_brokers(first.address)
        send(settings, topic, [b"old"] * 3)
        with Follower(
            settings, {topic: BEGINNING}, "test", resume=True, on_cluster=lambda cause: happened.append("another")
        ) as follower:

            def read() -> list[Any]:
                happened.extend(record.value for _, records in follower.poll() for record in records)
                return happened

            until(lambda: read().count(b"old") == 3)
            first.process.kill()
            first.process.wait()
            if noticed:
                until(lambda: read() and follower.state == "lost")
            with embedded.start(port) as second:
                send(settings, topic, [b"new"] * 3)
                until(lambda: read().count(b"new") >= 3)
                second.process.kill()
    finally:
        first.stop()
    assert happened == [*[b"old"] * 3, "another", *[b"new"] * 3]
