"""Means and sums over the GPUs of a cluster, a node or a job, interval by interval, in whatever order they come.

Rule of this file: pure. The partitions of a topic are read one after the other, hours apart while a service catches
up, so every interval of ``INTERVALS`` stays open; what comes twice counts once; a clock that is ahead takes an
interval of its own and closes none of the others. A group has as many GPUs as any of its newest intervals: one of
which some nodes are still to be read is no smaller cluster, and is not measured.
"""

import math
from collections import OrderedDict
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

#: How many intervals back something may still count.
INTERVALS = 1024
#: How many intervals later a GPU that is still silent has left its groups.
PATIENCE = 5
#: Groups and GPUs that are kept; those that were heard least recently make room. 58 KB a group, 8 KB a GPU.
GROUPS, DEVICES = 4096, 32_768


class Share(NamedTuple):
    """What one GPU adds to its groups in an interval; None where it was not measured."""

    busy: float | None
    power_w: float | None
    free: bool


class Sums(NamedTuple):
    """What a group's GPUs come to in an interval; None where none of them was measured.

    ``gpus`` is how many the group has, whether or not all are in this interval. NaN takes back what was reported before
    it was known that GPUs are missing.
    """

    place: int
    gpus: int
    busy: float | None
    power_w: float | None
    free: float


class Group:
    """The intervals of one cluster, node or job."""

    def __init__(self) -> None:
        self._places: NDArray[np.int64] = np.full(INTERVALS, -1, dtype=np.int64)
        #: Of how many GPUs an interval was reported; 0: it was not.
        self._reported: NDArray[np.int64] = np.zeros(INTERVALS, dtype=np.int64)
        #: GPUs, those with a busy time, their sum, those with a power, their sum, free ones.
        self._sums: NDArray[np.float64] = np.zeros((INTERVALS, 6))
        self.newest = -1

    def add(self, place: int, share: Share) -> Iterator[Sums]:
        """Count a GPU in the interval ``place``; yields the intervals of which enough is known to be reported.

        An interval is reported once as many GPUs are in it as the group has, or when the ``PATIENCE``-th after it has
        begun: a sum of some of the nodes would look like a fall.
        """
        slot = place % INTERVALS
        if self._places[slot] > place:
            return
        if self._places[slot] < place:
            self._places[slot], self._sums[slot], self._reported[slot] = place, 0.0, 0
        self._sums[slot] += (
            1.0,
            share.busy is not None,
            share.busy or 0.0,
            share.power_w is not None,
            share.power_w or 0.0,
            share.free,
        )
        before = self.newest
        self.newest = max(before, place)
        if before >= 0:
            for waiting in range(before - PATIENCE + 1, min(before, place - PATIENCE) + 1):
                yield from self._report(waiting)
        if self._complete(place):
            yield from self._report(place)
        for later in range(place + 1, min(place + PATIENCE, self.newest) + 1):
            if 0 < self._reported[later % INTERVALS] < self._size(later) and not self._complete(later):
                yield from self._take_back(later)

    def _complete(self, place: int) -> bool:
        return place <= self.newest - PATIENCE or self._gpus(place) >= self._size(place)

    def _size(self, place: int) -> int:
        """How many GPUs the group has: the most of the ``PATIENCE`` intervals up to this one."""
        return max(self._gpus(one) for one in range(place - PATIENCE + 1, place + 1))

    def _gpus(self, place: int) -> int:
        slot = place % INTERVALS
        return int(self._sums[slot, 0]) if self._places[slot] == place else 0

    def _report(self, place: int) -> Iterator[Sums]:
        slot = place % INTERVALS
        if self._places[slot] != place:
            return
        size = self._reported[slot] = self._size(place)
        _, timed, busy, metered, power_w, free = self._sums[slot].tolist()
        yield Sums(place, size, busy / timed if timed else None, power_w if metered else None, free)

    def _take_back(self, place: int) -> Iterator[Sums]:
        slot = place % INTERVALS
        size = self._reported[slot] = self._size(place)
        timed, metered = self._sums[slot, 1], self._sums[slot, 3]
        yield Sums(place, size, math.nan if timed else None, math.nan if metered else None, math.nan)


class Aggregates:
    """The groups, by a key of the caller's, and which GPU was heard in which interval."""

    def __init__(self) -> None:
        self._groups: OrderedDict[str, Group] = OrderedDict()
        self._heard: OrderedDict[str, NDArray[np.int64]] = OrderedDict()

    def first(self, device: str, place: int) -> bool:
        """Whether ``device`` is heard in the interval ``place`` for the first time; too late is as good as twice."""
        heard = self._heard.get(device)
        if heard is None:
            heard = self._heard[device] = np.full(INTERVALS, -1, dtype=np.int64)
            if len(self._heard) > DEVICES:
                self._heard.popitem(last=False)
        self._heard.move_to_end(device)
        if heard[place % INTERVALS] >= place:
            return False
        heard[place % INTERVALS] = place
        return True

    def add(self, group: str, place: int, share: Share) -> Iterator[Sums]:
        """Count a GPU in one of its groups; yields what the group's intervals come to now."""
        held = self._groups.get(group)
        if held is None:
            held = self._groups[group] = Group()
            if len(self._groups) > GROUPS:
                self._groups.popitem(last=False)
        self._groups.move_to_end(group)
        yield from held.add(place, share)
