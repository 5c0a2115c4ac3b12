"""What concerns a cluster reaches its advice, wherever the worker is killed. The broker here is a few lists."""

import asyncio
import pathlib
import random

import msgspec
import pytest

from paceline import topics, wire
from paceline.events import Command, JobProfile
from streams import cluster_advice
from streams.cluster_events import ADVICE, read
from streams.door import Door
from streams.offsets import Partition
from streams.processor import Processor
from streams.store import Store
from tests.streams.advisers import OneAFinding

GOLDEN = pathlib.Path(__file__).parents[1] / "paceline" / "golden" / "v1"
NUMBER = 0
SOURCES = (topics.OP, topics.COMMAND, topics.PROFILE, topics.NODE, ADVICE)


class KilledError(Exception):
    """kill -9."""


class Bus:
    """A partition of each topic, committed offsets, a changelog and what was published; kills after some operations."""

    def __init__(self, **messages):
        self.logs = {topic.name: list(messages.get(topic.short.replace("-", "_"), [])) for topic in SOURCES}
        self.committed = dict.fromkeys(self.logs, 0)
        self.table = {}
        self.published = []
        self.left = 10**9

    def _operation(self):
        if self.left == 0:
            raise KilledError
        self.left -= 1

    async def publish(self, topic, key, value):
        self._operation()
        if topic == ADVICE:
            assert key, "an event without a key would lie anywhere"
            self.logs[ADVICE.name].append(value)
        self.published.append((topic.name, key, value))
        done = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    async def delivered(self):
        self._operation()

    async def start(self, partition):
        return self.committed[partition.topic]

    async def seek(self, partition, offset):
        raise AssertionError("nothing is missing")

    def ends(self):
        return {Partition(name, NUMBER): (len(log), self.committed[name]) for name, log in self.logs.items()}

    async def commit(self, offsets):
        self._operation()
        for at, offset in offsets.items():
            assert offset > self.committed[at.topic]
            self.committed[at.topic] = offset

    def said(self, topic):
        """What is on a topic, decoded."""
        return [wire.decode(topic, value) for name, _, value in self.published if name == topic.name]


class Clock:
    now_s = 1_700_000_000.0

    def __call__(self):
        return self.now_s


@pytest.fixture(autouse=True)
def _one_a_finding(monkeypatch):
    monkeypatch.setattr(cluster_advice, "Advice", OneAFinding)


def door_of(bus, clock):
    return Door(Processor(), Store(bus.table, bus.delivered), bus.publish, bus, clock, clock)


async def work(bus, clock, dice=None):
    """A worker's life: read all topics on from their committed offsets, until nothing is left."""
    door, places = door_of(bus, clock), dict(bus.committed)
    while waiting := [topic for topic in SOURCES if places[topic.name] < len(bus.logs[topic.name])]:
        topic = dice.choice(waiting) if dice else waiting[0]
        offset = places[topic.name]
        places[topic.name] += 1
        await door.take(topic, Partition(topic.name, NUMBER), offset, bus.logs[topic.name][offset])
        clock.now_s += 0.2
        await door.checkpoint()
    await door.checkpoint(everything=True)
    return door


def command(number, target, **fields):
    """As somebody sends it while the clock of these tests runs."""
    expires_s = Clock.now_s + 3600.0
    return Command(
        id=f"k{number}", cluster="c", target=target, action="accept", expires_s=expires_s, issuer="i", **fields
    )


def profile(cluster="c"):
    return JobProfile(cluster=cluster, job="a", attempt=0, time_s=1.0)


@pytest.fixture(scope="module")
def ops(make_training):
    """Two jobs with a slow rank each."""
    runs = [make_training(job=f"job-{number}", slow=number, seconds=15, slow_from_s=4) for number in range(2)]
    return [wire.encode(event) for row in zip(*runs, strict=True) for event in row]


@pytest.fixture(scope="module")
def once():
    return {}


@pytest.fixture
def uninterrupted(ops, once):
    """A bus of which one worker has read all, made once: to be read, never written."""
    if not once:
        once["bus"] = Bus(op=ops)
        asyncio.run(work(once["bus"], Clock()))
    return once["bus"]


