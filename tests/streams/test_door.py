"""Nothing is lost between the broker and its answers, wherever the worker is killed. The broker here is a few lists."""

import asyncio
import itertools
import json
import operator
import random
import threading
import zlib
from collections import Counter, defaultdict
from typing import NamedTuple

import msgspec
import pytest

from paceline import topics, wire
from streams.beat import STILL_S, StoodStillError
from streams.cluster_events import ADVICE
from streams.door import Door
from streams.ingest import gather
from streams.keyed_state import StateCut
from streams.offsets import Partition
from streams.open_states import CHECKPOINT_S, OLDEST_S
from streams.processor import Processor
from streams.snapshots import pack, unpack
from streams.store import Header, Store
from tests.patience import PATIENCE_S
from tests.timings import listed

AT = Partition(topics.OP.name, 0)


class KilledError(Exception):
    """kill -9."""


class Broker:
    """A log of messages, the committed offset, a changelog and what was published; it kills after some operations."""

    def __init__(self, messages):
        self.messages = messages
        self.committed = 0
        self.table = {}
        self.published = []
        self.left = 10**9
        self.seeks = []

    def _operation(self):
        if self.left == 0:
            raise KilledError
        self.left -= 1

    async def publish(self, topic, key, value):
        self._operation()
        self.published.append((topic.name, value))
        done = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    async def delivered(self):
        self._operation()

    async def start(self, partition):
        return self.committed

    async def seek(self, partition, offset):
        self.seeks.append(offset)

    def ends(self):
        return {AT: (len(self.messages), self.committed), Partition(topics.HOST.name, 3): (9, None)}

    async def commit(self, offsets):
        self._operation()
        self.committed = max(self.committed, offsets[AT])


class Clock:
    """A clock that the test moves."""

    now_s = 0.0

    def __call__(self):
        return self.now_s


def door_of(broker, clock):
    return Door(Processor(), Store(broker.table, broker.delivered), broker.publish, broker, clock, clock)


async def work(broker, clock, step_s=0.4):
    """A worker's life: read on from the committed offset, store what is due, stop in good order."""
    door = door_of(broker, clock)
    for offset in range(broker.committed, len(broker.messages)):
        await door.take(topics.OP, AT, offset, broker.messages[offset])
        clock.now_s += step_s
        await door.checkpoint()
    await door.checkpoint(everything=True)
    return door


def told(broker):
    """What was published as an answer: not put aside, and not to those who advise."""
    return [sent for sent in broker.published if sent[0] not in (topics.DEADLETTER.name, ADVICE.name)]


def findings(broker):
    """The published findings, upserted; a repeated one must say the same."""
    kept = {}
    for topic, value in broker.published:
        if topic == topics.FINDING.name:
            found = json.loads(value)
            assert kept.setdefault((found["id"], found["revision"]), found) == found
    return list(kept.values())


@pytest.fixture(scope="module")
def messages(make_training):
    """Two jobs in one partition, and a message that is none."""
    runs = [make_training(job=f"job-{number}", slow=number, seconds=15, slow_from_s=4) for number in range(2)]
    made = [wire.encode(event) for row in zip(*runs, strict=True) for event in row]
    return [*made[:30], b"{nonsense", *made[30:]]


@pytest.fixture(scope="module")
def uninterrupted(messages):
    broker = Broker(messages)
    asyncio.run(work(broker, Clock()))
    assert findings(broker)
    return broker


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_killed_anywhere_it_loses_nothing(messages, uninterrupted, seed):
    """Killed again and again after some operations, the workers together say what one uninterrupted worker says."""
    dice = random.Random(seed)
    broker, clock = Broker(messages), Clock()
    for _ in range(500):
        broker.left = dice.randint(20, 400)
        try:
            asyncio.run(work(broker, clock))
        except KilledError:
            continue
        break
    assert broker.committed == len(messages)
    assert findings(broker) == findings(uninterrupted)


class Refusing(Broker):
    """The ``which``-th finding comes to nothing: the call fails, or what it gave to wait for."""

    def __init__(self, messages, which, at_once):
        super().__init__(messages)
        self.left_to_refuse, self.at_once = which, at_once

    async def publish(self, topic, key, value):
        self.left_to_refuse -= topic == topics.FINDING
        if self.left_to_refuse or topic != topics.FINDING:
            return await super().publish(topic, key, value)
        if self.at_once:
            raise ConnectionError
        refused = asyncio.get_running_loop().create_future()
        refused.set_exception(ConnectionError())
        return refused


