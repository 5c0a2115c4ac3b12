"""Whether a signal changes: against its own mean and its own usual distance from it.

Rule of this file: a decision, in any unit that a measured ratio, power or count has.
"""

import math

#: Weight of a new value in the mean, and of a distance in the usual distance.
WEIGHT = 0.1
#: Values that make a mean; how many usual distances are a change; and by which part of the mean it must be one.
FIRST, DISTANCES, LEAST_PART = 5, 4.0, 0.05


class Change:
    """A value far from the exponentially weighted mean: by four usual distances, and 5 % of the mean, at least.

    The mean follows, so a new level is a change for a few values and then what is usual. As the control charts of
    S. W. Roberts (1959), with mean absolute distances, which one outlier does not blow up.

    >>> change = Change()
    >>> [place for place in range(20) if change.update(0.9 if place >= 10 else 0.5 + 0.01 * (place % 2))][:3]
    [10, 11, 12]
    """

    def __init__(self) -> None:
        self._count, self._mean, self._distance = 0, 0.0, 0.0

    def update(self, value: float) -> bool:
        """Whether ``value`` is far from what came before."""
        if not math.isfinite(value):
            return False
        self._count += 1
        if self._count == 1:
            self._mean = value
            return False
        away = abs(value - self._mean)
        far = self._count > FIRST and away > max(DISTANCES * self._distance, LEAST_PART * abs(self._mean), 1e-9)
        weight = max(WEIGHT, 1.0 / self._count)
        self._mean += weight * (value - self._mean)
        self._distance += weight * (away - self._distance)
        return far
