"""The door: messages in, decisions told, answers out, and nothing lost in between.

Rule of this file: it knows the order of things and no Faust. An event's way:

1. decoded (else to the dead letters), told to the state of its key, and what that says is published at once, to those
   who advise the cluster, too, where it concerns them (``cluster_events.py``);
2. some seconds later the state is snapshotted; when all it said up to then is delivered, the snapshot is stored;
3. only then may the event's offset be committed (``offsets.py``).

A worker killed anywhere on that way leaves events that come again to a state restored from before them. It says again
what it said, under the same ids and revisions. One that stood still for longer than the group waits stores nothing any
more: another has stored newer states meanwhile.
"""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Generator
from typing import Any, Protocol

from paceline import wire
from paceline.events import Event, JobDescribed
from paceline.topics import Topic

from .beat import Beat
from .cluster_events import ADVICE, PASSED_ON, concerns, enclosed, read, short
from .dead_letters import DeadLetters, Publish
from .deliveries import Deliveries
from .door_counts import DoorCounts
from .keyed_state import Key, StateCut, state_key
from .offsets import Offsets, Partition
from .open_states import OpenState, OpenStates
from .positions import PositionCheck, Positions
from .processor import Processor
from .snapshots import Result, Run
from .store import Store
from .stored_states import StoredStates
from .unread import Unread

log = logging.getLogger(__name__)

#: A large state is cut in turns of about this length.
TURN_S = 0.01
#: With so many messages to take, which no worker takes in a tenth of a second, more are judged at a time.
BACKLOG = 500


class Source(Protocol):
    """The consumer, as far as the door needs it."""

    async def start(self, partition: Partition) -> int:
        """Where reading begins: the committed offset, else the earliest there is."""

    async def seek(self, partition: Partition, offset: int) -> None:
        """Read from ``offset`` again."""

    async def commit(self, offsets: dict[Partition, int]) -> None:
        """Commit these offsets."""

    def ends(self) -> dict[Partition, tuple[int, int | None]]:
        """Each partition's end as the last fetch told it, and its committed offset; those that were fetched."""


