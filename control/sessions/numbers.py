"""The numbers of one producer on one topic: which came, how often again, and exactly which never did.

Rule of this file: pure and bounded. Messages of one producer lie in several partitions, so they come in any order.
"""

from bisect import bisect_left
from itertools import pairwise

#: Separate runs of numbers that are remembered; beyond it the smallest gap is closed, and what it held is only counted.
MOST_RUNS = 1000


class Numbers:
    """A set of whole numbers, kept as runs.

    >>> numbers = Numbers()
    >>> [numbers.add(number) for number in (5, 6, 9, 6, 3)]
    [True, True, True, False, True]
    >>> numbers.missing(), numbers.missing_count, numbers.first, numbers.last, numbers.received, numbers.repeated
    ([(4, 4), (7, 8)], 3, 3, 9, 4, 1)
    """

    def __init__(self, runs: list[list[int]] | None = None, repeated: int = 0, forgotten: int = 0) -> None:
        #: First and last number of each run, ascending, with at least one missing in between.
        self.runs = runs or []
        self.repeated = repeated
        #: Missing numbers that are no longer known by name.
        self.forgotten = forgotten

    @property
    def first(self) -> int:
        """The least number that came."""
        return self.runs[0][0]

    @property
    def last(self) -> int:
        """The greatest number that came."""
        return self.runs[-1][1]

    @property
    def missing_count(self) -> int:
        """How many numbers between the first and the last never came."""
        return self.forgotten + sum(run[0] - before[1] - 1 for before, run in pairwise(self.runs))

    @property
    def received(self) -> int:
        """How many different numbers came."""
        return self.last - self.first + 1 - self.missing_count

    def missing(self) -> list[tuple[int, int]]:
        """First and last of each stretch that never came."""
        return [(before[1] + 1, run[0] - 1) for before, run in pairwise(self.runs)]

    def add(self, number: int) -> bool:
        """Note that ``number`` came; whether it is the first time."""
        runs = self.runs
        if runs and runs[-1][1] + 1 == number:  # As nearly always.
            runs[-1][1] = number
            return True
        place = bisect_left(runs, number, key=lambda run: run[1])
        if place < len(runs) and runs[place][0] <= number:
            self.repeated += 1
            return False
        runs.insert(place, [number, number])
        self._join(place)
        self._join(place - 1)
        if len(runs) > MOST_RUNS:
            self.close_gap()
        return True

    def close_gap(self) -> None:
        """Forget which numbers the smallest gap held, where there is one; how many they were stays known."""
        gaps = [run[0] - before[1] for before, run in pairwise(self.runs)]
        if gaps:
            place = gaps.index(min(gaps))
            self.forgotten += gaps[place] - 1
            self.runs[place][1] = self.runs.pop(place + 1)[1]

    def _join(self, place: int) -> None:
        """Make one run of the one at ``place`` and the next, where they touch."""
        if 0 <= place < len(self.runs) - 1 and self.runs[place][1] + 1 >= self.runs[place + 1][0]:
            self.runs[place][1] = self.runs.pop(place + 1)[1]
