"""The consumer loop: where it starts, and what it does while brokers or topics are not there."""

import contextlib
import itertools
import signal
import socket
import struct
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
import pytest
from kafka import TopicPartition

from paceline.kafka import clients, embedded, follow
from paceline.kafka.errors import BusError
from paceline.kafka.follow import BEGINNING, NOW, Follower, Jump, Start
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.topic_admin import ensure_topics
from paceline.topics import HOUR_MS, Topic
from tests.damaged_batches import put_damaged
from tests.patience import PATIENCE_S

Until = Callable[..., None]


@pytest.fixture
def topic() -> Topic:
    """A topic of the test's own, with one partition; not made yet."""
    return Topic(f"followed-{uuid.uuid4().hex}", bytes, "none", "raw", HOUR_MS, 1)


@pytest.fixture
def another() -> Topic:
    return Topic(f"another-{uuid.uuid4().hex}", bytes, "none", "raw", HOUR_MS, 1)


def publish(settings: BrokerSettings, topic: Topic, *values: bytes, timestamp_ms: int | None = None) -> None:
    """Make the topic where it is missing, and send, one message a batch."""
    ensure_topics(settings, [topic])
    producer = clients.producer(settings, "test")
    for value in values:
        producer.send(topic.name, value, timestamp_ms=timestamp_ms).get(PATIENCE_S)
    producer.close()


def kill(node: embedded.EmbeddedBroker) -> None:
    """End it at once: asked to stop, it waits for its clients to leave."""
    node.process.kill()
    node.process.wait()


class Heard:
    """What a follower handed on."""

    def __init__(self, follower: Follower) -> None:
        self.follower = follower
        self.values: list[bytes | None] = []

    def poll(self) -> "Heard":
        for _, records in self.follower.poll():
            self.values += [record.value for record in records]
        return self

    def whole(self) -> bool:
        """Poll once; whether all that was there at the start has come."""
        self.poll()
        return self.follower.caught_up


#: Where a follower begins in a topic of three messages, and what it hears with a fourth one to come.
BEGINNINGS = {
    "the beginning": (BEGINNING, [b"1", b"2", b"3", b"new"]),
    "two messages": (Start(messages=2), [b"2", b"3", b"new"]),
    "more than there are": (Start(messages=9), [b"1", b"2", b"3", b"new"]),
    "now": (NOW, [b"new"]),
}


@pytest.mark.landing
def test_it_begins_where_it_is_told(broker: BrokerSettings, topic: Topic, until: Until):
    """What came before as far as is asked for, then what comes; ``connect`` is the moment that divides them."""
    publish(broker, topic, b"1", b"2", b"3")
    with contextlib.ExitStack() as stack:
        followers = {
            name: stack.enter_context(Follower(broker, {topic: start}, "test"))
            for name, (start, _) in BEGINNINGS.items()
        }
        for name, (_, expected) in BEGINNINGS.items():
            followers[name].connect()
            assert followers[name].lag == {topic: len(expected) - 1}, name
        publish(broker, topic, b"new")
        for name, (_, expected) in BEGINNINGS.items():
            heard = Heard(followers[name])
            until(lambda heard=heard: heard.poll().values[-1:] == [b"new"])
            assert heard.values == expected, name
            assert followers[name].caught_up, name


@pytest.mark.bus
def test_it_looks_back_so_many_seconds(apache_kafka: object, topic: Topic, until: Until):
    """By the messages' own times. (The embedded broker keeps no index of times: from there all of them come.)"""
    publish(apache_kafka.settings, topic, b"old", timestamp_ms=int(time.time() * 1000) - 3_600_000)
    publish(apache_kafka.settings, topic, b"1", b"2")
    with Follower(apache_kafka.settings, {topic: Start(seconds=600.0)}, "test") as follower:
        heard = Heard(follower)
        until(heard.whole)
    assert heard.values == [b"1", b"2"]


