"""States of jobs that were silent when a worker took over: no message asks for them, and they end all the same."""

import asyncio
import json
import random

import msgspec
import pytest

from paceline import topics, wire
from streams import unread
from streams.door import Door
from streams.joined_topics import NOTE
from streams.keyed_state import Key, KeyedState
from streams.offsets import Partition
from streams.processor import Processor
from streams.store import Store
from streams.stored_states import FORGOTTEN
from streams.unread import Unread
from tests.streams.test_door import AT, Broker, Clock, KilledError

IDLE_S = 30.0
KILLED, OTHER = (Key("job", "c", name, 0).text() for name in ("killed", "other"))


def door_of(broker, clock):
    return Door(Processor(idle_s=IDLE_S), Store(broker.table, broker.delivered), broker.publish, broker, clock, clock)


async def work(broker, until=None):
    """A worker's life; after so many messages it ends."""
    clock = Clock()
    door = door_of(broker, clock)
    for offset in range(broker.committed, len(broker.messages) if until is None else until):
        await door.take(topics.OP, AT, offset, broker.messages[offset])
        clock.now_s += 0.4
        await door.checkpoint()
    await door.checkpoint(everything=True)


def names(broker):
    return Store(broker.table, broker.delivered).keys(AT.number)


def states(broker):
    """The states of the findings on the killed job, as they were published."""
    told = [json.loads(value) for topic, value in broker.published if topic == topics.FINDING.name]
    return [one["state"] for one in told if one["job"] == "killed"]


@pytest.fixture(scope="module")
def killed(make_training):
    """A job whose rank 1 is slow until it is killed."""
    return [wire.encode(event) for event in make_training(job="killed", slow=1, seconds=15, slow_from_s=4)]


@pytest.fixture(scope="module")
def other(make_training):
    """A job that runs after it, for longer than a silent one is remembered."""
    return [wire.encode(event) for event in make_training(job="other", seconds=50, nodes=1, ranks=1)]


@pytest.fixture(scope="module")
def undivided(killed, other):
    """One worker has seen both."""
    made = Broker([*killed, *other])
    asyncio.run(work(made))
    return made


@pytest.fixture(scope="module")
def stopped(killed, other):
    """The worker that saw the first job has ended."""
    made = Broker([*killed, *other])
    asyncio.run(work(made, until=len(killed)))
    assert KILLED in names(made)
    assert states(made)[-1] not in ("resolved", "expired")
    return made


@pytest.fixture
def broker(stopped):
    """Another worker is to take over."""
    made = Broker([*stopped.messages])
    made.committed, made.table, made.published = stopped.committed, dict(stopped.table), [*stopped.published]
    return made


@pytest.mark.long
def test_it_ends_as_one_in_memory_would(broker, undivided):
    """Its finding that lasted is reported to its end, and nothing of it stays stored."""
    asyncio.run(work(broker))
    assert states(broker) == states(undivided)
    assert set(names(broker)) == set(names(undivided))
    assert KILLED not in names(broker)
    assert OTHER in names(broker)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_killed_anywhere_it_ends_once(broker, undivided, other, seed):
    dice = random.Random(seed)
    for _ in range(500):
        broker.left = dice.randint(60, 400)
        try:
            asyncio.run(work(broker))
        except KilledError:
            continue
        break
    broker.left = 10**9
    broker.messages += [wire.encode(event) for event in _later(other)]
    asyncio.run(work(broker))
    assert states(broker)[-1] == states(undivided)[-1]
    assert KILLED not in names(broker)
    told = [json.loads(value) for topic, value in broker.published if topic == topics.FINDING.name]
    kept = {}
    for one in told:
        assert kept.setdefault((one["id"], one["revision"]), one) == one


def _later(messages):
    """The same job goes on."""
    for event in (wire.decode(topics.OP, value) for value in messages):
        yield msgspec.structs.replace(event, t0_s=event.t0_s + 100.0, sequence=event.sequence + len(messages))


@pytest.mark.long
def test_one_that_goes_on_is_not_forgotten(broker, killed, other):
    """Its next message comes before the time is over."""
    broker.messages = [*broker.messages[: len(killed) - 1], *other[:20], killed[-1], *other[20:45]]
    broker.committed = len(killed) - 1
    asyncio.run(work(broker))
    assert KILLED in names(broker)


