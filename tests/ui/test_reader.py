import socket
import time

import pytest
from msgspec import structs

from paceline import events, topics, wire
from paceline.kafka import embedded
from paceline.kafka.clients import producer
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.topic_admin import ensure_topics
from ui.reader import Reader

pytestmark = pytest.mark.bus


@pytest.fixture
def settings(own_broker):
    return BrokerSettings(brokers=(own_broker.address,))


@pytest.fixture
def reader(settings):
    made = Reader(settings)
    made.start()
    yield made
    made.stop()


def publish(settings, numbered):
    client = producer(settings, "test")
    for topic, event in numbered:
        client.send(topic.name, event if isinstance(event, bytes) else wire.encode(event))
    client.flush()
    client.close()


def test_a_reader_shows_what_came_before_and_what_comes(settings, reader, simulated_job, until):
    """Topics that appear late are followed from their beginning, and new messages arrive by themselves."""
    until(lambda: reader.snapshot(None).connection.state == "connected")
    ensure_topics(settings)
    publish(settings, [*simulated_job.described(time.time()), *simulated_job.timings(time.time(), 0, 10)])
    until(lambda: (found := reader.snapshot(None).job) and found.steps.size == 10 and found.world_size == 4)
    publish(settings, [simulated_job.finding(1, 9, "confirmed")])
    until(lambda: reader.snapshot("demo").job.episodes)


def test_it_is_connected_once_what_was_there_is_read(settings, reader, simulated_job, until):
    """Before that the page says that it reads, and denies nothing: neither jobs nor findings."""
    ensure_topics(settings)
    now_s = time.time()
    steps = [one for first in range(0, 400, 10) for one in simulated_job.timings(now_s, first, 10)]
    publish(settings, [*simulated_job.described(now_s), *steps, simulated_job.finding(1, 9, "confirmed")])
    late = Reader(settings)
    assert late.snapshot(None).connection.state == "connecting"
    late.start()
    try:
        seen = []
        until(lambda: seen.append(late.snapshot(None)) or seen[-1].connection.state == "connected")
    finally:
        late.stop()
    assert seen[-1].job.steps[-1] == 399
    assert seen[-1].job.episodes
    assert {one.connection.state for one in seen} <= {"connecting", "reading", "connected"}


def test_what_does_not_decode_is_counted_and_reading_goes_on(settings, reader, simulated_job, until):
    """A message that is no event harms nothing but the count."""
    ensure_topics(settings)
    sense = next(iter(simulated_job.timings(time.time(), 0, 10)))
    torn = structs.replace(sense[1], rank=events.Column("u2", b"\0"))
    publish(settings, [(topics.OP, b"\xff{"), (topics.OP, torn), sense])

    def unusable():
        return {line.topic: line.unusable for line in reader.snapshot(None).topics}.get("op")

    until(lambda: reader.snapshot(None).job and unusable() == 2)


def test_a_lost_broker_is_told_and_the_picture_kept(settings, own_broker, reader, simulated_job, until):
    """When the broker goes, the connection says so with a cause, and the job stays."""
    ensure_topics(settings)
    publish(settings, simulated_job.described(time.time()))
    until(lambda: reader.snapshot(None).job)
    own_broker.stop()
    lost = until(lambda: (found := reader.snapshot(None)).connection.state == "lost" and found)
    assert own_broker.address in lost.connection.cause
    assert lost.job is not None


def test_a_broker_that_comes_back_is_followed_again(settings, own_broker, reader, simulated_job, until):
    """The reader reconnects by itself, also to a broker that has forgotten everything."""
    until(lambda: reader.snapshot(None).connection.state == "connected")
    own_broker.stop()
    until(lambda: reader.snapshot(None).connection.state == "lost")
    with embedded.start(own_broker.port):
        ensure_topics(settings)
        publish(settings, simulated_job.described(time.time()))
        until(lambda: reader.snapshot(None).job)
        until(lambda: reader.snapshot(None).connection.state == "connected")


def test_a_reader_that_fails_is_told_and_reads_on(settings, reader, simulated_job, until):
    """What breaks a thread of the page's own is on the page with its cause; mended, it reads on by itself."""
    ensure_topics(settings)
    publish(settings, simulated_job.described(time.time()))
    until(lambda: reader.snapshot(None).job)
    until(lambda: reader.snapshot(None).connection.state == "connected")
    traffic = reader._feed.traffic.pop("window")
    failed = until(lambda: (found := reader.snapshot(None)).connection.state == "failed" and found)
    assert "the page's reader of derived events failed (KeyError: 'window')" in failed.connection.cause
    assert failed.job is not None
    until(lambda: reader.snapshot(None).restarts >= 1)
    reader._feed.traffic["window"] = traffic
    until(lambda: reader.snapshot(None).connection.state == "connected")
    publish(settings, [simulated_job.finding(1, 9, "confirmed")])
    until(lambda: reader.snapshot("demo").job.episodes)


def test_no_broker_at_all_is_told_in_one_line(until):
    """A wrong address: a cause a person can read."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        reader = Reader(BrokerSettings(brokers=(f"127.0.0.1:{unused.getsockname()[1]}",)))
        reader.start()
        try:
            connection = until(lambda: (found := reader.snapshot(None).connection).state == "lost" and found)
        finally:
            reader.stop()
    assert "refused" in connection.cause
    assert "\n" not in connection.cause