@pytest.mark.slow
def test_where_little_is_expected_it_comes_no_later(
    broker: BrokerSettings, topic: Topic, until: Until, monkeypatch: pytest.MonkeyPatch
):
    """Brokers are asked seldom, and may hold an answer for longer than is waited here: not once there is something."""
    monkeypatch.setattr(follow, "SELDOM_FETCH_S", PATIENCE_S + 60)
    longer = {"request_timeout_ms": int(3 * PATIENCE_S * 1000), "connections_max_idle_ms": int(4 * PATIENCE_S * 1000)}
    monkeypatch.setattr(follow, "consumer", partial(clients.consumer, **longer))
    publish(broker, topic, b"1")
    with Follower(broker, {topic: NOW}, "test", seldom=True) as follower:
        follower.connect()
        heard = Heard(follower)
        heard.poll()
        publish(broker, topic, b"2")
        until(lambda: heard.poll().values[-1:] == [b"2"])


def test_a_message_larger_than_a_fetch_comes_whole(broker: BrokerSettings, topic: Topic, until: Until):
    """A fetch asks for 1 MiB of a partition; the largest message is eight times that."""
    large = bytes(clients.MAX_MESSAGE_BYTES - 1000)
    producer = clients.producer(broker, "test", compression_type=None)
    ensure_topics(broker, [topic])
    for value in (b"before", large, b"after"):
        producer.send(topic.name, value).get(PATIENCE_S)
    producer.close()
    with Follower(broker, {topic: BEGINNING}, "test") as follower:
        heard = Heard(follower)
        until(lambda: len(heard.poll().values) == 3)
    assert heard.values == [b"before", large, b"after"]


def test_a_topic_that_comes_later_is_read_whole_and_the_others_go_on(
    broker: BrokerSettings, topic: Topic, another: Topic, until: Until
):
    """Also from ``NOW``: all that it holds came after that. The place in the other topic is kept."""
    publish(broker, topic, b"before")
    with Follower(broker, {topic: NOW, another: NOW}, "test") as follower:
        follower.connect()
        assert follower.follows(topic)
        assert not follower.follows(another)
        publish(broker, topic, b"1")
        heard = Heard(follower)
        until(lambda: heard.poll().values == [b"1"])
        publish(broker, another, b"2")
        until(lambda: heard.poll().values == [b"1", b"2"])
        publish(broker, topic, b"3")
        until(lambda: heard.poll().values == [b"1", b"2", b"3"])


def test_who_asks_for_all_that_is_there_waits_for_no_message_beyond_it(broker: BrokerSettings, topic: Topic):
    """A topic without messages is read to its end by the first poll; from then on a poll waits for what comes."""
    ensure_topics(broker, [topic])
    waits = []
    with Follower(broker, {topic: BEGINNING}, "test") as follower:
        client = follower.connect()
        poll = client.poll

        def counted(timeout_ms: int, max_records: int) -> Any:
            waits.append(timeout_ms)
            return poll(0, max_records)

        client.poll = counted
        assert follower.poll() == []
        assert follower.caught_up
        assert follower.poll() == []
    assert waits == [0, int(follow.POLL_S * 1000)]


def test_without_topics_nothing_has_been_caught_up_with(broker: BrokerSettings, topic: Topic):
    """A follower of topics that are not there is connected, and waits."""
    with Follower(broker, {topic: BEGINNING}, "test") as follower:
        assert follower.poll(0.0) == []
        assert (follower.state, follower.caught_up) == ("connected", False)


def test_stopping_ends_a_wait_for_topics(broker: BrokerSettings, topic: Topic):
    """However long the poll would have waited."""
    stop = threading.Event()
    with Follower(broker, {topic: BEGINNING}, "test", stop=stop) as follower:
        follower.connect()
        threading.Timer(0.1, stop.set).start()
        assert follower.poll(100_000.0) == []