@pytest.mark.slow
@pytest.mark.parametrize("which", [1, 3])
@pytest.mark.parametrize("at_once", [True, False])
def test_what_could_not_be_published_is_never_stored_as_said(messages, uninterrupted, which, at_once):
    """A worker that is told to stop right then stores what it can; the next one says what is missing."""
    broker, clock = Refusing(messages, which, at_once), Clock()

    async def read_on(door):
        for offset, message in enumerate(messages):
            await door.take(topics.OP, AT, offset, message)
            clock.now_s += 0.4
            await door.checkpoint()

    async def fail():
        door = door_of(broker, clock)
        with pytest.raises(ConnectionError):
            await read_on(door)
        await door.checkpoint(everything=True)

    asyncio.run(fail())
    asyncio.run(work(broker, clock))
    order = operator.itemgetter("id", "revision")  # What came after the one that did not was said first.
    assert sorted(findings(broker), key=order) == sorted(findings(uninterrupted), key=order)


@pytest.mark.slow
def test_who_is_interrupted_amid_an_answer_stores_nothing_of_it(messages, uninterrupted):
    """A message whose taking is cancelled while its answer waits for the broker is told again, not known already."""
    broker, clock = Broker(messages), Clock()

    async def interrupted():
        reached = asyncio.Event()

        async def stuck(topic, key, value):
            if topic == topics.FINDING:
                reached.set()
                await asyncio.get_running_loop().create_future()
            return await broker.publish(topic, key, value)

        async def read_on():
            for offset, message in enumerate(messages):
                await door.take(topics.OP, AT, offset, message)

        door = Door(Processor(), Store(broker.table, broker.delivered), stuck, broker, clock, clock)
        reading = asyncio.create_task(read_on())
        await reached.wait()
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        await door.checkpoint(everything=True)

    asyncio.run(interrupted())
    asyncio.run(work(broker, clock))
    assert findings(broker) == findings(uninterrupted)


async def stuck(messages):
    """What is committed once a worker, of whose publications none is ever delivered, can go no further."""
    published = asyncio.Event()

    class Stuck(Broker):
        async def publish(self, topic, key, value):
            published.set()
            return asyncio.get_running_loop().create_future()

    broker = Stuck(messages)
    working = asyncio.create_task(work(broker, Clock()))
    await published.wait()
    for _ in range(1000):  # As far as it can go.
        await asyncio.sleep(0)
    assert not working.done()
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    return broker.committed


@pytest.mark.long
def test_nothing_is_committed_before_its_answers_are_delivered(messages):
    """While a publication is under way, the offset of its event stays where it is, and so do those after it."""
    processor = Processor()
    first = next(at for at, one in enumerate(messages) if processor.update(topics.OP, wire.decode(topics.OP, one)))
    assert asyncio.run(stuck(messages[: first + 20])) <= first


def waiting(processor):
    """What the messages bring to light that still wait for others."""
    return [answer for key in list(processor.states) for answer in processor.flush(key)]


@pytest.mark.long
def test_what_waits_for_more_is_judged_before_it_is_stored(make_training, monkeypatch):
    """Of a job of many nodes messages wait for each other; when no more of them come, all is said all the same."""
    monkeypatch.setattr(gather, "PARTS", 1 / 3)  # three rounds of all nodes wait, and the last two come in vain
    events = make_training(ranks=4, nodes=4, seconds=20, slow=2, slow_from_s=6)
    broker, processor = Broker([wire.encode(event) for event in events]), Processor()
    answers = [answer for event in events for answer in processor.update(topics.OP, event)]
    last = waiting(processor)
    assert last
    asyncio.run(work(broker, Clock(), step_s=0.01))
    assert sorted(told(broker)) == sorted((topic.name, wire.encode(answer)) for topic, answer in [*answers, *last])


@pytest.mark.long
def test_what_waits_is_judged_as_soon_as_nothing_more_comes(make_training, monkeypatch):
    """A large job's snapshot is due only now and then; what waits for more messages does not wait for that."""
    monkeypatch.setattr(gather, "PARTS", 1 / 3)
    events = make_training(ranks=4, nodes=4, seconds=20, slow=2, slow_from_s=6)
    broker, clock, processor = Broker([wire.encode(event) for event in events]), Clock(), Processor()
    answers = [answer for event in events for answer in processor.update(topics.OP, event)]

    async def run():
        door = door_of(broker, clock)
        for offset, message in enumerate(broker.messages):
            await door.take(topics.OP, AT, offset, message)
        await door.checkpoint()
        said = len(told(broker))
        for _ in range(3):
            await door.checkpoint()
        assert (said, door.counts.checkpoints) == (len(answers), 0)

    asyncio.run(run())
    assert len(told(broker)) == len(answers) + len(waiting(processor))


