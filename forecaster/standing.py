"""A series that is forecast again and again: a choice that was made for it, and how its published intervals did.

Rule of this file: pure. Between two choices a forecast costs what the chosen members cost: no back-test is made.
Intervals follow what came after them (``conformal``).
"""

from dataclasses import replace

from .calibration import STEPS, Calibration, Scored
from .choice import Choice
from .conformal import Widths
from .series import Array

#: A choice stands for so many samples, …
EVERY = 60
#: … or until so many values in a row lay outside the 80 % interval that was published a sample earlier.
MISSES = 6
#: Members of a smaller share are not asked between choices.
LEAST_SHARE = 0.03


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
        self._calibration = Calibration()

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
            first = max(self._newest + 1, newest - len(values) + 1, newest - max(STEPS))
            for place in range(first, newest + 1):
                self._compare(place, float(values[len(values) - 1 - (newest - place)]))
        self._newest = newest

    def scored(self) -> list[Scored]:
        """How the quantiles that were published did; of those ahead after which values came."""
        return self._calibration.scored()

    def publish(self, quantiles: Array) -> None:
        """Quantiles, steps ahead x ``calibration.LEVELS``, were published at the newest place."""
        self._calibration.publish(self._newest, quantiles)

    def _compare(self, place: int, value: float) -> None:
        """The value at ``place`` beside the intervals that were published for it."""
        for step, low, high, inside in self._calibration.compare(place, value):
            self.widths = self.widths.update(step, low, high, value)
            if step == 1:
                self._misses = 0 if inside else self._misses + 1


def _without_small(choice: Choice) -> Choice:
    """``choice`` with the members that have most of the weight."""
    kept = {name: share for name, share in choice.shares.items() if share >= LEAST_SHARE} or dict(choice.shares)
    total = sum(kept.values())
    return replace(choice, shares={name: share / total for name, share in kept.items()})