def test_what_is_hopelessly_behind_is_passed_over_and_told(broker: BrokerSettings, topic: Topic, until: Until):
    """The newest matters more than all: the rest is skipped, once, and counted."""
    publish(broker, topic, *(b"%d" % number for number in range(8)))
    skipped: list[tuple[Topic, int]] = []
    with Follower(
        broker,
        {topic: BEGINNING},
        "test",
        most_behind={topic: 7},
        on_skip=lambda *what: skipped.append(what),
    ) as follower:
        follower.connect()
        publish(broker, topic, b"new")
        heard = Heard(follower)
        until(lambda: heard.poll().values == [b"new"])
    assert skipped == [(topic, 8)]


@pytest.mark.slow
def test_a_broker_that_is_away_at_the_start_is_an_error_or_told_once(nobody: str, until: Until):
    """``connect`` raises; ``poll`` tries again and again, and says so a single time."""
    told: list[str] = []
    attempts = 0

    def polled() -> bool:
        nonlocal attempts
        attempts += 1
        return follower.poll(0.01) != [] or attempts > 100

    settings = BrokerSettings().with_brokers(nobody)
    with Follower(settings, {}, "test", on_lost=told.append) as follower:
        with pytest.raises(BusError, match="refused"):
            follower.connect()
        until(polled)
        assert follower.state == "lost"
    assert told == [follower.cause]
    assert "refused" in follower.cause


def test_a_topic_that_is_made_again_is_read_from_its_beginning(broker: BrokerSettings, topic: Topic, until: Until):
    """As many messages are in the new one: the old place is its end, and would show nothing. Wherever it began, and
    whether it resumes or looks back.

    The embedded broker makes four partitions where one is asked for; only within one there is an order.
    """
    publish(broker, topic, b"old")
    with contextlib.ExitStack() as stack:
        kinds = list(itertools.product((BEGINNING, NOW), (True, False)))
        followers = [
            stack.enter_context(Follower(broker, {topic: start}, "test", resume=resume)) for start, resume in kinds
        ]
        heard = [Heard(follower) for follower in followers]
        until(lambda: all(one.whole() for one in heard))
        publish(broker, topic, b"1", b"2")
        until(lambda: all(sorted(one.poll().values[-2:]) == [b"1", b"2"] for one in heard))
        with contextlib.closing(clients.admin(broker)) as admin:
            admin.delete_topics([topic.name])
        publish(broker, topic, b"3", b"4", b"5")
        until(lambda: all(sorted(one.poll().values[-3:]) == [b"3", b"4", b"5"] for one in heard))
        for (start, resume), one in zip(kinds, heard, strict=True):
            before = [b"old"] if start == BEGINNING else []
            assert sorted(one.values) == [b"1", b"2", b"3", b"4", b"5", *before], (start, resume)


def test_what_came_into_being_while_nothing_followed_is_read_whole(
    broker: BrokerSettings, topic: Topic, another: Topic, until: Until
):
    """By a follower that goes on where one before it was: the topic was made again, and another one for the first time.
    Both began with what is published from then on."""
    starts = {topic: NOW, another: NOW}
    publish(broker, topic, b"old")
    with Follower(broker, starts, "test", resume=True) as first:
        heard = Heard(first)
        until(heard.whole)
        publish(broker, topic, b"1")
        until(lambda: heard.poll().values == [b"1"])
        places, ids = first.places(), first.topic_ids()
    with contextlib.closing(clients.admin(broker)) as admin:
        admin.delete_topics([topic.name])
    publish(broker, topic, b"2", b"3")
    publish(broker, another, b"4")
    with Follower(broker, starts, "test", resume=True, places=places, topic_ids=ids) as second:
        heard = Heard(second)
        until(lambda: sorted(heard.poll().values) == [b"2", b"3", b"4"])


class Listener:
    """Answers every connection on its port with ``answer`` and closes it."""

    def __init__(self, port: int, answer: bytes) -> None:
        self._answer = answer
        self._server = socket.create_server(("127.0.0.1", port))
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def __enter__(self) -> "Listener":
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._server.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._server.accept()
                with connection:
                    connection.sendall(self._answer)


