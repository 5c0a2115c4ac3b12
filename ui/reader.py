"""The reader: two threads a process that fill the feed from Kafka, one for raw events and one for the rest.

Rule of this file: a door. It looks back a bounded number of messages, falls forward rather than behind, and comes back
by itself when the broker does; what the events mean is the feed's business.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from paceline import topics, wire
from paceline.kafka.follow import ConsumerRecord, Follower, Start
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.start_budget import StartBudget
from paceline.supervised import SupervisedThread
from paceline.topics import Topic

from .feed import Feed
from .snapshot import Connection, JobLine, Snapshot, State

#: Messages of each partition to look back at the start: what a page has use for.
DERIVED: Mapping[Topic, int] = {
    topics.JOB: 20_000,
    topics.WINDOW: 2_000,
    topics.FINDING: 5_000,
    topics.PROFILE: 2_000,
    topics.FORECAST: 500,
    topics.SUGGESTION: 5_000,
    topics.PLAN: 2_000,
    topics.AUDIT: 500,
    topics.DEADLETTER: 50,
}
RAW: Mapping[Topic, int] = {
    topics.OP: 2_000,
    topics.BALANCE: 2_000,
    topics.DEVICE: 300,
    topics.HOST: 300,
}
#: Messages of a partition the page may lag behind before it jumps to the newest.
LAG_MAX: Mapping[Topic, int] = dict.fromkeys([*RAW, topics.FORECAST], 5_000)

#: A page waits no longer than this for what the topics hold: twice what a start may read (``StartBudget``).
FIRST_READ_S = 60.0
#: Seconds for which open pages share a copy of a job or of the fleet.
SHARED_S = 1.0


class Reader:
    """Follows the topics and answers with snapshots."""

    def __init__(
        self, settings: BrokerSettings, clock: Callable[[], float] = time.time, feed: Feed | None = None
    ) -> None:
        self._settings, self._clock = settings, clock
        self._feed = feed or Feed()
        self._lock = threading.Lock()
        #: The cluster that was met after another.
        self._cluster = ""
        self._views: dict[object, tuple[float, Any]] = {}
        self._stop = threading.Event()
        start = Connection("connecting", settings.address, clock())
        self._connections = {"raw": start, "derived": start}
        #: Until when each is read for the first time; unknown before the broker answers.
        self._reads_until: dict[str, float] = {}
        self._threads = {
            name: SupervisedThread(
                f"the page's reader of {name} events", partial(self._run, name, looks_back), self._stop
            )
            for name, looks_back in (("raw", RAW), ("derived", DERIVED))
        }

    def start(self) -> None:
        """Begin to read."""
        for thread in self._threads.values():
            thread.start()

    def stop(self) -> None:
        """Stop reading and wait for the threads."""
        for thread in self._threads.values():
            thread.stop(10)

    def snapshot(self, job: str | None, rank: int | None = None) -> Snapshot:
        """What is known now; of the jobs in full only ``job``, or the first of the list where it is None or gone."""
        with self._lock:
            lines = self._shared("jobs", partial(self._feed.lines, self._clock()))
            chosen = next((line for line in lines if line.name == job), lines[0] if lines else None)
            return Snapshot(
                now_s=self._clock(),
                connection=self._connection(),
                jobs=lines,
                job=self._view(chosen, None) if chosen else None,
                topics=self._feed.topics(),
                fleet=self._shared("fleet", self._feed.machines.view),
                rank=self._view(chosen, rank) if chosen and rank is not None else None,
                dead_letters=list(self._feed.dead_letters),
                missing=self._feed.missing,
                node_findings=self._feed.node_findings.episodes(),
                senders=list(self._feed.senders.values()),
                restarts=sum(thread.restarts for thread in self._threads.values()),
                forecasts=self._shared("forecasts", self._feed.forecasts.all),
                profiles=self._shared("profiles", self._feed.profiles.all),
                suggestions=self._feed.suggestions.all(),
                answers=self._feed.answers.all(),
            )

    def _view(self, line: JobLine, rank: int | None) -> Any:
        """A job in full, or one rank of it."""
        told = (line.cluster, line.job)
        make = partial(self._feed.view, *told) if rank is None else partial(self._feed.rank, *told, rank)
        return self._shared((*told, rank), make)

    def _shared(self, name: object, make: Callable[[], Any]) -> Any:
        """What ``make`` gives, made once in ``SHARED_S`` for all open pages: it is large, and nobody changes it."""
        now_s = time.monotonic()
        self._views = {key: held for key, held in self._views.items() if now_s - held[0] < SHARED_S}
        if name not in self._views:
            self._views[name] = now_s, make()
        return self._views[name][1]

    def _connection(self) -> Connection:
        """The worse of the two threads' connections; a thread that failed is worse than a broker that is lost."""
        for name, thread in self._threads.items():
            held, failure = self._connections[name], thread.failure
            if failure and held.state != "failed":
                self._connections[name] = Connection("failed", self._settings.address, self._clock(), failure)
        rank = {"failed": 0, "lost": 1, "refused": 2, "connecting": 3, "reading": 4, "connected": 5}
        return min(self._connections.values(), key=lambda connection: rank[connection.state])

    def _run(self, name: str, looks_back: Mapping[Topic, int]) -> None:
        starts = {topic: Start(messages=messages) for topic, messages in looks_back.items()}
        client_id = f"paceline-ui-{name}"
        with Follower(
            self._settings,
            starts,
            client_id,
            most_behind=LAG_MAX,
            on_skip=self._skip,
            on_unreadable=self._unreadable,
            on_cluster=lambda cause: self._start_anew(follower.cluster),
            budget=StartBudget(),
            stop=self._stop,
        ) as follower:
            while not self._stop.is_set():
                polled = follower.poll()
                for topic, records in polled:
                    self._take(topic, records)
                self._tell(name, follower)
                self._threads[name].well()

    def _tell(self, name: str, follower: Follower) -> None:
        if self._threads[name].failure:
            return  # What went wrong stays on the page until reading has gone on for a while.
        with self._lock:
            held = self._connections[name]
            state: State = "reading" if self._reads(name, follower) else follower.state
            if held.state != state:
                self._views = {}  # Copies of before: what has just been read is not in them.
            since_s = held.since_s if held.state == state else self._clock()
            self._connections[name] = Connection(state, self._settings.address, since_s, follower.cause)
            for topic, behind in follower.lag.items():
                self._feed.traffic[topic.short].lag = behind

    def _reads(self, name: str, follower: Follower) -> bool:
        """Whether what the topics held is being read for the first time; after an outage the page has what it had."""
        if follower.state != "connected":
            return False
        now_s = time.monotonic()
        until_s = self._reads_until.setdefault(name, now_s + FIRST_READ_S)
        if follower.caught_up or follower.nothing_there or now_s >= until_s:
            self._reads_until[name] = now_s
        return now_s < self._reads_until[name]

    def _skip(self, topic: Topic, messages: int) -> None:
        with self._lock:
            self._feed.skip(topic.short, messages)

    def _start_anew(self, cluster: str) -> None:
        """What is known is of another cluster; of two readers that notice, the first forgets it."""
        with self._lock:
            if cluster != self._cluster:
                self._cluster, self._views = cluster, {}
                self._feed = Feed(tariff=self._feed.tariff)

    def _unreadable(self, topic: Topic, reason: str) -> None:
        with self._lock:
            self._feed.unusable(topic.short, reason)

    def _take(self, topic: Topic, records: Sequence[ConsumerRecord]) -> None:
        for record in records:
            if record.value is None:
                continue
            try:
                event = wire.decode(topic, record.value)
                with self._lock:
                    # A sender whose clock is ahead would else be newer than all that it publishes later.
                    self._feed.update(topic.short, event, min(record.timestamp / 1000, self._clock()))
            except Exception as error:  # Reading it again would fail again: what follows it must not wait for it.
                with self._lock:
                    self._feed.unusable(topic.short, str(error) or type(error).__name__)