@pytest.mark.slow
def test_a_backlog_is_judged_together_and_nothing_is_said_otherwise(messages, uninterrupted):
    """A worker that is behind takes more at a time; each job's findings stay, byte for byte and in their order."""
    broker, clock = Broker(messages), Clock()

    async def run():
        door = door_of(broker, clock)
        broker.ends = lambda: {AT: (10**6, 0)}
        for offset, message in enumerate(messages):
            await door.take(topics.OP, AT, offset, message)
            await door.checkpoint()
        assert door.processor.backlog
        broker.ends = lambda: {AT: (len(messages), 0)}
        await door.checkpoint(everything=True)
        assert not door.processor.backlog

    asyncio.run(run())
    of_jobs = operator.itemgetter("job")
    assert sorted(findings(broker), key=of_jobs) == sorted(findings(uninterrupted), key=of_jobs)


@pytest.mark.long
def test_in_a_backlog_many_jobs_wait_for_more_messages_until_they_are_stored(make_training, monkeypatch):
    """Nothing of a job comes between two looks, and yet its messages are judged together; a silent one is not left."""
    runs = [make_training(job=f"job-{number}", seconds=8) for number in range(6)]
    messages = [wire.encode(event) for row in zip(*runs, strict=True) for event in row]

    async def run():
        broker, clock = Broker(messages), Clock()
        door = door_of(broker, clock)
        broker.ends = lambda: {AT: (10**6, 0)}
        flushed = []
        monkeypatch.setattr(door.processor, "flush", lambda key: flushed.append((clock.now_s, key.name)) or [])
        for offset, message in enumerate(messages):
            await door.take(topics.OP, AT, offset, message)
            clock.now_s += 0.05
            await door.checkpoint()
        often = len(flushed) / (clock.now_s / CHECKPOINT_S) / len(runs)
        last_s = clock.now_s
        while clock.now_s < last_s + CHECKPOINT_S:
            clock.now_s += 0.25
            await door.checkpoint()
        return often, {name for at_s, name in flushed if at_s > last_s - CHECKPOINT_S}

    often, at_last = asyncio.run(run())
    assert often <= 1.0
    assert at_last == {f"job-{number}" for number in range(6)}


def test_an_idle_job_is_stored_too(messages):
    """The last events of a job that falls silent are stored and committed by time alone."""

    async def run():
        broker, clock = Broker(messages), Clock()
        door = door_of(broker, clock)
        for offset in range(5):
            await door.take(topics.OP, AT, offset, messages[offset])
        await door.checkpoint()
        before = broker.committed
        clock.now_s += 2.5
        await door.checkpoint()
        return before, broker.committed

    assert asyncio.run(run()) == (0, 5)


class Nights(Broker):
    """A job runs under one name each night, its first rank slow from the same step on; another one runs by day."""

    def __init__(self, make_training, nights=3):
        self.night, self.said, self.of = 0, [], []
        for night in range(nights):
            began_s = 1_700_000_000.0 + 86_400.0 * night
            for event in make_training(job="nightly", slow=1, slow_from_s=3, seconds=15, t0_s=began_s):
                of_night = {"producer": f"{event.producer} {night}", "ended": event.sequence == 14}
                self.of.append((night, msgspec.structs.replace(event, **of_night)))
            by_day = make_training(job="day", seconds=40, nodes=1, ranks=1, t0_s=began_s + 40_000.0)
            self.of += [(night, msgspec.structs.replace(event, producer=f"day {night}")) for event in by_day]
        super().__init__([wire.encode(event) for _, event in self.of])

    async def publish(self, topic, key, value):
        sent = await super().publish(topic, key, value)
        if topic == topics.FINDING and (one := json.loads(value))["job"] == "nightly":
            self.said.append((self.night, one))
        return sent

    async def worked(self):
        """A worker's life, which takes what was silent for 30 s as forgotten."""
        clock = Clock()
        door = Door(Processor(idle_s=30.0), Store(self.table, self.delivered), self.publish, self, clock, clock)
        for offset in range(self.committed, len(self.messages)):
            self.night = self.of[offset][0]
            await door.take(topics.OP, AT, offset, self.messages[offset])
            clock.now_s += 0.4
            await door.checkpoint()
        await door.checkpoint(everything=True)

    def new_ids(self):
        """How many findings each night had that were not said before."""
        first = {}
        for night, one in self.said:
            first.setdefault(one["id"], night)
        return Counter(first.values())