@pytest.mark.slow
def test_an_outage_that_changes_its_face_is_told_once_and_what_waiting_cannot_mend_anew(
    free_port: Callable[[], int], until: Until
):
    """Closed, refused: waiting helps. A port that does not speak TLS: somebody has to act."""
    told: list[str] = []
    port = free_port()

    def lost_by(cause: str) -> bool:
        follower.poll(0.01)
        return cause in follower.cause

    settings = replace(BrokerSettings().with_brokers(f"127.0.0.1:{port}"), security_protocol="SSL")
    with Follower(settings, {}, "test", on_lost=told.append) as follower:
        until(lambda: lost_by("refused"))
        with Listener(port, b""):
            until(lambda: lost_by("closed the connection"))
        assert len(told) == 1
        with Listener(port, b"HTTP/1.1 400 Bad Request\r\n\r\n"):
            until(lambda: lost_by("TLS failed"))
    assert len(told) == 2
    assert "TLS failed" in told[1]


@pytest.mark.bus
def test_an_embedded_broker_that_comes_back_has_forgotten_all_and_is_read_from_its_beginning(
    topic: Topic, until: Until, free_port: Callable[[], int]
):
    """Its offsets start again; the place in the old log means nothing in the new one. The outage is told once."""
    told: list[str] = []
    first = embedded.start(free_port())
    settings = BrokerSettings().with_brokers(first.address)
    publish(settings, topic, b"1", b"2", b"3")
    with (
        Follower(settings, {topic: BEGINNING}, "test", on_lost=told.append) as looking_back,
        Follower(settings, {topic: BEGINNING}, "test", resume=True) as going_on,
    ):
        both = [Heard(looking_back), Heard(going_on)]
        until(lambda: all(heard.whole() for heard in both))
        kill(first)
        until(lambda: all(heard.poll().follower.state == "lost" for heard in both))
        with embedded.start(first.port) as second:
            publish(settings, topic, b"4")
            until(lambda: all(heard.poll().values == [b"1", b"2", b"3", b"4"] for heard in both))
            assert (looking_back.state, looking_back.cause) == ("connected", "")
            kill(second)
    assert len(told) == 1
    assert f"{settings.address}: connection refused" in told[0]


@pytest.mark.bus
def test_a_broker_that_hangs_is_lost_and_found_again(topic: Topic, until: Until):
    """Connections to it still open, but nothing answers: no poll waits for long."""
    with embedded.start() as node:
        settings = BrokerSettings().with_brokers(node.address)
        publish(settings, topic, b"1")
        with Follower(settings, {topic: BEGINNING}, "test", resume=True) as follower:
            heard = Heard(follower)
            until(heard.whole)
            node.process.send_signal(signal.SIGSTOP)
            until(lambda: heard.poll().follower.state == "lost")
            node.process.send_signal(signal.SIGCONT)
            publish(settings, topic, b"2")
            until(lambda: heard.poll().values == [b"1", b"2"])


@pytest.fixture(scope="module")
def node(new_apache_kafka_of_module: Callable[..., Any]) -> Any:
    """Apache Kafka of this file's own, which tests end and start again."""
    return new_apache_kafka_of_module().start()


@pytest.mark.bus
def test_after_an_outage_it_goes_on_where_it_was_or_looks_back_again(node: Any, topic: Topic, until: Until):
    """Nothing is lost either way; repeats come only to those who did not ask to ``resume``."""
    publish(node.settings, topic, b"1", b"2")
    with (
        Follower(node.settings, {topic: BEGINNING}, "test") as looking_back,
        Follower(node.settings, {topic: BEGINNING}, "test", resume=True) as going_on,
    ):
        both = [Heard(looking_back), Heard(going_on)]
        until(lambda: all(heard.whole() for heard in both))
        node.kill()
        until(lambda: all(heard.poll().follower.state == "lost" for heard in both))
        node.start()
        publish(node.settings, topic, b"3")
        until(lambda: all(heard.poll().values[-1] == b"3" for heard in both))
    assert [heard.values for heard in both] == [[b"1", b"2", b"1", b"2", b"3"], [b"1", b"2", b"3"]]


