"""How active a job's GPUs were, second by second: means over all of them, however many there are.

Rule of this file: pure and bounded; time comes with the values.
"""

from collections.abc import Mapping

import numpy as np

#: Columns of a node's samples that tell kinds of jobs apart.
COLUMNS = ("sm_active_ratio", "utilization_ratio", "power_w", "fb_used_bytes")
#: Seconds that are kept.
SECONDS = 900


class Activity:
    """Sums and numbers of values of the newest ``SECONDS``: 43 KB a job, none where nothing was measured.

    What is older is passed over. A clock that was ahead and is set right begins again, after as many late values as
    there are seconds.
    """

    def __init__(self) -> None:
        self._sums = np.zeros((0, len(COLUMNS)))
        self._counts = np.zeros((0, len(COLUMNS)), dtype=np.int32)
        self._newest, self._late = -1, 0

    def copy(self) -> "Activity":
        """The same, which later values leave as it is."""
        made = Activity()
        made._sums, made._counts = self._sums.copy(), self._counts.copy()
        made._newest, made._late = self._newest, self._late
        return made

    def add(self, at_s: float, values: Mapping[str, float]) -> None:
        """What was measured of one GPU at ``at_s``, by column."""
        second = int(at_s)
        if not len(self._sums):
            self._sums, self._counts = np.zeros((SECONDS, len(COLUMNS))), np.zeros((SECONDS, len(COLUMNS)), np.int32)
            self._newest = second
        if second <= self._newest - SECONDS:
            self._late += 1
            if self._late <= SECONDS:
                return
            self._clear(range(SECONDS))
            self._newest = second
        if second > self._newest:
            self._clear(range(max(self._newest + 1, second - SECONDS + 1), second + 1))
            self._newest = second
        self._late = 0
        for column, name in enumerate(COLUMNS):
            if name in values:
                self._sums[second % SECONDS, column] += values[name]
                self._counts[second % SECONDS, column] += 1

    def means(self) -> dict[str, list[float | None]]:
        """By column that was measured, the mean of each second from the first on that is kept, None for gaps."""
        if not len(self._sums):
            return {}
        at = np.arange(self._newest - SECONDS + 1, self._newest + 1) % SECONDS
        sums, counts = self._sums[at], self._counts[at]
        measured = counts.any(axis=1)
        first = int(np.argmax(measured)) if measured.any() else SECONDS
        sums, counts = sums[first:], counts[first:]
        return {
            name: [
                float(total / number) if number else None
                for total, number in zip(sums[:, column], counts[:, column], strict=True)
            ]
            for column, name in enumerate(COLUMNS)
            if counts[:, column].any()
        }

    def _clear(self, seconds: range) -> None:
        at = np.array(seconds) % SECONDS
        self._sums[at], self._counts[at] = 0.0, 0