def test_a_job_that_runs_every_night_has_findings_of_its_own_each_time(make_training):
    """Its state is forgotten by day. Under the ids of the night before, whoever keeps the newest revision of each
    would keep that night's."""
    broker = Nights(make_training)
    asyncio.run(broker.worked())
    assert broker.new_ids() == {0: 1, 1: 1, 2: 1}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_killed_anywhere_the_nights_stay_apart(make_training, seed):
    """The job is forgotten, or its launches are told apart: what is said again has the ids that it had."""
    dice, broker = random.Random(seed), Nights(make_training)
    for _ in range(500):
        broker.left = dice.randint(20, 200)
        try:
            asyncio.run(broker.worked())
        except KilledError:
            continue
        break
    assert broker.committed == len(broker.messages)
    assert broker.new_ids() == {0: 1, 1: 1, 2: 1}


def test_a_damaged_memory_of_forgotten_jobs_stops_nothing(make_training, caplog):
    """It is begun anew, and the log says so."""
    broker = Nights(make_training, nights=2)
    asyncio.run(broker.worked())
    named = next(name for name in broker.table if b"forgotten" in name)
    for damaged in (b"nonsense", msgspec.msgpack.encode(Header(0, 0, zlib.crc32(b"no snapshot"), b"no snapshot"))):
        broker.table[named], broker.committed = damaged, 0
        asyncio.run(broker.worked())
        assert broker.committed == len(broker.messages)
    assert "forgotten jobs of partition 0 are counted from zero" in caplog.text


@pytest.mark.long
def test_snapshots_take_no_more_than_their_share_however_many_messages_come(make_training, monkeypatch):
    """A large job, whose snapshot takes half a second, sends enough for one a second: it is stored every ten."""

    messages = [wire.encode(event) for event in make_training(seconds=60, nodes=1)]

    async def run():
        broker, clock = Broker(messages), Clock()
        door = door_of(broker, clock)
        cutting = door.processor.cutting

        def slow(key):
            clock.now_s += 0.5
            return cutting(key)

        monkeypatch.setattr("streams.open_states.CHECKPOINT_EVENTS", 1)
        monkeypatch.setattr(door.processor, "cutting", slow)
        stored = []
        for offset, message in enumerate(messages):
            await door.take(topics.OP, AT, offset, message)
            before = door.counts.checkpoints
            await door.checkpoint()
            stored += [clock.now_s] * (door.counts.checkpoints > before)
            clock.now_s += 1.0
        return stored

    stored = asyncio.run(run())
    assert len(stored) > 1
    assert min(after - before for before, after in itertools.pairwise(stored)) >= 0.5 * 20 - 1


def test_a_poison_message_is_put_aside_once_and_passed(messages):
    """What cannot be read is published with its reason and place, and its offset is committed with the others."""

    async def run():
        broker = Broker([b"\xff", b"", messages[0]])
        await work(broker, Clock())
        return broker

    broker = asyncio.run(run())
    letters = [json.loads(value) for topic, value in broker.published if topic == topics.DEADLETTER.name]
    assert [(letter["topic"], letter["partition"], letter["offset"]) for letter in letters] == [(*AT, 0), (*AT, 1)]
    assert broker.committed == 3


class Breaking:
    """A decision that cannot judge one event."""

    def update(self, event):
        if event.sequence == 1:
            raise ArithmeticError("no number")
        return []

    def snapshot(self):
        return pack(1, {})


def test_an_event_that_breaks_a_decision_is_put_aside(make_training):
    """A bug or a number no machine can hold costs that message and no other."""
    sent = [wire.encode(event) for event in make_training(nodes=1, seconds=3)]
    broker, door = taken(sent, Breaking)
    letters = [json.loads(value) for topic, value in broker.published if topic == topics.DEADLETTER.name]
    assert [(one["offset"], one["reason"]) for one in letters] == [
        (1, "could not be judged: ArithmeticError: no number")
    ]
    assert door.counts.refused == {("op", "unjudgeable"): 1}
    assert broker.committed == 3


class Batching(Broker):
    """A broker that has what was sent once somebody waits for it, and counts how often that was."""

    flushes = 0

    async def publish(self, topic, key, value):
        self.published.append((topic.name, value))
        self.under_way = getattr(self, "under_way", [])
        self.under_way.append(done := asyncio.get_running_loop().create_future())
        if len(self.under_way) == 1:
            asyncio.get_running_loop().call_later(0.001, self.flush)
        return done

    def flush(self):
        self.flushes += 1
        arriving, self.under_way = self.under_way, []
        for done in arriving:
            done.set_result(None)