@pytest.mark.bus
def test_messages_that_are_deleted_before_they_are_read_are_reported_while_connected(
    apache_kafka: Any, topic: Topic, until: Until
):
    """What is left is read. (The embedded broker deletes nothing.)"""
    settings = apache_kafka.settings
    publish(settings, topic, b"1", b"2", b"3")
    jumps: list[Jump] = []
    with Follower(settings, {topic: BEGINNING}, "test", resume=True, on_jump=jumps.append) as follower:
        follower.connect()
        with contextlib.closing(clients.admin(settings)) as admin:
            admin.delete_records({TopicPartition(topic.name, 0): 2})
        heard = Heard(follower)
        until(lambda: heard.poll().values == [b"3"])
    assert jumps == [Jump(topic, 0, expected=0, first=2, end=3)]


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_a_batch_that_unpacks_to_too_much_is_passed_over_and_told(
    broker: BrokerSettings, topic: Topic, until: Until, bomb: Callable[[BrokerSettings, Topic, str], None], codec: str
):
    """A tenth of a megabyte that would be a hundred: what is before and after it is read."""
    publish(broker, topic, b"before")
    bomb(broker, topic, codec)
    publish(broker, topic, b"after")
    told: list[tuple[Topic, str]] = []
    with Follower(broker, {topic: BEGINNING}, "test", on_unreadable=lambda *what: told.append(what)) as follower:
        heard = Heard(follower)
        until(lambda: heard.poll().values == [b"before", b"after"])
    assert [where for where, _ in told] == [topic]
    assert "when unpacked" in told[0][1]


def test_damaged_batches_are_passed_over_and_told(broker: BrokerSettings, topic: Topic, until: Until):
    """What is before, between and behind them is read, once; so is what comes in a batch before the damage."""
    publish(broker, topic, b"before")
    put = put_damaged(broker, topic)
    publish(broker, topic, b"after")
    told: list[str] = []
    with Follower(
        broker, {topic: BEGINNING}, "test", resume=True, on_unreadable=lambda where, why: told.append(why)
    ) as follower:
        heard = Heard(follower)
        until(lambda: heard.poll().values[-1:] == [b"after"])
        assert follower.poll() == []
    sound_at_first = {"fewer records than said", "more records than said", "damage in the middle"}
    assert heard.values == [b"before", *[b"first"] * len(sound_at_first & set(put)), b"after"]
    assert len(told) == len(put)


#: Bytes of a batch: of its offset (two), format, checksum, codec, last offset, number of records, and of a record.
ROTTEN = (0, 6, 16, 17, 22, 24, 60, 70)


@pytest.mark.bus
def test_batches_that_rotted_on_a_brokers_disk_are_passed_over_and_told(node: Any, topic: Topic, until: Until):
    """Apache Kafka hands them on as they are: a byte in the second of three batches is another one."""
    rotten = {at: msgspec.structs.replace(topic, name=f"{topic.name}-{at}") for at in ROTTEN}
    for each in rotten.values():
        publish(node.settings, each, b"before", b"never", b"after")
    node.stop()
    for at, each in rotten.items():
        (log,) = node.folder.glob(f"data/**/{each.name}-0/*.log")
        data = bytearray(log.read_bytes())
        second = 12 + struct.unpack_from(">i", data, 8)[0]
        data[second + at] ^= 0x05
        log.write_bytes(data)
    node.start()
    for each in rotten.values():
        publish(node.settings, each, b"last")
    told: list[Topic] = []
    with Follower(
        node.settings,
        dict.fromkeys(rotten.values(), BEGINNING),
        "test",
        resume=True,
        on_unreadable=lambda where, _: told.append(where),
    ) as follower:
        heard = Heard(follower)
        until(lambda: heard.poll().values.count(b"last") == len(rotten))
    assert Counter(heard.values) == dict.fromkeys((b"before", b"after", b"last"), len(rotten))
    assert Counter(told) == dict.fromkeys(rotten.values(), 1)
