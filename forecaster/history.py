"""What was measured lately, per series, on a grid: bounded in series and in samples, gaps kept as gaps.

Rule of this file: pure; time comes with the values. Memory is SERIES x SAMPLES x 4 bytes at most; the series that was
heard least recently makes room.
"""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .series import Array

#: Three days of minutes of ten thousand series: 173 MB.
SERIES, SAMPLES = 10_000, 4320
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
        self._tracks: OrderedDict[str, Track] = OrderedDict()
        self.forgotten = 0

    def put(self, subject: SeriesSubject, time_s: float, value: float) -> bool:
        """Keep a value that was measured over the interval that began at ``time_s``; False where it is too old.

        What is known of the series is as of its newest value: of a late one, bounds may be those of fewer GPUs.
        """
        place = int(time_s // subject.interval_s)
        track = self._tracks.get(subject.key)
        if track is None:
            if len(self._tracks) >= self._most:
                self._tracks.popitem(last=False)
                self.forgotten += 1
            track = self._tracks[subject.key] = Track(subject)
        else:
            self._tracks.move_to_end(subject.key)
            if place >= track.newest or subject.interval_s != track.subject.interval_s:
                track.subject = subject
        return track.put(place, value)

    def find(self, key: str) -> Track | None:
        """The series called ``key``."""
        return self._tracks.get(key)

    def forget(self, key: str) -> bool:
        """Drop a series; False where there was none."""
        return self._tracks.pop(key, None) is not None

    def __iter__(self) -> Iterator[Track]:
        return iter(list(self._tracks.values()))

    def __len__(self) -> int:
        return len(self._tracks)

    @property
    def bytes(self) -> int:
        """What all samples take."""
        return sum(track.bytes for track in self._tracks.values())
