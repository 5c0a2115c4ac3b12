"""A ring of the last steps of a job: layers x ranks x steps of seconds, in numpy.

Rule of this file: pure and bounded. NaN is *not measured*. A row that cannot be placed (too old, an impossible rank or
step, a negative time) is counted in ``refused``, never stored.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from paceline import events

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.bool_]

#: Ranks a ring will hold; beyond it a rank is a mistake of the sender.
RANKS_MAX = 16_384
#: A step, or a number of seconds, beyond it is a mistake of the sender, too.
STEP_MAX, SECONDS_MAX = 2**53, events.LATEST_S
#: Steps a ring never goes below, however many ranks there are.
STEPS_MIN = 32


class StepRing:
    """The last ``steps`` steps; fewer where many ranks would need more than ``cells`` numbers."""

    def __init__(self, layers: Sequence[str], steps: int = 4096, cells: int = 8_000_000) -> None:
        self.layers = tuple(layers)
        self.refused = 0
        self.newest = -1
        self.oldest = -1
        self._steps_wanted = steps
        self._cells = cells
        self._values: Floats = np.full((len(self.layers), 0, steps), np.nan, np.float32)
        self._at_s = np.full(steps, np.nan)

    @property
    def steps(self) -> int:
        """How many steps fit now."""
        return int(self._values.shape[2])

    @property
    def ranks(self) -> int:
        """One more than the highest rank seen."""
        return int(self._values.shape[1])

    def put(self, rank: Ints, step: Ints, values: npt.NDArray[np.float64]) -> None:
        """Set the seconds of each (rank, step) in every layer, ``values`` being layers x rows, NaN where not measured.

        Of a row that cannot be placed, all that was measured is refused.
        """
        measured = ~np.isnan(values)
        sound = measured & _length(values)
        sound &= self._placed(np.logical_or.reduce(sound), rank, step)
        self.refused += int(measured.sum() - sound.sum())
        layer, row = np.nonzero(sound)
        self._values[layer, rank[row], step[row] % self.steps] = values[layer, row]

    def _placed(self, good: Rows, rank: Ints, step: Ints) -> Rows:
        """Which of the ``good`` rows have a place, made for them where there is none."""
        good = good & (rank >= 0) & (rank < RANKS_MAX) & (step >= 0) & (step <= STEP_MAX)
        if not good.any():
            return good
        self._make_room(int(rank[good].max()) + 1)
        self._advance(int(step[good].min()), int(step[good].max()))
        return good & (step > self.newest - self.steps)

    def mark(self, step: Ints, at_s: npt.NDArray[np.float64]) -> None:
        """Remember when each ``step`` began: the latest rank's time, Unix seconds."""
        kept = (step > self.newest - self.steps) & (step <= self.newest) & (step >= 0)
        column = step[kept] % self.steps
        np.fmax.at(self._at_s, column, at_s[kept])

    @property
    def began_s(self) -> float | None:
        """When the newest step began of which that is known: of the times not the largest, for clocks are set back."""
        if self.newest < 0:
            return None
        at_s = self._at_s[np.arange(self.oldest, self.newest + 1) % self.steps]
        known = at_s[np.isfinite(at_s)]
        return float(known[-1]) if known.size else None

    def last(self, count: int) -> tuple[Ints, Floats, npt.NDArray[np.float64]]:
        """The last ``count`` steps in order: step numbers, a copy of layers x ranks x steps, when each began."""
        if self.newest < 0:
            empty = np.empty(0, np.int64)
            return empty, self._values[:, :, :0].copy(), np.empty(0)
        first = max(self.oldest, self.newest - min(count, self.steps) + 1)
        steps = np.arange(first, self.newest + 1, dtype=np.int64)
        columns = steps % self.steps
        return steps, self._values[:, :, columns], self._at_s[columns]

    def _advance(self, low: int, high: int) -> None:
        if self.newest < 0:
            self.oldest, self.newest = low, low
        self.oldest = min(self.oldest, low)
        if high > self.newest:
            if high - self.newest >= self.steps:
                fresh = np.arange(self.steps)
            else:
                fresh = np.arange(self.newest + 1, high + 1) % self.steps
            self._values[:, :, fresh] = np.nan
            self._at_s[fresh] = np.nan
            self.newest = high
        self.oldest = max(self.oldest, self.newest - self.steps + 1)

    @property
    def cells(self) -> int:
        """How many numbers there is room for."""
        return self._values.size

    def shrink(self) -> int:
        """Keep half as many steps; how many numbers less that is, 0 where it goes no further."""
        before = self.cells
        if self.steps >= 2 * STEPS_MIN:
            self._resize(self.ranks, self.steps // 2)
        return before - self.cells

    def _make_room(self, ranks: int) -> None:
        """Grow to ``ranks``; when that takes too many cells, keep fewer steps."""
        if ranks > self.ranks:
            fit = max(STEPS_MIN, self._cells // (len(self.layers) * ranks))
            self._resize(ranks, min(self._steps_wanted, self.steps, fit))

    def _resize(self, ranks: int, steps: int) -> None:
        held, old, at_s = self.last(self.steps)
        grown = np.full((len(self.layers), ranks, steps), np.nan, np.float32)
        times = np.full(steps, np.nan)
        keep = held[-steps:]
        if keep.size:
            grown[:, : old.shape[1], keep % steps] = old[:, :, -keep.size :]
            times[keep % steps] = at_s[-keep.size :]
            self.oldest = int(keep[0])
        self._values, self._at_s = grown, times


def _length(seconds: npt.NDArray[np.float64]) -> Rows:
    """Which of ``seconds`` can be lengths of time."""
    sound: Rows = (seconds >= 0) & (seconds <= SECONDS_MAX)
    return sound
