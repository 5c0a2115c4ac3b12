"""Points: from the timings of a node's ranks, one set of metrics a second.

Rule of this file: pure. A point is the mean over this node's ranks and the steps since the point before, under the
newest step among them. No step is reported twice: what comes late of one, from other ranks, is in the next one's mean.
What was not measured is in no mean; a message that comes twice counts once.
"""

from typing import NamedTuple

from paceline.columns import numbers, rows
from paceline.events import Column, StepTimings
from paceline.phases import PHASES
from paceline.sequences import Sequences

#: Not more often than this: what a tracker draws has no more use for.
EVERY_S = 1.0
#: Producers told apart: this node's sidecar, and its successors.
MOST_PRODUCERS = 64
STEP_NAME, WAIT_NAME = "paceline/step_s", "paceline/wait_s"


class Point(NamedTuple):
    """What was measured up to ``step``: seconds, by the names of metrics."""

    step: int
    values: dict[str, float]


class Points:
    """Gathers timings; of another attempt or job it starts again.

    >>> Points().tick(1.0) is None
    True
    """

    def __init__(self) -> None:
        self._sequences = Sequences(MOST_PRODUCERS)
        self._job: tuple[str, int] | None = None
        self._told_s = float("-inf")
        self._told = -1
        self._clear()

    def _clear(self) -> None:
        self._step = -1
        self._sums: dict[str, tuple[float, int]] = {}

    def update(self, message: StepTimings) -> None:
        """Take in one message of the node's sidecar."""
        if not self._sequences.admit(message.producer, message.sequence):
            return
        job = message.job, message.attempt
        if job != self._job:
            self._job, self._told = job, -1
            self._clear()
        count = rows(message.step)
        if not count or rows(message.step_s) != count:
            return
        self._step = max(self._step, *(int(step) for step in numbers(message.step)))
        self._add(STEP_NAME, message.step_s)
        for phase in PHASES:
            column = message.phases.get(phase)
            if column is not None and rows(column) == count:
                self._add(WAIT_NAME if phase == "communication" else f"paceline/phase/{phase}_s", column)

    def _add(self, name: str, column: Column) -> None:
        measured = [float(value) for value in numbers(column) if 0.0 <= value < float("inf")]
        total, count = self._sums.get(name, (0.0, 0))
        self._sums[name] = total + sum(measured), count + len(measured)

    def tick(self, now_s: float, *, last: bool = False) -> Point | None:
        """The next point, where one is due at ``now_s`` (monotonic); the ``last`` is due whenever there is one."""
        means = {name: total / count for name, (total, count) in self._sums.items() if count}
        if STEP_NAME not in means or self._step in (-1, self._told) or (now_s - self._told_s < EVERY_S and not last):
            return None
        point = Point(self._step, means)
        self._told_s, self._told = now_s, point.step
        self._clear()
        return point