def test_a_flood_of_refused_messages_is_put_aside_in_batches(messages):
    """Refused messages do not wait for their letters one at a time, and their offsets wait for all of them."""

    async def run():
        broker = Batching([b"nonsense"] * 3000)
        door = door_of(broker, Clock())
        for offset, message in enumerate(broker.messages):
            await door.take(topics.OP, AT, offset, message)
        assert broker.committed == 0
        await door.checkpoint()
        return broker, door.counts.dead_letters

    broker, dead_letters = asyncio.run(run())
    assert broker.flushes <= 10
    assert dead_letters == len(broker.published) == broker.committed == 3000


class Slow(Broker):
    """Takes what is published, and delivers it, when it is told to."""

    def __init__(self, messages):
        super().__init__(messages)
        self.takes, self.delivers = asyncio.Event(), asyncio.Event()

    async def publish(self, topic, key, value):
        await self.takes.wait()
        self.published.append((topic.name, value))
        return asyncio.ensure_future(self.delivers.wait())


@pytest.mark.long
@pytest.mark.parametrize("refused", [True, False], ids=["a letter", "answers"])
def test_a_checkpoint_while_the_client_takes_its_time_waits_for_what_is_being_handed_over(make_training, refused):
    """The producer may wait for the topic's brokers first: no snapshot, letter or offset steps past it meanwhile."""
    events = make_training(job="job", slow=1, seconds=20)
    messages = [b"nonsense"] if refused else [wire.encode(event) for event in events]

    async def taken(door, messages):
        for offset, message in enumerate(messages):
            await door.take(topics.OP, AT, offset, message)

    async def run():
        broker = Slow(messages)
        door = door_of(broker, Clock())
        taking = asyncio.create_task(taken(door, messages))
        storing = asyncio.create_task(door.checkpoint(everything=True))
        for _ in range(100):  # As far as both can go.
            await asyncio.sleep(0)
        assert not taking.done()
        assert broker.table == {}
        broker.takes.set()
        await taking
        assert broker.committed == 0
        broker.delivers.set()
        await storing
        await door.checkpoint(everything=True)
        return broker.committed

    assert asyncio.run(run()) == len(messages)


def test_a_refused_message_is_not_committed_before_its_letter_is_delivered():
    """While a letter is under way, the offset of its message stays where it is."""

    assert asyncio.run(stuck([b"nonsense"])) == 0


def test_a_letter_that_cannot_be_delivered_ends_the_worker():
    """It starts again from what is stored, and the message comes again."""

    class Refusing(Broker):
        async def publish(self, topic, key, value):
            done = asyncio.get_running_loop().create_future()
            done.set_exception(KilledError())
            return done

    broker = Refusing([b"nonsense"])
    with pytest.raises(KilledError):
        asyncio.run(work(broker, Clock()))
    assert broker.committed == 0


class Unstorable:
    """A decision whose state no snapshot can hold once it was told of rank 3."""

    def __init__(self):
        self.state = {}

    def update(self, event):
        self.state["odd"] = 2**70 if 3 in listed(event.speakers.ranks) else 0
        return []

    def snapshot(self):
        return pack(1, self.state)

    @classmethod
    def restore(cls, data):
        made = cls()
        made.state = unpack(1, data)
        return made


def taken(messages, decision):
    """The broker and the door of ``decision``, once all ``messages`` went through and are stored."""
    broker, clock = Broker(messages), Clock()
    processor = Processor({topics.OP.name: (decision,)})
    door = Door(processor, Store(broker.table, broker.delivered), broker.publish, broker, clock, clock)

    async def run():
        for offset, message in enumerate(broker.messages):
            await door.take(topics.OP, AT, offset, message)
        await door.checkpoint(everything=True)

    asyncio.run(run())
    return broker, door


def test_a_state_that_cannot_be_stored_is_dropped_and_told(make_training):
    """Its job starts again, everybody else goes on, nothing is read again, and a dead letter says which and why."""
    odd = [wire.encode(event) for event in make_training(job="odd", ranks=4, nodes=1, seconds=3)]
    sound = [wire.encode(event) for event in make_training(job="sound", ranks=2, nodes=1, seconds=3)]
    broker, door = taken([*odd, *sound], Unstorable)
    (letter,) = [json.loads(value) for topic, value in broker.published if topic == topics.DEADLETTER.name]
    assert "odd" in letter["reason"]
    assert "OverflowError" in letter["reason"]
    assert (letter["topic"], letter["partition"], letter["offset"]) == (*AT, 2)
    assert door.counts.states_dropped == 1
    assert door.counts.refused == {("op", "unstorable"): 1}
    assert broker.committed == 6
    assert [key.name for key in door.processor.states] == ["sound"]


