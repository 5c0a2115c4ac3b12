"""The service's memory: history, who runs where, and what is known of each job, behind one lock.

Rule of this file: it only passes on; what an event means is said by ``subjects`` and ``job_profiles``. Under the lock
is stored and copied, one series or job at a time; whatever is computed is computed on a copy, outside.
"""

import threading
from collections.abc import Container, Iterator
from dataclasses import dataclass, field

from paceline.events import SHORT_WINDOW_S, DeviceSamples, JobDescribed, JobProfile, JobWindow

from . import group_sizes, quarters
from .history import History, SeriesSubject, Track
from .job_end import JobEnd
from .job_profiles import JobProfiles, JobState
from .published import PublishedForecasts
from .series import Array
from .subjects import Subjects


@dataclass(frozen=True)
class Held:
    """A series as it was when it was asked for; ``sizes``: of how many GPUs each value is, of a sum over such."""

    subject: SeriesSubject
    values: Array
    time_s: float
    sizes: Array | None = None


@dataclass(frozen=True)
class SeriesLine:
    """A series in the list of all."""

    subject: SeriesSubject
    samples: int
    time_s: float


@dataclass
class ServiceCounts:
    """What the service took in, and what it published."""

    events: int = 0
    #: Values that came too late, and those of series for which there is no room.
    late: int = 0
    refused: int = 0
    #: Windows of clocks that are far ahead.
    ahead: int = 0
    undecodable: int = 0
    published: int = 0
    #: Forecasts and profiles that could not be made for publishing.
    failed: int = 0
    #: By topic: messages still to be read, and numbered ones that never came or could not be read.
    lag: dict[str, int] = field(default_factory=dict)
    missing: dict[str, int] = field(default_factory=dict)
    #: By topic: the oldest messages, for which a start had no room.
    left_out: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


class Memory:
    """Takes events from one thread and answers others."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._history = History()
        self.counts = ServiceCounts()
        #: How many clusters were read.
        self.clusters = 0
        self.begin_cluster()

    def begin_cluster(self) -> None:
        """Forget jobs, who runs where and what was published: what comes now is of another cluster.

        Series stay: what was measured, sent or back-filled holds for its time.
        """
        with self._lock:
            self._subjects, self._jobs = Subjects(), JobProfiles()
            self.published = PublishedForecasts()
            self.clusters += 1

    def update(self, event: object, written_s: float | None = None) -> None:
        """Learn from an event of the bus; ``written_s``: when its message was written."""
        with self._lock:
            self.counts.events += 1
            if isinstance(event, JobDescribed):
                self._subjects.on_job(event)
                self._jobs.on_described(event)
            elif isinstance(event, DeviceSamples):
                self._jobs.on_samples(event)
            else:
                if isinstance(event, JobWindow) and event.length_s == SHORT_WINDOW_S:
                    self._jobs.on_window(event)
                if self._subjects.is_ahead(event, written_s):
                    self.counts.ahead += 1
                    return
                for reading in self._subjects.readings(event):
                    quarters.put(self._history, reading.subject, reading.time_s, reading.value)
                self._count()

    def put(self, subject: SeriesSubject, times_s: list[float], values: list[float]) -> int:
        """Learn values that were sent or back-filled; how many were kept."""
        with self._lock:
            kept = sum(
                quarters.put(self._history, subject, at_s, value) for at_s, value in zip(times_s, values, strict=True)
            )
            self._count()
            return kept

    def forget(self, key: str) -> bool:
        """Drop a series; False where there was none."""
        with self._lock:
            return self._history.forget(key)

    def find(self, key: str) -> Held | None:
        """The series called ``key``, or None."""
        with self._lock:
            track = self._history.find(key)
            if track is None:
                return None
            values = track.values()
            return Held(track.subject, values, track.time_s, self._sizes(track, len(values)))

    def lines(self) -> list[SeriesLine]:
        """All series, by key."""
        with self._lock:
            tracks = list(self._history)
        lines = []
        for track in tracks:
            with self._lock:
                lines.append(SeriesLine(track.subject, len(track.values()), track.time_s))
        return sorted(lines, key=lambda line: line.subject.key)

    def keys(self) -> list[tuple[str, float]]:
        """The key of every series that is published, and the time of its newest sample."""
        with self._lock:
            tracks = [(track.subject.key, track.time_s) for track in self._history]
        return [(key, time_s) for key, time_s in tracks if not group_sizes.is_size(key)]

    def profiles(self, job: str) -> list[JobProfile]:
        """What is known of the jobs of this name, one a cluster."""
        with self._lock:
            copies = [one.copy() for one in self._jobs.find(job)]
        return [one.profile() for one in copies]

    def running(self, also: Container[tuple[str, str]] = ()) -> Iterator[JobState]:
        """Every job that has not ended, or is one of ``also``, as it is when its turn comes."""
        with self._lock:
            states = self._jobs.every(also)
        for state in states:
            with self._lock:
                copied = state.copy()
            yield copied

    def end(self, cluster: str, job: str, total_steps: int) -> JobEnd | None:
        """When a job of so many steps will be done, or None where its pace is unknown."""
        with self._lock:
            copies = [one.copy() for one in self._jobs.find(job) if one.cluster == cluster]
        return copies[0].end(total_steps) if copies else None

    def _sizes(self, track: Track, samples: int) -> Array | None:
        key = group_sizes.size_key(track.subject.key)
        sizes = None if key is None else self._history.find(key)
        if sizes is None or sizes.subject.interval_s != track.subject.interval_s:
            return None
        return sizes.between(track.newest - samples + 1, track.newest)

    def _count(self) -> None:
        self.counts.late, self.counts.refused = self._history.late, self._history.refused

    @property
    def bytes(self) -> int:
        """What the history's samples take."""
        with self._lock:
            return self._history.bytes

    def __len__(self) -> int:
        with self._lock:
            return len(self._history)
