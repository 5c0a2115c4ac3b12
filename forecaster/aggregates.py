"""Means and sums over the GPUs of a cluster, a node or a job, interval by interval, whatever order they are heard in.

Rule of this file: pure. The partitions of a topic are read one after the other, hours apart while a service catches
up, so every interval of ``INTERVALS`` stays open; what is heard twice counts once; a clock that is ahead takes an
interval of its own and closes none of the others.
"""

from collections import OrderedDict
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

#: How many intervals back something may still count.
INTERVALS = 1024
#: Groups and GPUs that are kept; those that were heard least recently make room. 58 KB a group, 8 KB a GPU.
GROUPS, DEVICES = 4096, 32_768


class Share(NamedTuple):
    """What one GPU adds to its groups in an interval; None where it was not measured."""

    busy: float | None
    power_w: float | None
    free: bool


class Sums(NamedTuple):
    """What a group's GPUs come to in an interval; None where none of them was measured."""

    place: int
    gpus: int
    busy: float | None
    power_w: float | None
    free: int


class Group:
    """The intervals of one cluster, node or job."""

    def __init__(self) -> None:
        self._places: NDArray[np.int64] = np.full(INTERVALS, -1, dtype=np.int64)
        #: GPUs, those with a busy time, their sum, those with a power, their sum, free ones.
        self._sums: NDArray[np.float64] = np.zeros((INTERVALS, 6))
        self.newest = -1

    def add(self, place: int, share: Share) -> Iterator[Sums]:
        """Count a GPU in the interval ``place``; yields the intervals of which enough is known to be told.

        The newest is told once as many GPUs are in it as in the one before, or a newer one has begun: a sum of some of
        the nodes would look like a fall.
        """
        slot = place % INTERVALS
        if self._places[slot] > place:
            return
        if self._places[slot] < place:
            self._places[slot], self._sums[slot] = place, 0.0
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
        if place > before >= 0:
            yield from self._told(before)
        if place < self.newest or self._gpus(place) >= self._gpus(place - 1):
            yield from self._told(place)

    def _gpus(self, place: int) -> float:
        slot = place % INTERVALS
        return float(self._sums[slot, 0]) if self._places[slot] == place else 0.0

    def _told(self, place: int) -> Iterator[Sums]:
        slot = place % INTERVALS
        if self._places[slot] != place:
            return
        gpus, timed, busy, metered, power_w, free = self._sums[slot].tolist()
        yield Sums(place, int(gpus), busy / timed if timed else None, power_w if metered else None, int(free))


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
