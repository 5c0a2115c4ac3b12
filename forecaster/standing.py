"""A series that is forecast again and again: a choice that was made for it, and how its published intervals did.

Rule of this file: pure. Between two choices a forecast costs what the chosen members cost: no back-test is made.
Intervals follow what came after them (``conformal``).
"""

from dataclasses import dataclass, replace

import numpy as np

from .choice import Choice
from .conformal import Widths
from .series import Array

#: A choice stands for so many samples, …
EVERY = 60
#: … or until so many values in a row lay outside the 80 % interval that was published a sample earlier.
MISSES = 6
#: The steps ahead whose 80 % intervals are kept until the value comes: one of each width that is learned.
STEPS = (1, 3, 10, 40)
#: Members of a smaller share are not asked between choices.
LEAST_SHARE = 0.03
#: With so many values counted of how intervals did, each counts half as much from then on: the newest say most.
COUNTED = 960
_RING = max(STEPS) + 1


@dataclass(frozen=True)
class Scored:
    """Of ``values`` that came ``steps`` after a forecast was published, so many lay ``inside`` its 80 % interval."""

    steps: int
    values: int
    inside: int


class Standing:
    """The state of one series. Places count samples on its grid; what comes late or twice changes nothing.

    Assumed: forecasts are published at the newest place, in its order. A place before the newest one means another
    series of the same name: the state begins again.
    """

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self.choice: Choice | None = None
        self.widths = Widths()
        self._chosen_at = self._newest = -1
        self._misses = 0
        self._places = np.full(_RING, -1, dtype=np.int64)
        self._intervals = np.full((_RING, len(STEPS), 2), np.nan, dtype=np.float64)
        self._counted = [(0, 0)] * len(STEPS)

    def outdated(self) -> bool:
        """Whether the series needs another choice."""
        return self.choice is None or self._newest - self._chosen_at >= EVERY or self._misses >= MISSES

    def choose(self, choice: Choice) -> None:
        """``choice`` was made at the newest place. Widths that have learned stay."""
        if self.choice is None:
            self.widths = Widths.of(choice.factor)
        self.choice, self._chosen_at, self._misses = _without_small(choice), self._newest, 0

    def update(self, newest: int, values: Array) -> None:
        """The series' newest ``values``, the last of them at ``newest``; those seen before are passed over."""
        if newest < self._newest:
            self._reset()
        if self._newest >= 0:
            first = max(self._newest + 1, newest - len(values) + 1, newest - _RING + 1)
            for place in range(first, newest + 1):
                self._compare(place, float(values[len(values) - 1 - (newest - place)]))
        self._newest = newest

    def scored(self) -> list[Scored]:
        """How the intervals that were published did; of those ahead after which values came."""
        return [Scored(step, *counted) for step, counted in zip(STEPS, self._counted, strict=True) if counted[0]]

    def publish(self, low: Array, high: Array) -> None:
        """The 80 % interval of each step ahead was published at the newest place."""
        row = self._newest % _RING
        self._places[row] = self._newest
        for column, step in enumerate(STEPS):
            self._intervals[row, column] = (low[step - 1], high[step - 1]) if step <= len(low) else np.nan

    def _compare(self, place: int, value: float) -> None:
        """The value at ``place`` beside the intervals that were published for it."""
        for column, step in enumerate(STEPS):
            row = (place - step) % _RING
            if self._places[row] != place - step:
                continue
            low, high = self._intervals[row, column]
            self.widths = self.widths.update(step, float(low), float(high), value)
            if np.isfinite([low, high, value]).all():
                inside = bool(low <= value <= high)
                self._counted[column] = _counted(self._counted[column], inside)
                if step == 1:
                    self._misses = 0 if inside else self._misses + 1


def _counted(before: tuple[int, int], inside: bool) -> tuple[int, int]:
    values, within = before
    if values >= COUNTED:
        values, within = values // 2, round(within / 2)
    return values + 1, within + inside


def _without_small(choice: Choice) -> Choice:
    """``choice`` with the members that have most of the weight."""
    kept = {name: share for name, share in choice.shares.items() if share >= LEAST_SHARE} or dict(choice.shares)
    total = sum(kept.values())
    return replace(choice, shares={name: share / total for name, share in kept.items()})
