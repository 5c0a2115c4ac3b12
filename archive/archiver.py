"""The loop: topics to buffers, buffers to commits, and merges in between.

Rule of this file: it starts from the manifest, and from nothing else. Whatever fails ends the loop, which is begun
again there: what was read and not committed is read once more, and nothing is kept beside.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from paceline import wire
from paceline.events import LATEST_S
from paceline.history.manifest import Gap, Manifest
from paceline.history.store import Store
from paceline.kafka.follow import BEGINNING, POLL_S, ConsumerRecord, Follower, Jump
from paceline.kafka.settings import BrokerSettings
from paceline.supervised import SupervisedThread
from paceline.topics import Topic

from .buffers import MOST_BYTES, Buffers
from .merger import Merger
from .merging import Days
from .messages import rows_of
from .sources.feeder import Feeder
from .writer import Position, Writer

log = logging.getLogger("paceline.archive")
#: How often it is looked for what is too old, and for files that nobody reads any more.
SWEEP_S = 600.0
#: How long a poll waits for messages while there is something else to do.
BUSY_POLL_S = 0.02


class Follows(Protocol):
    """What is brought up to the archive after each commit; what hinders it is its own affair."""

    @property
    def version(self) -> int:
        """The manifest that it is now, 0 where that is not known."""

    def follow(self, manifest: Manifest) -> None:
        """Bring it to ``manifest``."""

    def tidy(self, now_s: float) -> None:
        """Delete what it needs no more."""


class Archiver:
    """Reads ``topics`` into the archive in ``store``."""

    def __init__(
        self,
        settings: BrokerSettings,
        store: Store,
        topics: Sequence[Topic],
        days: Days,
        commit_s: float,
        stop: threading.Event,
        clock: Callable[[], float] = time.monotonic,
        feeders: Sequence[Feeder] = (),
        iceberg: Follows | None = None,
    ) -> None:
        self._settings, self._store, self._topics = settings, store, tuple(topics)
        self._days, self._commit_s, self._stop, self._clock = days, commit_s, stop, clock
        self.feeders, self._iceberg = tuple(feeders), iceberg
        self.thread = SupervisedThread("the archiver", self._run, stop)
        self._waits = "looking for the archive"
        self._writer: Writer | None = None
        self._merger: Merger | None = None
        self._gaps: list[Gap] = []
        self._unusable: Counter[str] = Counter()
        #: Messages read, by topic; what is still to be read; when the archive was brought up to date last.
        self.messages: Counter[str] = Counter()
        self.lag: Mapping[str, int] = {}
        self.committed_s = clock()
        self._past = Counter[str]()
        self._passed_on = 0

    def waits(self) -> str | None:
        """What it waits for, None while it works."""
        return self.thread.failure or self._waits or None

    def totals(self) -> Mapping[str, float]:
        """What has been done since the process began: rows, bytes, commits, files merged and let go of."""
        done = Counter(self._past)
        if self._writer is not None and self._merger is not None:
            done.update(
                rows=self._writer.rows,
                bytes=self._writer.bytes,
                commits=self._writer.commits,
                merged=self._merger.merged,
                expired=self._merger.expired,
            )
        return done

    def size(self) -> tuple[int, int]:
        """Files of the archive, and their bytes."""
        files = [] if self._writer is None else self._writer.manifest.files
        return len(files), sum(file.bytes for file in files)

    @property
    def behind(self) -> int:
        """Versions of the archive that Iceberg's tables do not know yet."""
        if self._iceberg is None or self._writer is None:
            return 0
        return self._writer.manifest.version - self._iceberg.version

    @property
    def gaps(self) -> int:
        """How often messages were gone before they were read."""
        return 0 if self._writer is None else self._writer.manifest.gap_count

    @property
    def unusable(self) -> Mapping[str, int]:
        """Messages that could not be decoded, by topic."""
        return self._unusable if self._writer is None else dict(self._writer.manifest.unusable)

    def _run(self) -> None:
        self._past.update(self.totals())
        self._writer = self._merger = None
        self._gaps, self._unusable = [], Counter()
        self._waits = f"the archive at {self._store.where}"
        writer = Writer(self._store)
        orphans = writer.tidy()
        if orphans:
            log.info("%d files that were never committed are deleted", orphans)
        merger = Merger(self._store, writer, self._days)
        self._writer, self._merger = writer, merger
        self._waits = "connecting to the broker"
        with Follower(
            self._settings,
            dict.fromkeys(self._topics, BEGINNING),
            "paceline-archive",
            resume=True,
            on_lost=self._lost,
            on_unreadable=self._cannot_read,
            on_jump=self._jumped,
            on_cluster=lambda cause: log.warning("%s", cause),
            places=writer.manifest.places(),
            topic_ids=writer.manifest.topic_ids,
            stop=self._stop,
        ) as follower:
            self._follow(follower, writer, merger)

    def _follow(self, follower: Follower, writer: Writer, merger: Merger) -> None:
        buffers, swept_s, unmerged, self.committed_s = Buffers(), -SWEEP_S, True, self._clock()
        while not self._stop.is_set():
            polled = follower.poll(BUSY_POLL_S if unmerged or self._fed() else POLL_S)
            for topic, records in polled:
                self._take(buffers, topic, records)
            if follower.state == "connected":
                self._waits, self.lag = "", {topic.short: behind for topic, behind in follower.lag.items()}
                self.thread.well()
            # In every turn and each of them: neither a busy bus nor another source may keep one from being committed.
            served = [feeder.serve(writer) for feeder in self.feeders]
            now_s = self._clock()
            if buffers.bytes >= MOST_BYTES or now_s - self.committed_s >= self._commit_s:
                buffers = self._commit(buffers, follower, writer)
                unmerged = self._merge(merger)
            elif any(served):
                unmerged = True
            elif unmerged and not polled:
                unmerged = merger.turn()
            if now_s - swept_s >= SWEEP_S:
                swept_s = now_s
                merger.expire()
                writer.sweep()
                self._tidy()
            self._pass_on(writer)
        self._commit(buffers, follower, writer)
        self._pass_on(writer)

    def _fed(self) -> bool:
        """Whether a source is about to hand something over."""
        return any(feeder.asking for feeder in self.feeders)

    def _merge(self, merger: Merger) -> bool:
        """Merge for half of the time until the next commit: a busy bus leaves no other. Whether more is to be done."""
        until_s = self._clock() + self._commit_s / 2
        while merger.turn():
            if self._clock() >= until_s or self._stop.is_set():
                return True
        return False

    def _tidy(self) -> None:
        if self._iceberg is not None:
            self._iceberg.tidy(time.time())
            self._passed_on = 0  # Also where nothing more is committed, what failed is tried again.

    def _pass_on(self, writer: Writer) -> None:
        """Bring what follows the archive up to it, also after a start that a kill came before."""
        if self._iceberg is not None and self._passed_on != writer.manifest.version:
            self._passed_on = writer.manifest.version
            self._iceberg.follow(writer.manifest)

    def _commit(self, buffers: Buffers, follower: Follower, writer: Writer) -> Buffers:
        """Commit what is new, and begin new buffers."""
        self.committed_s = self._clock()
        position = Position(follower.places(), follower.topic_ids())
        moved = any(writer.manifest.places().get(at) != offset for at, offset in position.places.items())
        if moved or self._gaps:
            writer.commit(buffers, position, self._gaps, self._unusable)
            self._gaps, self._unusable = [], Counter()
            return Buffers()
        return buffers

    def _take(self, buffers: Buffers, topic: Topic, records: Sequence[ConsumerRecord]) -> None:
        self.messages[topic.short] += len(records)
        for record in records:
            if not record.value:
                continue
            buffers.bytes += len(record.value)
            published_s = record.timestamp / 1000.0
            if not 0.0 < published_s <= LATEST_S:
                published_s = time.time()
            try:
                # All of a message or nothing of it.
                for rows in list(rows_of(wire.decode(topic, record.value), published_s)):
                    buffers.add(rows, record.partition, record.offset, published_s)
            except Exception as error:  # Reading it again would fail again: what follows it must not wait for it.
                self._cannot_read(topic, str(error))

    def _lost(self, cause: str) -> None:
        log.warning("%s", cause)
        self._waits = cause

    def _cannot_read(self, topic: Topic, reason: str) -> None:
        if not self._unusable[topic.short]:
            log.warning("a message that cannot be used on %s: %s", topic.name, reason)
        self._unusable[topic.short] += 1

    def _jumped(self, jump: Jump) -> None:
        log.warning(
            "%s/%d: messages from %d to %d are gone", jump.topic.name, jump.partition, jump.expected, jump.first
        )
        self._gaps.append(
            Gap(
                topic=jump.topic.name,
                partition=jump.partition,
                expected=max(0, jump.expected),
                first=max(0, jump.first),
                time_s=time.time(),
                remade=jump.remade,
            )
        )
