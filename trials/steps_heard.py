"""The steps of a job, as a recording tells them while it is written: how many, how long, and spent on what.

Rule of this file: pure, and bounded. Whose steps these are, and when there are enough of them, is its caller's
business.

It assumes of its input: a step's number grows by one from the job's first, a rank tells a step once. Ranks of a node
may tell in any order and some not at all; a step's time is the mean of those that told it. A rank may leave steps out
on purpose and say how many: these count as seconds that were spent, and as no step.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from paceline.events import Column, Event, JobDescribed, StepTimings
from paceline.phases import MOST_LEFT_OUT, PHASES

#: Steps that are kept; of a longer run the last ones.
MOST_STEPS = 200_000

_Array = NDArray[np.float64]


class StepsHeard:
    """What was heard so far, of the newest attempt alone.

    ``steps`` are those after the warm-up that were told, ``seconds`` how long they and those between them took, by the
    rank that told each first. ``last`` is the newest step, -1 before the first.
    """

    def __init__(self, warm_up: int) -> None:
        self._warm_up = warm_up
        self._attempt = -1
        self._clear()

    def _clear(self) -> None:
        self._first: int | None = None
        self._sums: dict[int, tuple[float, int]] = {}
        self.steps, self.seconds = 0, 0.0
        self._phases = dict.fromkeys(PHASES, 0.0)
        self._whole_s = 0.0
        self.batch_size: int | None = None
        self.world_size: int | None = None
        self.framework = ""
        self.last: int = -1

    def update(self, event: Event) -> None:
        """Hear an event of the job."""
        if not isinstance(event, StepTimings | JobDescribed) or event.attempt < self._attempt:
            return
        if event.attempt > self._attempt:
            self._attempt = event.attempt
            self._clear()
        if isinstance(event, JobDescribed):
            self.batch_size = event.batch_size or self.batch_size
            self.world_size, self.framework = event.world_size, event.framework
        else:
            step, step_s = _array(event.step), _array(event.step_s)
            if step.size and step.size == step_s.size:
                self._add(step, step_s, _left_out(event.left_out, step.size))
                self._share(step, step_s, event.phases)

    def _add(self, step: _Array, step_s: _Array, left_out: _Array) -> None:
        self._first = int(step.min()) if self._first is None else min(self._first, int(step.min()))
        self.last = max(self.last, int(step.max()))
        counted = self._counted(step, step_s)
        rows = zip(
            step[counted].astype(int).tolist(), step_s[counted].tolist(), left_out[counted].tolist(), strict=True
        )
        for number, seconds, untold in rows:
            if number not in self._sums:
                self.steps += 1
                self.seconds += seconds * (1 + untold)
            total, ranks = self._sums.get(number, (0.0, 0))
            self._sums[number] = total + seconds, ranks + 1
        while len(self._sums) > MOST_STEPS:
            del self._sums[next(iter(self._sums))]

    def _counted(self, step: _Array, step_s: _Array) -> NDArray[np.bool_]:
        counted: NDArray[np.bool_] = (step >= (self._first or 0) + self._warm_up) & (step_s > 0) & (step_s < np.inf)
        return counted

    def _share(self, step: _Array, step_s: _Array, phases: Mapping[str, Column]) -> None:
        counted = self._counted(step, step_s)
        self._whole_s += float(step_s[counted].sum())
        for name in PHASES:
            column = _array(phases[name]) if name in phases else None
            if column is not None and column.size == step.size:
                self._phases[name] += float(np.nansum(column[counted]))

    @property
    def begun(self) -> bool:
        """Whether any step has ended."""
        return self._first is not None

    @property
    def step_s(self) -> list[float]:
        """Seconds of each step after the warm-up, in order."""
        return [total / ranks for _, (total, ranks) in sorted(self._sums.items())]

    @property
    def shares(self) -> dict[str, float]:
        """Which share of a step each phase takes."""
        if self._whole_s <= 0:
            return {}
        told = {name: min(max(spent / self._whole_s, 0.0), 1.0) for name, spent in self._phases.items()}
        return {name: round(share, 4) for name, share in told.items() if share >= 0.0005}


def _array(column: Column) -> _Array:
    return np.frombuffer(column.data, "<" + column.type).astype(np.float64)


def _left_out(column: Column | None, size: int) -> _Array:
    """Steps that go untold after each; none where nobody says so."""
    told = np.zeros(0) if column is None else _array(column)
    return np.clip(np.nan_to_num(told), 0, MOST_LEFT_OUT) if told.size == size else np.zeros(size)