class Waiting:
    """A decision that waits with all it is told, and of which what waits cannot be judged."""

    def update(self, event):
        return []

    def finish(self):
        raise ArithmeticError("no number")

    def snapshot(self):
        return pack(1, {})


def test_what_waited_and_cannot_be_judged_is_told(make_training):
    """It is gone: a dead letter says whose it was and why, it is counted, and the state goes on."""
    sent = [wire.encode(event) for event in make_training(job="odd", ranks=2, nodes=1, seconds=3)]
    broker, door = taken(sent, Waiting)
    letters = [json.loads(value) for topic, value in broker.published if topic == topics.DEADLETTER.name]
    assert [(one["topic"], one["partition"], one["offset"]) for one in letters] == [(*AT, len(sent) - 1)]
    assert "odd" in letters[0]["reason"]
    assert "ArithmeticError: no number" in letters[0]["reason"]
    assert door.counts.refused == {("op", "unjudgeable"): 1}
    assert broker.committed == len(sent)
    assert [key.name for key in door.processor.states] == ["odd"]


@pytest.mark.long
def test_snapshots_of_many_states_share_their_part_of_the_time(make_training, monkeypatch):
    """Ten small jobs, whose snapshots take 80 ms each, are stored every 16 s, and none later than is promised."""

    jobs = [make_training(job=f"job-{number}", ranks=1, nodes=1, seconds=60, step_s=1.0) for number in range(10)]
    messages = [wire.encode(event) for row in zip(*jobs, strict=True) for event in row]

    async def run(took_s):
        broker, clock = Broker(messages), Clock()
        door = door_of(broker, clock)
        cutting, stored = door.processor.cutting, defaultdict(list)

        def slow(key):
            clock.now_s += took_s
            stored[key].append(clock.now_s)
            return cutting(key)

        monkeypatch.setattr(door.processor, "cutting", slow)
        for offset, message in enumerate(messages):
            await door.take(topics.OP, AT, offset, message)
            if offset % len(jobs) == len(jobs) - 1:
                await door.checkpoint()
                clock.now_s += 1.0
        return [after - before for times in stored.values() for before, after in itertools.pairwise(times[1:])]

    apart = asyncio.run(run(0.08))
    assert 10 * 0.08 * 20 - 1 <= min(apart) <= max(apart) <= OLDEST_S + 2
    assert max(asyncio.run(run(0.8))) <= OLDEST_S + 10 * 0.8 + 2


class Slowly(NamedTuple):
    """The cut of a large state, which is packed once it may be; or never can be."""

    state: StateCut
    began: threading.Event
    go: threading.Event
    error: Exception | None = None
    large = True

    def pack(self):
        self.began.set()
        assert self.go.wait(PATIENCE_S)
        if self.error is not None:
            raise self.error
        return self.state.pack()


def packed_slowly(messages, monkeypatch, meanwhile, error=None):
    """The broker and the door, where ``meanwhile`` happened while the state of the first ten messages was packed."""

    async def run():
        broker, clock = Broker(messages), Clock()
        door, began, go = door_of(broker, clock), threading.Event(), threading.Event()
        cutting = door.processor.cutting
        for offset in range(10):
            await door.take(topics.OP, AT, offset, messages[offset])

        def slowly(key):
            state = yield from cutting(key)
            return Slowly(state, began, go, error)

        monkeypatch.setattr(door.processor, "cutting", slowly)
        storing = asyncio.create_task(door.checkpoint(everything=True))
        while not began.is_set():
            await asyncio.sleep(0.001)
        await meanwhile(door)
        go.set()
        await storing
        return broker, door

    return asyncio.run(run())


def test_while_a_large_state_is_cut_other_jobs_go_on(messages):
    """On a machine so slow that each part of it takes longer than a turn."""

    async def run():
        broker, clock = Broker(messages), Clock()
        door = door_of(broker, clock)
        for offset in range(10):
            await door.take(topics.OP, AT, offset, messages[offset])
        door.clock = lambda: setattr(clock, "now_s", clock.now_s + 0.02) or clock.now_s
        storing, turns = asyncio.create_task(door.checkpoint(everything=True)), 0
        while not storing.done():
            turns += 1
            await asyncio.sleep(0)
        return broker, turns

    broker, turns = asyncio.run(run())
    assert broker.committed == 10
    assert turns > 50


