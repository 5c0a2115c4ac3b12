"""Unions of stretches of time, and how much of them lies where.

Rule of this file: pure arithmetic on arrays, in whatever unit the caller has; no loop over stretches.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


class Union(NamedTuple):
    """The time that some stretches cover together: disjoint stretches, by time, that do not touch."""

    start: Floats
    end: Floats

    @property
    def length(self) -> float:
        """The time covered, moments in which several stretches lie counted once."""
        return float((self.end - self.start).sum())

    def until(self, when: Floats) -> Floats:
        """The time covered before each of ``when``.

        >>> union([0.0, 5.0], [2.0, 6.0]).until(np.array([1.0, 4.0, 9.0])).tolist()
        [1.0, 2.0, 3.0]
        """
        if not self.start.size:
            return np.zeros(np.shape(when))
        covered = np.concatenate([[0.0], np.cumsum(self.end - self.start)])
        edges = np.stack([self.start, self.end], axis=1).ravel()
        return np.asarray(np.interp(when, edges, np.stack([covered[:-1], covered[1:]], axis=1).ravel()))

    def within(self, start: Floats, end: Floats) -> Floats:
        """The time covered between each ``start`` and ``end``; 0 where the end comes first."""
        return np.maximum(np.where(end > start, self.until(end) - self.until(start), 0.0), 0.0)

    def holds(self, when: Floats) -> NDArray[np.bool_]:
        """Whether each of ``when`` is covered."""
        place = np.searchsorted(self.start, when, side="right") - 1
        if not self.start.size:
            return np.zeros(np.shape(when), dtype=bool)
        return np.asarray((place >= 0) & (when < self.end[np.maximum(place, 0)]))

    def without(self, other: "Union") -> "Union":
        """The time that this covers and ``other`` does not.

        >>> union([0.0, 5.0], [4.0, 6.0]).without(union([1.0, 3.0], [2.0, 9.0]))
        Union(start=array([0., 2.]), end=array([1., 3.]))
        """
        edges = np.unique(np.concatenate([*self, *other]))
        middle = (edges[1:] + edges[:-1]) / 2
        kept = self.holds(middle) & ~other.holds(middle)
        return union(edges[:-1][kept], edges[1:][kept])


def union(start: ArrayLike, end: ArrayLike) -> Union:
    """The union of stretches in any order.

    >>> union([5.0, 0.0, 1.0], [6.0, 2.0, 4.0])
    Union(start=array([0., 5.]), end=array([4., 6.]))
    """
    begins, ends = np.asarray(start, dtype=np.float64), np.asarray(end, dtype=np.float64)
    some = ends > begins
    begins, ends = begins[some], ends[some]
    order = np.argsort(begins, kind="stable")
    begins, ends = begins[order], ends[order]
    reach = np.maximum.accumulate(ends) if ends.size else ends
    first = np.flatnonzero(np.concatenate([[True], begins[1:] > reach[:-1]])) if ends.size else np.zeros(0, np.int64)
    return Union(begins[first], reach[np.append(first[1:], ends.size) - 1] if ends.size else ends)


def new_time(start: Floats, end: Floats) -> Floats:
    """Where the time begins that each stretch adds to those before it, by start; its own end where it adds none.

    >>> new_time(np.array([0.0, 1.0, 1.5, 5.0]), np.array([2.0, 4.0, 3.0, 6.0])).tolist()
    [0.0, 2.0, 3.0, 5.0]
    """
    if not start.size:
        return start
    reach = np.concatenate([[-np.inf], np.maximum.accumulate(end)[:-1]])
    return np.asarray(np.minimum(np.maximum(start, reach), end))
