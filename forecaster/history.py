"""What was measured lately, per series, on a grid: bounded in series and in samples, gaps kept as gaps.

Rule of this file: pure; time comes with the values. Memory is SERIES x SAMPLES x 4 bytes at most. Where that is full a
series that fell silent makes room, or else one that is less important: if those that go on made room for each other,
none would have a past. Silence is told by how often others were heard, whatever any clock says.
"""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from .rank import LAST, rank
from .series import Array

#: Three days of minutes of so many series: 346 MB. Ten thousand GPUs' use, their nodes and jobs have room in it.
SERIES, SAMPLES = 20_000, 4320
#: A series is silent when so many times as many values of others came as there is room for series.
SILENT_TURNS = 60
#: A new series begins with so much room, and doubles it when it is used up.
FIRST = 64


@dataclass(frozen=True)
class SeriesSubject:
    """Whose values they are. ``low`` and ``high`` bound what can be measured."""

    key: str
    unit: str
    interval_s: float
    cluster: str
    job: str | None = None
    node: str | None = None
    device: str | None = None
    low: float | None = 0.0
    high: float | None = None


class Track:
    """The newest samples of one series. Places on the grid count from the Unix epoch."""

    def __init__(self, subject: SeriesSubject) -> None:
        self.subject = subject
        #: The turn at which it was heard last.
        self.turn = 0
        self.newest = -1
        self._oldest = -1
        self._ring: NDArray[np.float32] = np.full(FIRST, np.nan, dtype=np.float32)

    def put(self, place: int, value: float) -> bool:
        """Keep ``value``, which may come late; False where it is too old to be kept."""
        if self.newest < 0:
            self.newest = self._oldest = place
        if place > self.newest:
            self._advance(place)
        if place <= self.newest - len(self._ring) and not self._grow(self.newest - place + 1):
            return False
        self._oldest = min(self._oldest, place)
        self._ring[place % len(self._ring)] = value
        return True

    def values(self) -> Array:
        """Oldest first, from the first that was measured to the newest place; NaN for gaps."""
        samples = self._ring[np.arange(self._oldest, self.newest + 1) % len(self._ring)].astype(np.float64)
        measured = np.flatnonzero(np.isfinite(samples))
        return samples[measured[0] :] if measured.size else samples[:0]

    def between(self, first: int, last: int) -> Array:
        """The samples at these places; NaN for gaps and for what is not held."""
        samples = np.full(last - first + 1, np.nan)
        held = np.arange(max(first, self._oldest), min(last, self.newest) + 1)
        samples[held - first] = self._ring[held % len(self._ring)]
        return samples

    def mean(self, first: int, last: int) -> float:
        """Of the samples at these places; NaN where fewer than half of them were measured."""
        samples = self.between(first, last)
        measured = samples[np.isfinite(samples)]
        return float(measured.mean()) if 2 * measured.size >= last - first + 1 else float("nan")

    @property
    def time_s(self) -> float:
        """The Unix time at which the newest sample ends."""
        return (self.newest + 1) * self.subject.interval_s

    @property
    def bytes(self) -> int:
        """What the samples take."""
        return self._ring.nbytes

    def _advance(self, place: int) -> None:
        if place - self._oldest >= len(self._ring):
            self._grow(place - self._oldest + 1)
        size = len(self._ring)
        if place - self.newest >= size:
            self._ring[:] = np.nan
            self._oldest = place
        elif place - self.newest == 1:
            self._ring[place % size] = np.nan
        else:
            self._ring[np.arange(self.newest + 1, place + 1) % size] = np.nan
        self.newest = place
        self._oldest = max(self._oldest, place - size + 1)

    def _grow(self, wanted: int) -> bool:
        """Make room for ``wanted`` samples, or as many as are allowed; False where that is too few."""
        size = len(self._ring)
        while size < min(wanted, SAMPLES):
            size = min(2 * size, SAMPLES)
        if size > len(self._ring):
            places = np.arange(self.newest - len(self._ring) + 1, self.newest + 1)
            held = self._ring[places % len(self._ring)]
            self._ring = np.full(size, np.nan, dtype=np.float32)
            self._ring[places % size] = held
        return wanted <= size


class History:
    """Every series there is."""

    def __init__(self, most: int = SERIES) -> None:
        self._most = most
        #: By rank, the one heard least recently first.
        self._ranks = tuple(OrderedDict[str, Track]() for _ in range(LAST + 1))
        self._turn, self._newest_key = 0, ""
        #: Series that made room; values of those for which there was none, and values that came too late.
        self.forgotten = self.refused = self.late = 0

    def put(self, subject: SeriesSubject, time_s: float, value: float) -> bool:
        """Keep a value that was measured over the interval that began at ``time_s``.

        False where it is too old, or there is no room for another series as little important. What is known of the
        series is as of its newest value: of a late one, bounds may be those of fewer GPUs. On another grid it begins
        again, for places of the one are no places of the other.
        """
        place, its_rank = int(time_s // subject.interval_s), rank(subject.key)
        held = self._ranks[its_rank]
        if subject.key != self._newest_key:
            self._turn, self._newest_key = self._turn + 1, subject.key
        track = held.get(subject.key)
        if track is not None and track.subject.interval_s != subject.interval_s:
            del held[subject.key]
            track = None
        if track is None:
            if not self._make_room(its_rank):
                self.refused += 1
                return False
            track = held[subject.key] = Track(subject)
        else:
            held.move_to_end(subject.key)
            if place >= track.newest:
                track.subject = subject
        track.turn = self._turn
        kept = track.put(place, value)
        self.late += not kept
        return kept

    def find(self, key: str) -> Track | None:
        """The series called ``key``."""
        return self._ranks[rank(key)].get(key)

    def forget(self, key: str) -> bool:
        """Drop a series; False where there was none."""
        return self._ranks[rank(key)].pop(key, None) is not None

    def __iter__(self) -> Iterator[Track]:
        return iter(list(chain.from_iterable(held.values() for held in self._ranks)))

    def __len__(self) -> int:
        return sum(map(len, self._ranks))

    @property
    def bytes(self) -> int:
        """What all samples take."""
        return sum(track.bytes for track in self)

    def _make_room(self, wanted: int) -> bool:
        """Let one series go where there is room for no more; False where all go on and none is less important."""
        if len(self) < self._most:
            return True
        silent = self._turn - SILENT_TURNS * self._most
        for held in reversed(self._ranks):
            if held and next(iter(held.values())).turn < silent:
                return self._let_go(held)
        for held in reversed(self._ranks[wanted + 1 :]):
            if held:
                return self._let_go(held)
        return False

    def _let_go(self, held: OrderedDict[str, Track]) -> bool:
        held.popitem(last=False)
        self.forgotten += 1
        return True