@pytest.mark.long
def test_while_a_large_state_is_packed_its_job_goes_on(make_training, monkeypatch):
    """What comes meanwhile is no part of what is stored, and its offset is not committed with it."""
    messages = [wire.encode(event) for event in make_training(nodes=1, seconds=20)]

    async def more(door):
        for offset in range(10, 15):
            await door.take(topics.OP, AT, offset, messages[offset])

    broker, _ = packed_slowly(messages, monkeypatch, more)
    assert broker.committed == 10
    monkeypatch.undo()
    asyncio.run(work(broker, Clock()))
    whole = Broker(messages)
    asyncio.run(work(whole, Clock()))
    assert findings(broker) == findings(whole)


@pytest.mark.long
def test_a_large_state_that_was_taken_away_while_it_was_packed_is_not_stored(make_training, monkeypatch):
    """Another worker may have stored a newer one; whether this one could have been packed is nobody's concern."""
    messages = [wire.encode(event) for event in make_training(nodes=1, seconds=10)]

    async def lost(door):
        door.lose()

    for error in (None, MemoryError()):
        broker, door = packed_slowly(messages, monkeypatch, lost, error)
        assert (broker.committed, broker.table, door.counts.states_dropped) == (0, {}, 0)
        monkeypatch.undo()


@pytest.mark.long
def test_a_state_that_was_taken_away_while_it_was_cut_delays_no_other(messages, monkeypatch):
    """Whatever its cut came to, and however long it took."""

    async def run():
        broker, clock = Broker(messages), Clock()
        door = door_of(broker, clock)
        for offset in range(5):
            await door.take(topics.OP, AT, offset, messages[offset])

        def lost(key):
            clock.now_s += OLDEST_S
            door.lose()
            raise KeyError(key)
            yield

        with monkeypatch.context() as patched:
            patched.setattr(door.processor, "cutting", lost)
            await door.checkpoint(everything=True)
        stored = []
        for offset in range(10):
            await door.take(topics.OP, AT, offset, messages[offset])
            clock.now_s += CHECKPOINT_S + 1.0
            await door.checkpoint()
            stored.append(door.counts.checkpoints)
        return stored

    assert asyncio.run(run()) == list(range(1, 11))


def test_a_large_state_that_cannot_be_packed_is_dropped_and_told(make_training, monkeypatch):
    """As one that cannot be cut."""
    messages = [wire.encode(event) for event in make_training(job="odd", nodes=1, seconds=10)]

    async def nothing(door):
        pass

    broker, door = packed_slowly(messages, monkeypatch, nothing, MemoryError())
    (letter,) = [json.loads(value) for topic, value in broker.published if topic == topics.DEADLETTER.name]
    assert "could not be stored and restarts: MemoryError" in letter["reason"]
    assert (broker.committed, door.counts.states_dropped, list(door.processor.states)) == (10, 1, [])


def test_partitions_taken_away_in_the_middle_of_a_snapshot(messages):
    """What was not stored when the partitions went is neither stored nor committed by the old owner."""

    async def run():
        broker, clock = Broker(messages), Clock()
        door = door_of(broker, clock)
        for offset in range(5):
            await door.take(topics.OP, AT, offset, messages[offset])
        asyncio.get_running_loop().call_soon(door.lose)
        await door.checkpoint(everything=True)
        return broker.committed, len(door.processor.states)

    assert asyncio.run(run()) == (0, 0)


@pytest.mark.slow
def test_a_missing_stretch_is_asked_for_again(messages, uninterrupted):
    """Messages that the stream library dropped are read again, and the answers are as if they had come at once."""

    async def run():
        broker, clock = Broker(messages), Clock()
        door = door_of(broker, clock)
        order = [*range(20), 45, 46, *range(20, len(messages))]
        for offset in order:
            await door.take(topics.OP, AT, offset, messages[offset])
        await door.checkpoint(everything=True)
        return broker

    broker = asyncio.run(run())
    assert broker.seeks == [20]
    assert findings(broker) == findings(uninterrupted)


def test_lag_is_what_was_not_taken_yet(messages):
    """From the committed offset where nothing was taken; a partition of which nothing is known is left out."""
    broker = Broker(messages)

    async def run():
        door = door_of(broker, Clock())
        before = door.lag()
        for offset in range(7):
            await door.take(topics.OP, AT, offset, messages[offset])
        return before, door.lag()

    assert asyncio.run(run()) == ({"op": len(messages)}, {"op": len(messages) - 7})


