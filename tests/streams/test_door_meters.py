"""What the door's counts tell of jobs and of snapshots. The broker is that of ``test_door``: a few lists."""

import asyncio
from types import SimpleNamespace

import pytest
from msgspec import structs

from paceline import topics, wire
from paceline.events.silence import SERIES_SILENT_S
from streams.door import Door
from streams.job_meters import ENDED_S
from streams.offsets import Partition
from streams.processor import Processor
from streams.store import Store
from tests.derived_events import described

AT, JOBS = Partition(topics.OP.name, 0), Partition(topics.JOB.name, 0)


class Broker:
    """Takes everything; keeps the changelog and what is committed."""

    def __init__(self):
        self.table = {}
        self.committed = {}

    async def publish(self, topic, key, value):
        done = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    async def delivered(self):
        return None

    async def start(self, partition):
        return self.committed.get(partition, 0)

    async def commit(self, offsets):
        self.committed.update(offsets)

    def ends(self):
        return {}


@pytest.fixture
def start():
    """A worker's door on a broker; another one on the same takes over what is stored."""
    broker, clock = Broker(), SimpleNamespace(now_s=0.0)

    def begin():
        now = lambda: clock.now_s  # noqa: E731
        return Door(Processor(), Store(broker.table, broker.delivered), broker.publish, broker, now, now), clock

    return begin


@pytest.fixture
def messages(make_training):
    """A job whose rank 1 is slow until the end."""
    return [wire.encode(event) for event in make_training(job="train", slow=1, seconds=20, slow_from_s=6)]


def values(door):
    return door.counts.jobs.values(door.clock(), door.wall())


async def take(door, messages, first=0):
    for offset, message in enumerate(messages, start=first):
        await door.take(topics.OP, AT, offset, message)


@pytest.mark.long
def test_a_restart_tells_what_is_open_and_counts_anew(start, messages):
    """The finding that was told before is there after the first message; steps count from 0, as of any new process."""

    async def life():
        door, _ = start()
        await take(door, messages[:-2])
        before = values(door)
        await door.checkpoint(everything=True)
        again, _ = start()
        assert not values(again).findings
        await take(again, messages[-2:-1], len(messages) - 2)
        return before, values(again)

    before, after = asyncio.run(life())
    assert before.findings
    assert after.findings == before.findings
    assert after.lost_s == before.lost_s
    assert sum(before.step_times["train",][0]) > 100
    assert sum(after.step_times.get(("train",), ([0], 0.0))[0]) < 50


@pytest.mark.long
def test_partitions_that_are_taken_away_take_their_series_along(start, messages):
    """Another worker tells of them now."""

    async def life():
        door, _ = start()
        await take(door, messages)
        assert values(door).findings
        door.lose()
        return values(door)

    assert not any(vars(asyncio.run(life())).values())


@pytest.mark.long
def test_messages_keep_a_job_and_its_end_ends_it(start, messages):
    """One that is silent goes by itself; one whose nodes have left a minute later."""

    async def life():
        door, clock = start()
        await take(door, messages)
        clock.now_s += SERIES_SILENT_S - 1.0
        assert values(door).findings
        joined = described(job="train", cluster=wire.decode(topics.OP, messages[0]).cluster)
        for offset, event in enumerate((joined, structs.replace(joined, ended_s=5.0))):
            await door.take(topics.JOB, JOBS, offset, wire.encode(event))
        clock.now_s += ENDED_S - 1.0
        assert values(door).findings
        clock.now_s += 1.0
        return values(door)

    assert not any(vars(asyncio.run(life())).values())


@pytest.mark.long
def test_the_age_of_what_was_stored(start, messages):
    """It grows while something waits to be stored, and not while nothing does."""

    async def life():
        door, clock = start()
        clock.now_s += 100.0
        assert not door.stores_wait()
        await door.checkpoint()
        await take(door, messages)
        clock.now_s += 7.0
        assert door.stores_wait()
        assert clock.now_s - door.counts.stored_s == 7.0
        await door.checkpoint(everything=True)
        assert clock.now_s == door.counts.stored_s
        assert not door.stores_wait()

    asyncio.run(life())