@pytest.mark.long
def test_what_is_no_state_of_a_job_or_node_stays(broker):
    """The note of topics, that of forgotten jobs, and what a cluster was advised."""
    stored = Store(broker.table, broker.delivered)
    cluster, node = Key("cluster", "", "", -1).text(), Key("node", "", "gone", -1).text()
    for name in (NOTE, cluster, node):
        asyncio.run(stored.write(AT.number, name, msgspec.msgpack.encode({})))
    asyncio.run(work(broker))
    assert {NOTE, cluster, FORGOTTEN} <= set(names(broker))
    assert node not in names(broker)


@pytest.mark.long
def test_one_that_is_damaged_is_deleted_too(broker, caplog):
    broker.table[f"{AT.number}|{KILLED}".encode()] = b"nonsense"
    asyncio.run(work(broker))
    assert KILLED not in names(broker)
    assert "its stored state is not readable" in caplog.text


@pytest.mark.long
def test_states_of_other_partitions_are_not_ours(broker):
    """A table in memory may hold those of a partition that was given away."""
    asyncio.run(Store(broker.table, broker.delivered).write(7, KILLED, b"theirs"))
    asyncio.run(work(broker))
    assert Store(broker.table, broker.delivered).read(7, KILLED) == b"theirs"


def test_all_are_found_however_many_and_chunks_are_no_states(monkeypatch):
    """Some at a time, each once."""
    monkeypatch.setattr(unread, "AT_A_TIME", 2)
    made = Unread(IDLE_S)
    texts = [Key("job", "", f"odd #{number}.0#1.{number}", 0).text() for number in range(5)]
    table = {f"3|{text}".encode(): b"" for text in texts} | {f"3|{texts[0]}#0.{at}".encode(): b"" for at in (0, 12)}
    made.add(3, Store(table, None).keys(3))
    taken = [made.take() for _ in range(4)]
    assert [len(some) for some in taken] == [2, 2, 1, 0]
    assert [key.text() for some in taken for _, key in some] == texts


def test_in_a_backlog_none_is_looked_for():
    """The next message of any job may still lie on the broker. A busy worker has one now and then."""
    made = Unread(IDLE_S)
    assert not made.due(0.0, backlog=True)
    assert not made.due(5.0, backlog=False)
    assert not made.due(IDLE_S + 1, backlog=False)
    assert not made.due(IDLE_S + 6, backlog=True)
    assert made.due(IDLE_S + 7, backlog=False)
    assert not made.due(IDLE_S + 8, backlog=False)
    made.clear()
    assert not made.due(9 * IDLE_S, backlog=False)


class Idle(Broker):
    """No message comes. Two partitions are ours; ``stored`` lies in the second."""

    def __init__(self, stored):
        super().__init__([])
        self.clock, self.stored = Clock(), stored
        for number in range(stored):
            key = Key("job", "c", f"job-{number}", 0).text()
            asyncio.run(Store(self.table, self.delivered).write(3, key, KeyedState().snapshot()))

    def ends(self):
        return {AT: (0, 0), Partition(topics.HOST.name, 3): (9, None)}

    def still_stored(self):
        return [name for name in Store(self.table, self.delivered).keys(3) if name != FORGOTTEN]

    async def waited(self, door, looks):
        """The others have moved on by more than an idle state is kept, and the worker has looked so often."""
        await door.checkpoint()
        door.processor.now_s += IDLE_S + 1
        for _ in range(looks):
            await door.checkpoint()


def test_where_nothing_else_comes_in_a_partition_its_states_go_too():
    broker = Idle(1)
    asyncio.run(broker.waited(door_of(broker, broker.clock), 1))
    assert broker.still_stored() == []


def test_what_was_found_before_the_partitions_were_taken_away_is_not_touched():
    """They may be another's by now, and newer; time begins again."""

    async def lost(broker):
        door = door_of(broker, broker.clock)
        await broker.waited(door, 1)
        before = broker.still_stored()
        door.lose()
        door.processor.now_s += 2 * IDLE_S
        for _ in range(3):
            await door.checkpoint()
        return before, broker.still_stored()

    before, after = asyncio.run(lost(Idle(2 * unread.AT_A_TIME)))
    assert len(before) == unread.AT_A_TIME
    assert after == before


def test_a_state_whose_last_words_cannot_be_judged_is_put_aside_and_stops_nothing(monkeypatch):
    def expire(state):
        raise ValueError("odd")

    monkeypatch.setattr(KeyedState, "expire", expire)
    broker = Idle(2)
    asyncio.run(broker.waited(door_of(broker, broker.clock), 2))
    letters = [json.loads(value) for topic, value in broker.published if topic == topics.DEADLETTER.name]
    assert broker.still_stored() == []
    assert len(letters) == 2
    assert all("last words" in one["reason"] and one["partition"] == 3 for one in letters)