def upserted(suggestions):
    """What a reader holds that upserts by id and revision; repeats must say the same."""
    kept = {}
    for one in suggestions:
        assert kept.setdefault((one.id, one.revision), one) == one
    return kept


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_killed_anywhere_advice_loses_nothing(ops, uninterrupted, seed):
    """Findings lead to suggestions, and commands for them are answered, as if nothing had happened."""
    ids = {one.id for one in uninterrupted.said(topics.SUGGESTION)}
    assert len(ids) >= 2
    commands = [wire.encode(command(number, f"suggestion:{id_}")) for number, id_ in enumerate([*sorted(ids), "no"])]
    dice = random.Random(seed)
    bus, clock = Bus(op=ops), Clock()
    for _ in range(500):
        bus.left = dice.randint(20, 300)
        try:
            asyncio.run(work(bus, clock, dice))
            if bus.logs[topics.COMMAND.name]:
                break
            bus.logs[topics.COMMAND.name] = commands
        except KilledError:
            continue
    assert bus.committed == {name: len(log) for name, log in bus.logs.items()}
    kept = upserted(bus.said(topics.SUGGESTION))
    assert {key[0] for key in kept} == ids
    assert {id_: kept[id_, 2].state for id_ in ids} == dict.fromkeys(ids, "accepted")
    entries = {}
    for entry in bus.said(topics.AUDIT):
        assert entries.setdefault(entry.command_id, entry) == entry, "the same command, answered in other words"
    assert sorted(entry.outcome for entry in entries.values()) == [*["accepted"] * len(ids), "refused"]


def test_what_advice_is_not_made_of_passes_by():
    """Commands for others; those offsets are committed all the same."""
    bus = Bus(command=[wire.encode(command(1, "streams")), wire.encode(command(2, "job:a"))])
    asyncio.run(work(bus, Clock()))
    assert bus.published == []
    assert bus.committed[topics.COMMAND.name] == 2


def test_nonsense_among_commands_is_put_aside():
    """With where it came from, and the next is heard."""
    bus = Bus(command=[b"{nonsense", wire.encode(command(1, "suggestion:no"))])
    asyncio.run(work(bus, Clock()))
    (letter,) = bus.said(topics.DEADLETTER)
    assert (letter.topic, letter.offset) == (topics.COMMAND.name, 0)
    assert [entry.outcome for entry in bus.said(topics.AUDIT)] == ["refused"]


def test_nothing_passed_on_is_committed_before_it_is_delivered():
    """While it is under way, its offset stays where it is."""

    class Stuck(Bus):
        async def publish(self, topic, key, value):
            published.set()
            return asyncio.get_running_loop().create_future()

    published = asyncio.Event()

    async def run():
        bus = Stuck(profile=[wire.encode(profile())])
        working = asyncio.create_task(work(bus, Clock()))
        await published.wait()
        for _ in range(1000):  # As far as it can go.
            await asyncio.sleep(0)
        assert not working.done()
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        return bus.committed

    assert set(asyncio.run(run()).values()) == {0}


def test_what_is_judged_and_passed_on_is_committed_after_both():
    """A node's inventory is judged, too: its state is stored once the envelope is on the broker."""
    bus = Bus(node=[(GOLDEN / "NodeDescribed.json").read_bytes()])
    asyncio.run(work(bus, Clock()))
    assert [read(ADVICE, value).topic for name, _, value in bus.published if name == ADVICE.name] == [topics.NODE]
    assert bus.committed[topics.NODE.name] == 1


@pytest.mark.slow
def test_clusters_are_advised_apart(ops):
    """Each by its own events: another cluster's suggestion is unknown in this one."""
    bus = Bus(op=ops)
    asyncio.run(work(bus, Clock()))
    known = bus.said(topics.SUGGESTION)[0].id
    foreign = msgspec.structs.replace(command(1, f"suggestion:{known}"), cluster="other")
    bus.logs[topics.COMMAND.name].append(wire.encode(foreign))
    asyncio.run(work(bus, Clock()))
    (entry,) = bus.said(topics.AUDIT)
    assert (entry.outcome, entry.cluster) == ("refused", "other")
    assert {key for name, key, _ in bus.published if name == ADVICE.name} == {"c", "other"}


def test_a_cluster_without_a_name_has_a_key():
    """Or its events would lie in all partitions."""
    bus = Bus(profile=[wire.encode(profile(cluster=""))])
    asyncio.run(work(bus, Clock()))
    assert [key for _, key, _ in bus.published] == ["-"]


def test_what_is_passed_on_stays_as_it_came():
    """With fields that this version does not know."""
    message = wire.encode(profile())[:-1] + b',"later":1}'
    bus = Bus(profile=[message])
    asyncio.run(work(bus, Clock()))
    assert [message in value for _, _, value in bus.published] == [True]