class Door:
    """One worker's door. All of it runs on one event loop."""

    def __init__(
        self,
        processor: Processor,
        store: Store,
        publish: Publish,
        source: Source,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        hear: Callable[[Event], None] = lambda answer: None,
    ) -> None:
        """``hear`` is told every answer that was handed over."""
        self.processor = processor
        self.store = store
        self.stored = StoredStates(store, processor)
        self.publish = publish
        self.source = source
        self.clock = clock
        self.hear = hear
        self.offsets = Offsets()
        self.positions = Positions()
        self.counts = DoorCounts(stored_s=clock())
        self.wall = wall
        self.deliveries = Deliveries(self.offsets.release)
        self.letters = DeadLetters(publish, wall, self.deliveries)
        self.epoch = 0
        self._open = OpenStates()
        self._unread = Unread(processor.idle_s)
        self._storing = asyncio.Lock()
        #: Whether a message came since the last look.
        self._came = False
        self._beat = Beat(clock, self.lose)
        self.store.fence = self._beat.fence

    def beat(self) -> None:
        """The worker runs: to be called several times a second.

        Raises:
            StoodStillError: it did not for ``STILL_S``; nothing is stored from then on.
        """
        self._beat.beat()

    async def take(self, topic: Topic, source: Partition, offset: int, data: bytes) -> None:
        """One message, all the way to its published answers.

        Raises:
            Exception: an answer could not be handed over. The worker must start again from what is stored.
        """
        try:
            await self._take(topic, source, offset, data)
        except BaseException:
            self.lose()  # A state holds what was never said: not even who is told to stop now may store it.
            raise

    async def _take(self, topic: Topic, source: Partition, offset: int, data: bytes) -> None:
        if not await self._is_next(source, offset):
            return
        self._came = True
        self.counts.events[topic.short] += 1
        self.counts.bytes += len(data)
        try:
            event = read(topic, data)
        except wire.WireError as error:
            await self._refuse(source, offset, data, "undecodable", str(error))
            return
        if topic in PASSED_ON:
            await self._pass_on(topic, event, source, offset, data)
            return
        key, epoch, now_s = state_key(topic, event), self.epoch, self.clock()
        self.counts.producers.hear(topic, event, now_s)
        self.counts.jobs.touch(key, now_s)
        while epoch == self.epoch:
            opened = self._opened(key, source, offset)
            async with opened.telling:
                if self._open.get(key) is opened:  # Else it was forgotten or taken away meanwhile.
                    await self._tell(topic, event, key, opened, source, offset, data)
                    return

    async def _pass_on(self, topic: Topic, event: Event, source: Partition, offset: int, data: bytes) -> None:
        """A message that only those who advise its cluster are told of; it is safe once they can read it."""
        if isinstance(event, JobDescribed):
            self.counts.jobs.describe(event, self.clock())
        serial = self.offsets.received(source, offset, None)
        if not concerns(event):
            self.offsets.release(serial)
            return
        await self.deliveries.make_room()
        self.deliveries.add(await self._advise(topic, event, data), serial)

    async def _advise(self, topic: Topic, event: Any, value: bytes) -> Awaitable[object]:
        """Hand ``event`` to those who advise its cluster."""
        self.counts.published[ADVICE.short] += 1
        # A nameless cluster has a key, too: without one its events would lie in all partitions.
        return await self.publish(ADVICE, event.cluster or "-", enclosed(topic, value, self.wall()))

    async def _tell(
        self, topic: Topic, event: Event, key: Key, opened: OpenState, source: Partition, offset: int, data: bytes
    ) -> None:
        """Tell the state of ``key`` of an event, and publish what it says."""
        epoch = self.epoch
        self.offsets.received(source, offset, key)
        opened.events += 1
        opened.taken, opened.flushed = opened.taken + 1, False
        if concerns(event):
            opened.waiting.append(await self._advise(topic, event, data))
            if epoch != self.epoch:
                return
        try:
            said = self.processor.update(topic, event)
            values = [wire.encode(answer) for _, answer in said]
        except Exception as error:
            # No single message may stop the others; it is kept, with its reason, where people look for such.
            log.exception("%s %d/%d could not be judged", topic.short, source.number, offset)
            reason = f"could not be judged: {type(error).__name__}: {error}"
            await self._refuse(source, offset, data, "unjudgeable", reason)
            return
        self.counts.newest_event_s = getattr(event, "t0_s", None)
        for (target, answer), value in zip(said, values, strict=True):
            await self._say(key, target, answer, value, opened)
            if epoch != self.epoch:
                return

    def pass_over(self, source: Partition, first: int, after: int, reason: str) -> None:
        """A batch that cannot be read has no messages to take; the client's own thread tells of it."""
        name = short(source.topic)
        if not self.counts.unreadable[name]:
            log.error("%s %d/%d is passed over: %s", source.topic, source.number, first, reason)
        self.counts.unreadable[name] += 1
        self.positions.pass_over(source, first, after)

    def read_anew(self, partitions: Collection[Partition]) -> None:
        """These partitions are not those that were read before, though they have their names: all of them is read."""
        for name in sorted({at.topic for at in partitions}):
            here = sum(at.topic == name for at in partitions)
            log.warning("%s was deleted and made again: %d of its partitions are read from their beginning", name, here)
            self.counts.remade[short(name)] += here

    async def _is_next(self, source: Partition, offset: int) -> bool:
        epoch = self.epoch
        if not self.positions.knows(source):
            start = await self.source.start(source)
            if epoch != self.epoch:
                return False
            self.positions.start(source, start)
        verdict = self.positions.judge(source, offset, self.clock())
        if verdict is PositionCheck.SEEK:
            wanted = self.positions.next[source]
            log.warning("%s %d: %d came where %d was due; reading again", source.topic, source.number, offset, wanted)
            await self.source.seek(source, wanted)
        return verdict is PositionCheck.TAKE

    async def _say(self, key: Key, target: Topic, answer: Event, value: bytes, opened: OpenState) -> None:
        sent = await self.publish(target, wire.key_of(target, answer), value)
        opened.waiting.append(sent)
        self.counts.published[target.short] += 1
        self.hear(answer)
        if concerns(answer):
            opened.waiting.append(await self._advise(target, answer, value))
        self.counts.jobs.hear(key, answer, self.clock(), self.wall())

    def _opened(self, key: Key, source: Partition, offset: int) -> OpenState:
        """The entry of a key; a state not in memory is restored from what is stored of it."""
        opened = self._open.open(key, (source, offset), self.clock())
        if key not in self.processor:
            self.stored.restore(source.number, key, self._show)
        return opened

    def _show(self, key: Key) -> None:
        """Gauges show again what is open of ``key``."""
        self.counts.jobs.restore(key, self.processor.open_answers(key), self.clock(), self.wall())

    async def _refuse(self, source: Partition, offset: int, data: bytes, kind: str, reason: str) -> None:
        self.counts.dead_letters += 1
        self.counts.refused[short(source.topic), kind] += 1
        await self.letters.put(source, offset, data, reason, self.offsets.received(source, offset, None))

    async def _note_loss(self, key: Key, opened: OpenState, kind: str, reason: str) -> None:
        """Something of a state is lost; the letter names the state, and the newest event that it was told of."""
        source, offset = opened.newest
        self.counts.dead_letters += 1
        self.counts.refused[short(source.topic), kind] += 1
        await self.letters.put(source, offset, key.text().encode(), reason)

    async def checkpoint(self, everything: bool = False) -> None:
        """Store the states that are due (or all that changed), then commit what became safe.

        Raises:
            Exception: an answer or a snapshot could not be delivered. The worker must start again from what is stored.
        """
        async with self._storing:
            try:
                await self._checkpoint(everything)
            except BaseException:
                self.lose()
                raise

    async def _checkpoint(self, everything: bool) -> None:
        if self._came or self.processor.backlog:  # It matters to messages alone, and is a look at each partition.
            self.processor.backlog, self._came = sum(self.lag().values()) > BACKLOG, False
        await self._flush_silent()
        await self._forget_unread()
        gone = [key for key in self.processor.take_forgotten() if key in self._open]
        now_s = self.clock()
        due = [key for key in self._dirty() if everything or self._open[key].due(now_s)]
        lanes: dict[int, list[Key]] = defaultdict(list)
        for key in dict.fromkeys(gone + due):
            lanes[self._open[key].partition].append(key)
        await asyncio.gather(*(self._store_in_turn(at, keys, set(gone)) for at, keys in lanes.items()))
        if not self.stores_wait():
            self.counts.stored_s = self.clock()
        await self.deliveries.settle()
        await self._commit()

    async def _forget_unread(self) -> None:
        """What is stored and was asked for by no message in as long as others are idle is forgotten as those are."""
        epoch = self.epoch
        if self._unread.due(self.processor.now_s, backlog=self.processor.backlog):
            for number in {at.number for at in self.source.ends()}:
                self._unread.add(number, self.store.keys(number))
        for number, key in self._unread.take():
            if epoch != self.epoch:
                return
            latest = self._latest(number)
            if key in self._open or latest is None or not self.store.holds(number, key.text()):
                continue
            opened = self._open.open(key, latest, self.clock())
            self.stored.restore(number, key)
            try:
                self.processor.forget(key)
            except Exception as error:
                log.exception("%s: its last words could not be judged", key.text())
                reason = f"the last words of {key.text()} could not be judged: {type(error).__name__}: {error}"
                await self._note_loss(key, opened, "unjudgeable", reason)

    def _latest(self, number: int) -> tuple[Partition, int] | None:
        """The last message taken in one of our partitions ``number``, if any: for a letter on what has none."""
        for at, (_, committed) in self.source.ends().items():
            if at.number == number:
                return at, max(0, (self.positions.due(at, committed) or 0) - 1)
        return None

    def _dirty(self) -> list[Key]:
        return [key for key in self.offsets.dirty() if isinstance(key, Key) and key in self._open]

    async def _store_in_turn(self, partition: int, keys: list[Key], gone: set[Key]) -> None:
        # One record a batch and partition: the embedded broker tells the end of a partition as if its last batch held
        # a single record, and a recovery that believes it would stop short of the last snapshots.
        await self.stored.note_forgotten(partition, [key for key in keys if key in gone and key in self._open])
        for key in keys:
            await self._store(key)

    async def _store(self, key: Key) -> None:
        opened = self._open.get(key)
        if opened is None:  # Taken away since it was found due.
            return
        async with opened.telling:
            if self._open.get(key) is not opened:
                return
            epoch = self.epoch
            await self._flush(key, opened)
            if epoch != self.epoch:
                return
            mark = self.offsets.mark()
            waiting, opened.waiting, opened.events = opened.waiting, [], 0
            began_s = self.clock()
            cut, reason = await self._cut(key)
        data = None
        if cut is not None:
            data, reason = await self._packed(key, cut)
        if epoch != self.epoch:
            return
        self._open.rest(opened, began_s, self.clock())
        if reason is not None:
            await self._note_loss(key, opened, "unstorable", reason)
        await asyncio.gather(*waiting)
        if epoch != self.epoch:
            return
        await self._write(key, opened.partition, data)
        if epoch == self.epoch:
            self.offsets.stored(key, mark)
            if data is None and key not in self.processor:
                self._open.close(key)

    async def _flush_silent(self) -> None:
        """Have judged what waits in jobs of which nothing came since the last look: the next may be a long step off.

        Not in a backlog: their next messages lie on the broker, and of many jobs each comes by less often than we look.
        What waits is then judged with more of its job, at the latest before its snapshot.
        """
        if self.processor.backlog:
            return
        for key in self._dirty():
            opened = self._open.get(key)
            if opened is None:  # Taken away meanwhile.
                continue
            silent, opened.looked = opened.taken == opened.looked, opened.taken
            if silent and not opened.flushed:
                async with opened.telling:
                    if self._open.get(key) is opened:
                        await self._flush(key, opened)

    async def _flush(self, key: Key, opened: OpenState) -> None:
        """Have judged what waits for more messages of its job: nobody knows whether any will come."""
        epoch, opened.flushed = self.epoch, True
        try:
            said = [(target, answer, wire.encode(answer)) for target, answer in self.processor.flush(key)]
        except Exception as error:
            log.exception("%s: what waited could not be judged", key.text())
            reason = f"what waited of {key.text()} could not be judged: {type(error).__name__}: {error}"
            await self._note_loss(key, opened, "unjudgeable", reason)
            return
        for target, answer, value in said:
            await self._say(key, target, answer, value, opened)
            if epoch != self.epoch:
                return

    async def _write(self, key: Key, partition: int, data: bytes | None) -> None:
        """Store a snapshot; None where the state was forgotten."""
        if data is None:
            await self.store.delete(partition, key.text())
        else:
            await self.store.write(partition, key.text(), data)
            self.counts.checkpoint_bytes += len(data)
        self.counts.checkpoints += 1
        self.counts.stored_s = self.clock()

    async def _cut(self, key: Key) -> tuple[StateCut | None, str | None]:
        """The state as it is now, None where it was forgotten; where it has no snapshot, also why."""
        if key not in self.processor:
            return None, None
        epoch = self.epoch
        try:
            return await self._in_turns(self.processor.cutting(key)), None
        except Exception as error:
            return None, self._restart(key, error) if epoch == self.epoch else None

    async def _in_turns(self, steps: Generator[None, None, Result]) -> Result:
        """What ``steps`` come to; others run whenever they have taken ``TURN_S``."""
        run, began_s = Run(steps), self.clock()
        for _ in run:
            if (now_s := self.clock()) - began_s >= TURN_S:
                began_s = now_s
                await asyncio.sleep(0)
        return run.result

    async def _packed(self, key: Key, cut: StateCut) -> tuple[bytes | None, str | None]:
        """The same as bytes: of a large job beside the loop, which goes on meanwhile; without any, why."""
        epoch = self.epoch
        try:
            return (await asyncio.to_thread(cut.pack) if cut.large else cut.pack()), None
        except Exception as error:
            return None, self._restart(key, error) if epoch == self.epoch else None

    def _restart(self, key: Key, error: Exception) -> str:
        """Drop a state that cannot be stored; why, in a line.

        Kept, it would stop every checkpoint from now on, and after a restart its events would bring it back.
        """
        log.error("%s restarts: its state could not be stored", key.text(), exc_info=error)
        self.processor.drop(key)
        self.counts.states_dropped += 1
        return f"the state of {key.text()} could not be stored and restarts: {type(error).__name__}: {error}"

    async def _commit(self) -> None:
        epoch, safe = self.epoch, self.offsets.committable()
        if not safe:
            return
        await self.source.commit(safe)
        self.counts.commits += 1
        if epoch == self.epoch:
            self.offsets.committed(safe)

    def stores_wait(self) -> bool:
        """Whether any state has changed since it was stored."""
        return bool(self._dirty())

    def lag(self) -> dict[str, int]:
        """Messages on the broker that were not taken yet, by topic."""
        lag: dict[str, int] = {}
        for source, (end, committed) in self.source.ends().items():
            due = self.positions.due(source, committed)
            if due is not None:
                topic = short(source.topic)
                lag[topic] = lag.get(topic, 0) + max(0, end - due)
        return lag

    def lose(self) -> None:
        """The partitions were taken away: forget all that is not stored. It will come again, here or elsewhere."""
        self.epoch += 1
        self.processor.clear()
        self.offsets.clear()
        self.deliveries.clear()
        self.positions.clear()
        self.counts.producers.forget_positions()
        self.counts.jobs.clear()
        self.counts.stored_s = self.clock()
        self._unread.clear()
        self._open.clear()