def test_what_is_refused_or_missing_is_counted_by_topic(messages, make_training):
    """A message that is none is refused, and missing among its producer's numbers like one that never came."""
    run = [wire.encode(event) for event in make_training(nodes=1, seconds=5)]
    broker = Broker([run[0], b"{nonsense", run[2], run[4]])

    async def read():
        return (await work(broker, Clock())).counts

    counts = asyncio.run(read())
    assert counts.refused == {("op", "undecodable"): 1}
    assert counts.producers.missing == {"op": 2}


def test_a_topic_that_is_read_anew_is_told_once_and_its_partitions_counted(caplog):
    """A worker that got several of them says it in a line; who watches many workers sees it in their metrics."""
    door = door_of(Broker([]), Clock())
    door.read_anew([Partition(topics.OP.name, 3), Partition(topics.JOB.name, 3), Partition(topics.OP.name, 4)])
    assert door.counts.remade == {"op": 2, "job": 1}
    assert [record.getMessage() for record in caplog.records] == [
        "paceline.job.v1 was deleted and made again: 1 of its partitions are read from their beginning",
        "paceline.op.v2 was deleted and made again: 2 of its partitions are read from their beginning",
    ]


@pytest.mark.long
def test_who_listens_is_told_every_answer(messages):
    """In their order, after each was handed to the broker; not what is refused."""
    broker, clock, heard = Broker(messages), Clock(), []
    door = Door(
        Processor(), Store(broker.table, broker.delivered), broker.publish, broker, clock, clock, hear=heard.append
    )

    async def run():
        for offset, message in enumerate(messages):
            await door.take(topics.OP, AT, offset, message)

    asyncio.run(run())
    said = [value for topic, value in broker.published if topic in (topics.WINDOW.name, topics.FINDING.name)]
    assert [wire.encode(answer) for answer in heard] == said != []
    assert sum(topic == topics.DEADLETTER.name for topic, _ in broker.published) == 1


@pytest.mark.long
class TestAWorkerThatStandsStill:
    """SIGSTOP, a paused machine: meanwhile another takes over its partitions, and stores newer states."""

    @pytest.fixture
    def halfway(self, messages):
        """A worker that has half of the messages and has stored none of them, and what another has stored meanwhile."""

        async def made():
            clock, broker = Clock(), Broker(messages)
            door = door_of(broker, clock)
            door.beat()
            for offset in range(len(messages) // 2):
                await door.take(topics.OP, AT, offset, messages[offset])
            other = Broker(messages)
            await work(other, Clock())
            broker.table.update(other.table)
            return door, clock, broker, dict(other.table)

        return made

    @pytest.mark.slow
    def test_it_stores_and_commits_nothing(self, halfway):
        async def run():
            door, clock, broker, newer = await halfway()
            clock.now_s += STILL_S
            with pytest.raises(StoodStillError, match="stood still for 6 s"):
                await door.checkpoint(everything=True)
            with pytest.raises(StoodStillError, match="stood still for 6 s"):
                door.beat()
            assert broker.table == newer
            assert broker.committed == 0

        asyncio.run(run())

    @pytest.mark.slow
    def test_it_stores_nothing_whoever_notices_first(self, halfway):
        async def run():
            door, clock, broker, newer = await halfway()
            clock.now_s += STILL_S
            with pytest.raises(StoodStillError):
                door.beat()
            await door.checkpoint(everything=True)
            assert broker.table == newer

        asyncio.run(run())

    def test_it_leaves_the_state_whole_where_it_stands_still_in_the_middle_of_storing_it(self, monkeypatch):
        """Its chunks are written, the header that names them is not."""
        monkeypatch.setattr("streams.store.CHUNK_BYTES", 10)

        async def run():
            clock, broker = Clock(), Broker([])
            door = door_of(broker, clock)
            await door.store.write(0, "a", b"x" * 35)
            door.beat()
            broker.delivered = door.store.delivered = lambda: stand(clock)
            with pytest.raises(StoodStillError):
                await door.store.write(0, "a", b"y" * 35)
            assert door.store.read(0, "a") == b"x" * 35

        async def stand(clock):
            clock.now_s += STILL_S

        asyncio.run(run())

    @pytest.mark.slow
    def test_one_that_runs_goes_on(self, halfway):
        """Also if it is slow."""

        async def run():
            door, clock, broker, newer = await halfway()
            for _ in range(4):
                clock.now_s += STILL_S - 1.0
                door.beat()
            await door.checkpoint(everything=True)
            assert broker.table != newer
            assert broker.committed == len(broker.messages) // 2

        asyncio.run(run())
