"""A ring of the last values of many gauges: metrics x rows x slots of numbers, in numpy.

Rule of this file: pure and bounded. A row is a GPU or a host, NaN is *not measured*. Each row has slots of its own, in
the order in which its values arrived: a machine whose clock is hours off takes nothing from the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .step_ring import Floats, Ints

#: Seconds of a row's own time that one slot stands for: of what is told in them the last is kept.
SLOT_S = 10.0
#: Slots a ring never goes below, and those it has where few rows let it: an hour.
SLOTS_MIN, SLOTS = 8, 360
#: A number beyond it would be none any more in four bytes.
LARGEST = 1e30


@dataclass(frozen=True)
class Histories:
    """What rows were, oldest first: ``at_s`` rows x slots (NaN: nothing yet), ``values`` metrics x rows x slots."""

    metrics: tuple[str, ...]
    at_s: npt.NDArray[np.float64]
    values: Floats


class GaugeRing:
    """The last values of up to ``rows_max`` rows; the more there are, the fewer slots each has.

    >>> ring = GaugeRing(["power_w"], rows_max=4)
    >>> ring.put(np.array([0]), 100.0, np.array([[250.0]])); ring.put(np.array([0]), 112.0, np.array([[300.0]]))
    >>> ring.history(np.array([0])).values[0, 0, -3:].tolist(), float(ring.newest[0, 0])
    ([nan, 250.0, 300.0], 300.0)
    """

    def __init__(self, metrics: Sequence[str], rows_max: int, cells: int = 16_000_000) -> None:
        self.metrics = tuple(metrics)
        self.rows_max = rows_max
        self._cells = cells
        self._values: Floats = np.full((len(self.metrics), 0, SLOTS), np.nan, np.float32)
        self._at_s = np.full((0, SLOTS), np.nan)
        self._last = np.zeros(0, np.int64)
        self.newest: Floats = np.full((len(self.metrics), 0), np.nan, np.float32)

    @property
    def rows(self) -> int:
        """Rows there is room for."""
        return self._at_s.shape[0]

    @property
    def slots(self) -> int:
        """How many slots each row has now."""
        return self._at_s.shape[1]

    def put(self, rows: Ints, at_s: float, values: npt.NDArray[np.float64]) -> None:
        """Set what ``rows`` are at ``at_s``: ``values`` is metrics x rows; what is no number is *not measured*."""
        if rows.size == 0:
            return
        self._make_room(int(rows.max()) + 1)
        with np.errstate(over="ignore", invalid="ignore"):
            sound = np.where(np.abs(values) <= LARGEST, values, np.nan).astype(np.float32)
        last = self._last[rows]
        same = np.floor(self._at_s[rows, last] / SLOT_S) == np.floor(at_s / SLOT_S)
        slot = np.where(same | np.isnan(self._at_s[rows, last]), last, (last + 1) % self.slots)
        self._last[rows] = slot
        self._at_s[rows, slot] = at_s
        self._values[:, rows, slot] = sound
        self.newest[:, rows] = sound

    def forget(self, rows: Ints) -> None:
        """Empty ``rows`` for others to use."""
        self._values[:, rows], self._at_s[rows], self.newest[:, rows] = np.nan, np.nan, np.nan
        self._last[rows] = 0

    def history(self, rows: Ints) -> Histories:
        """A copy of what ``rows`` were, oldest first."""
        order = (self._last[rows][:, None] + 1 + np.arange(self.slots)) % self.slots
        return Histories(self.metrics, self._at_s[rows[:, None], order], self._values[:, rows[:, None], order])

    def _make_room(self, rows: int) -> None:
        """Grow to twice the rows; where that takes too many cells, keep fewer slots."""
        if rows <= self.rows:
            return
        room, old = min(max(rows, self.rows * 2, 64), self.rows_max), self.rows
        slots = max(SLOTS_MIN, min(self.slots, self._cells // (len(self.metrics) * room)))
        values = np.full((len(self.metrics), room, slots), np.nan, np.float32)
        at_s, newest = np.full((room, slots), np.nan), np.full((len(self.metrics), room), np.nan, np.float32)
        last = np.zeros(room, np.int64)
        if slots == self.slots:
            values[:, :old], at_s[:old], last[:old] = self._values, self._at_s, self._last
        else:
            held = self.history(np.arange(old))
            values[:, :old], at_s[:old], last[:old] = held.values[..., -slots:], held.at_s[:, -slots:], slots - 1
        newest[:, :old] = self.newest
        self._values, self._at_s, self._last, self.newest = values, at_s, last, newest
