"""What is changed in aiokafka, on real brokers."""

import asyncio
import uuid
from types import SimpleNamespace

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.consumer.fetcher import Fetcher
from aiokafka.consumer.group_coordinator import GroupCoordinator
from faust.transport.consumer import Consumer, ThreadDelegateConsumer
from mode import Service

from paceline.kafka.topic_admin import ensure_topics
from paceline.topics import HOUR_MS, Topic
from streams import compat
from tests.patience import PATIENCE_S


@pytest.mark.bus
@pytest.mark.parametrize("committed", [None, 0, 2])
def test_seeking_to_what_is_committed_reads_again_what_was_fetched_and_dropped(broker, committed):
    """Also where nothing is committed yet: the client's own seek leaves the place behind what was dropped."""
    topic = Topic(f"sought-{uuid.uuid4().hex}", bytes, "none", "raw", HOUR_MS, 1)
    ensure_topics(broker, [topic])
    at = TopicPartition(topic.name, 0)

    async def run():
        producer = AIOKafkaProducer(bootstrap_servers=broker.address)
        await producer.start()
        for value in (b"1", b"2", b"3"):
            await producer.send_and_wait(topic.name, value)
        await producer.stop()
        consumer = AIOKafkaConsumer(
            bootstrap_servers=broker.address,
            group_id=topic.name,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        await consumer.start()
        try:
            consumer.assign([at])
            if committed is not None:
                await consumer.commit({at: committed})
            async with asyncio.timeout(PATIENCE_S):  # Its place may be asked for before that is committed.
                while (await consumer.getone()).offset < 2:
                    pass
                await compat.seek_to_committed(consumer, {topic.name})
                return [(await consumer.getone()).offset for _ in range(committed or 0, 3)]
        finally:
            await consumer.stop()

    assert asyncio.run(run()) == list(range(committed or 0, 3))


@pytest.mark.slow
@pytest.mark.bus
@pytest.mark.parametrize("joining", [1, 3])
def test_who_joins_after_a_leader_left_a_group_that_was_forming_leads_it(broker, monkeypatch, joining):
    """The embedded broker keeps the leader that is gone; without help nobody can join such a group again."""
    monkeypatch.setattr(GroupCoordinator, "_send_req", GroupCoordinator._send_req)  # put back afterwards
    compat.replace_lost_leader()
    topic = Topic(f"led-{uuid.uuid4().hex}", bytes, "none", "raw", HOUR_MS, 2)
    ensure_topics(broker, [topic])

    async def joined():
        consumer = AIOKafkaConsumer(
            topic.name,
            bootstrap_servers=broker.address,
            group_id=topic.name,
            session_timeout_ms=8000,
            heartbeat_interval_ms=1500,
            rebalance_timeout_ms=3000,
            enable_auto_commit=False,
        )
        await consumer.start()
        return consumer

    async def run():
        async with asyncio.timeout(200):
            leader = await joined()
            follower = await joined()
            while not (leader.assignment() and follower.assignment()):
                await asyncio.sleep(0.05)
            await follower.stop()
            await leader.stop()  # Its heart has not beaten since, so it does not know that the group is forming anew.
            later = await asyncio.gather(*(joined() for _ in range(joining)))
            if joining == 1:  # Not even at first is anything given to the name that it came with.
                assert _given(later) == list(range(topic.partitions))
            # In the end each is given to one, and none to a name that nobody answers to.
            while _given(later) != list(range(topic.partitions)):
                await asyncio.sleep(0.05)
            await asyncio.gather(*(one.stop() for one in later))

    asyncio.run(run())


def _given(consumers):
    return sorted(at.partition for one in consumers for at in one.assignment())


def test_committing_nothing_does_nothing(monkeypatch):
    """Faust does so when a rebalance has just taken everything away; of the client's refusal its thread would die."""
    monkeypatch.setattr(AIOKafkaConsumer, "commit", AIOKafkaConsumer.commit)  # put back afterwards
    compat.commit_nothing()

    async def run():
        consumer = AIOKafkaConsumer(bootstrap_servers="127.0.0.1:1", group_id="nobody")
        try:
            await consumer.commit({})
        finally:
            await consumer.stop()

    asyncio.run(run())


def test_a_partition_without_a_position_yet_kills_nobody(monkeypatch):
    """Faust looks every few seconds; right after an assignment the client has no position, and says so by an error."""
    monkeypatch.setattr(Consumer, "verify_all_partitions_active", Consumer.verify_all_partitions_active)

    async def pause(_):
        pass

    async def look():
        client = AIOKafkaConsumer(bootstrap_servers="127.0.0.1:1")
        client.assign([TopicPartition("op", 3)])
        states = client._subscription.subscription.assignment
        looking = SimpleNamespace(
            assignment=lambda: states.tps,
            sleep=pause,
            should_stop=False,
            verify_event_path=lambda _, at: states.state_value(at).position,
        )
        try:
            await Consumer.verify_all_partitions_active(looking)
        finally:
            await client.stop()

    with pytest.raises(AssertionError):
        asyncio.run(look())
    compat.verify_nothing()
    asyncio.run(look())


@pytest.mark.parametrize(
    ("asked", "waits"), [({}, compat.FETCH_WAIT_MS), ({"fetch_max_wait_ms": 1500}, 100), ({"fetch_max_wait_ms": 5}, 5)]
)
def test_no_fetch_is_kept_for_long(monkeypatch, asked, waits):
    """While a broker keeps a fetch of empty partitions, a partition that has been read up is not asked for."""
    monkeypatch.setattr(AIOKafkaConsumer, "__init__", AIOKafkaConsumer.__init__)  # put back afterwards
    compat.fetch_soon()

    async def run():
        consumer = AIOKafkaConsumer(bootstrap_servers="127.0.0.1:1", **asked)
        await consumer.stop()
        return consumer._fetch_max_wait_ms

    assert asyncio.run(run()) == waits


def test_a_fetch_while_nothing_is_in_hand_is_kept_longer(monkeypatch):
    """Nothing waits for its end then: what comes ends it."""
    monkeypatch.setattr(AIOKafkaConsumer, "__init__", AIOKafkaConsumer.__init__)  # put back afterwards
    monkeypatch.setattr(Fetcher, "_get_actions_per_node", Fetcher._get_actions_per_node)
    monkeypatch.setattr(compat, "_ACTIONS", lambda asking, _: asking._fetch_max_wait_ms)
    compat.fetch_soon()
    now_s, taken = 0.0, 0
    asking = SimpleNamespace(
        _fetch_max_wait_ms=compat.FETCH_WAIT_MS, _records=[], _loop=SimpleNamespace(time=lambda: now_s)
    )
    assigned = SimpleNamespace(tps=["op 3"], state_value=lambda _: SimpleNamespace(_position=taken))

    def waits_ms():
        return Fetcher._get_actions_per_node(asking, assigned)

    assert waits_ms() == compat.WHOLE_WAIT_MS
    asking._records = ["op 3"]
    assert waits_ms() == 100
    now_s = 20.0
    taken = 1
    assert waits_ms() == 100
    now_s = 49.0
    assert waits_ms() == 100  # The worker is busy with them.
    now_s = 50.0
    assert waits_ms() == compat.WHOLE_WAIT_MS  # Nobody is going to take them, as what was read of a changelog.
    taken = 2
    assert waits_ms() == 100
    asking._records = ["another worker's"]
    assert waits_ms() == 100
    asking._records = []
    assert waits_ms() == compat.WHOLE_WAIT_MS


@pytest.mark.parametrize(("left_out", "waits_s"), [(set(), 1.0), ({"op 3"}, compat.POLL_S)])
def test_silent_partitions_are_not_waited_for_while_others_are_left_out(monkeypatch, left_out, waits_s):
    """A partition is left out while its messages in hand are many; soon it has to be asked for again."""
    monkeypatch.setattr(ThreadDelegateConsumer, "_getmany", ThreadDelegateConsumer._getmany)  # put back afterwards
    compat.poll_soon()
    asked = []

    class Thread:
        async def getmany(self, active_partitions, timeout):
            asked.append((active_partitions, timeout))

    consumer = SimpleNamespace(_thread=Thread(), _buffered_partitions=left_out)
    asyncio.run(ThreadDelegateConsumer._getmany(consumer, {"host 1"}, 1.0))
    assert asked == [({"host 1"}, waits_s)]


class RefusedError(Exception):
    """What a message's receiver may raise."""


async def handed_on(message, suspended):
    """Hand ``message``, a coroutine, on as Faust does, which stops once ``suspended`` is set."""
    return await Consumer.wait_first(Service(), message, suspended.wait())


@pytest.fixture
def at_once(monkeypatch):
    """Messages are handed on at once."""
    monkeypatch.setattr(Consumer, "wait_first", Consumer.wait_first)  # put back afterwards
    compat.deliver_at_once()


@pytest.mark.usefixtures("at_once")
def test_a_message_that_waits_for_nothing_is_handed_on_without_a_task():
    """Faust would make four, of which it cancels three."""

    async def run():
        async def message():
            return asyncio.current_task()

        done = await handed_on(message(), asyncio.Event())
        return done.results == [asyncio.current_task()], done.stopped

    assert asyncio.run(run()) == (True, False)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("waits", [0, 1, 3])
def test_a_message_waits_for_room_as_long_as_it_takes(waits):
    """Once, or again and again, as where other messages are before it."""

    async def run():
        rooms = [asyncio.get_running_loop().create_future() for _ in range(waits)]

        async def message():
            return [await room for room in rooms]

        async def free():
            for number, room in enumerate(rooms):
                await asyncio.sleep(0)
                room.set_result(number)

        freeing = asyncio.create_task(free())
        done = await handed_on(message(), asyncio.Event())
        await freeing
        return done.results

    assert asyncio.run(run()) == [list(range(waits))]


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("waits", [False, True])
def test_what_a_message_raises_is_raised(waits):
    """Before it has waited and after: Faust stops of it, and starts again."""

    async def run():
        async def message():
            if waits:
                await asyncio.sleep(0)
            raise RefusedError

        await handed_on(message(), asyncio.Event())

    with pytest.raises(RefusedError):
        asyncio.run(run())


@pytest.mark.usefixtures("at_once")
def test_a_message_that_waits_is_given_up_when_the_flow_is_suspended():
    """In a rebalance it would else stay, and come again from the broker."""

    async def run():
        suspended, given_up = asyncio.Event(), asyncio.Event()

        async def message():
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                given_up.set()
                raise

        handing = asyncio.create_task(handed_on(message(), suspended))
        await asyncio.sleep(0)
        suspended.set()
        await handing
        await given_up.wait()
        return True

    assert asyncio.run(run())


@pytest.mark.usefixtures("at_once")
def test_nothing_is_tried_first_in_a_consumer_that_stops():
    """It answers that it has stopped, as before."""

    async def run():
        async def message():
            await asyncio.get_running_loop().create_future()

        stopping = Service()
        await stopping.stop()
        return (await Consumer.wait_first(stopping, message(), asyncio.Event().wait())).stopped

    assert asyncio.run(run())
