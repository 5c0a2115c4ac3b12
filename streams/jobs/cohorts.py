"""Cohorts: which ranks do equal work, and what each rank is compared with.

Rule of this file: pure. Ranks of one pipeline stage do equal work; where no stages are known, all ranks do. A rank that
is alone in its stage has no peer, so it is compared with its own past, scaled by how everybody else has changed since:
a stage that is simply longer stays what it was, and only a rank that turns slow stands out.

The ranks of one pipeline, a stage each, are fed the same micro-batches: what makes all of them slow at once is data.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..robust import Array, nanmedian, peers_median
from ..stored import Kept, Stored

Ints = NDArray[np.int64]

#: Ticks that make up a lone rank's past.
PAST = 20


class Cohorts(Stored):
    """The stages of a job's ranks, and the past of those that are alone in theirs."""

    stage: Kept[Ints]
    pipeline: Kept[Ints]
    past: Kept[Array]

    def __init__(self) -> None:
        self.stage = np.empty(0, dtype=np.int64)
        self.pipeline = np.empty(0, dtype=np.int64)
        self.past = np.empty((0, 0, 0))  # ticks x rows x ranks
        self._groups: list[Ints] | None = None
        self._pipelines: list[Ints] | None = None
        self._stages: dict[int, Ints] | None = None

    def place(self, ranks: Sequence[int], stages: Sequence[int], pipelines: Sequence[int]) -> None:
        """Take down the pipeline stage of each of ``ranks``, and which pipeline it is of; -1 for none known."""
        if not stages:
            return
        at = np.asarray(ranks, dtype=np.int64)
        places = np.array([stages, pipelines], dtype=np.int64)
        if at.size and int(at.max()) >= self.stage.size:
            # Room for half as many again: thousands of nodes join one by one.
            more = max(int(at.max()) + 1, self.stage.size * 3 // 2) - self.stage.size
            self.stage = np.pad(self.stage, (0, more), constant_values=-1)
            self.pipeline = np.pad(self.pipeline, (0, more), constant_values=-1)
        if (self.stage[at] != places[0]).any() or (self.pipeline[at] != places[1]).any():
            self.stage[at], self.pipeline[at] = places
            self._groups = self._pipelines = self._stages = None

    @property
    def staged(self) -> bool:
        """Whether the job is a pipeline: more than one stage is known."""
        return len(self.stages()) > 1

    def stages(self) -> dict[int, Ints]:
        """The ranks of each known stage."""
        if self._stages is None:
            numbers = np.unique(self.stage[self.stage >= 0])
            self._stages = {int(stage): np.flatnonzero(self.stage == stage) for stage in numbers}
        return self._stages

    def stage_of(self, rank: int) -> int | None:
        """The stage of ``rank``; None where no stages are known."""
        stage = int(self.stage[rank]) if rank < self.stage.size else -1
        return stage if stage >= 0 else None

    def groups(self, ranks: int) -> list[Ints]:
        """The cohorts of the first ``ranks`` ranks; those of no known stage are one."""
        if self._groups is None or sum(group.size for group in self._groups) != ranks:
            stage = np.full(ranks, -1, dtype=np.int64)
            placed = min(ranks, self.stage.size)
            stage[:placed] = self.stage[:placed]
            self._groups = [np.flatnonzero(stage == number) for number in np.unique(stage)]
        return self._groups

    def peers(self, values: Array) -> Array:
        """For each rank the median of the others of its cohort; NaN where it is alone.

        Args:
            values: shape (ranks,) or (rows, ranks).
        """
        groups = self.groups(values.shape[-1])
        if len(groups) == 1:
            return peers_median(values)
        out = np.full(values.shape, np.nan)
        for group in groups:
            out[..., group] = peers_median(values[..., group])
        return out

    def shared(self, values: Array) -> Array:
        """For each rank the median of the others of its pipeline; NaN where there are none.

        Args:
            values: shape (ranks,) or (rows, ranks).
        """
        out = np.full(values.shape, np.nan)
        if not self.staged:
            return out
        if self._pipelines is None:
            numbers = np.unique(self.pipeline[self.pipeline >= 0])
            self._pipelines = [np.flatnonzero(self.pipeline == number) for number in numbers]
        for members in self._pipelines:
            heard = members[members < values.shape[-1]]
            out[..., heard] = peers_median(values[..., heard])
        return out

    def expect(self, rows: Array) -> Array:
        """What each lone rank would show by its own past: shape of ``rows``, NaN where there are peers, or no past.

        The first ``PAST`` ticks become the past. A rank's own past is scaled by the median change of all other ranks,
        taken over the first row.

        Args:
            rows: seconds, shape (ticks, rows, ranks); the first row is the whole.
        """
        groups = self.groups(rows.shape[2])
        alone = np.concatenate([group for group in groups if group.size == 1] or [np.empty(0, dtype=np.int64)])
        if len(groups) == 1 or not alone.size:
            return np.full(rows.shape, np.nan)
        return np.stack([self._expect(tick, alone) for tick in rows])

    def _expect(self, rows: Array, alone: Ints) -> Array:
        out = np.full(rows.shape, np.nan)
        if self.past.shape[0] < PAST:
            self._remember(rows)
            return out
        before = nanmedian(self.past, axis=0)
        remembered = min(before.shape[1], rows.shape[1])
        ratio = np.full(rows.shape[1], np.nan)
        ratio[:remembered] = rows[0, :remembered] / np.where(before[0, :remembered] > 0, before[0, :remembered], np.nan)
        scale = peers_median(ratio)
        for rank in alone[alone < remembered]:
            out[:, rank] = before[:, rank] * scale[rank]
        return out

    def _remember(self, rows: Array) -> None:
        ranks = max(self.past.shape[2], rows.shape[1])
        kept = np.full((self.past.shape[0] + 1, rows.shape[0], ranks), np.nan)
        if self.past.size:
            kept[:-1, :, : self.past.shape[2]] = self.past
        kept[-1, :, : rows.shape[1]] = rows
        self.past = kept

    def loaded(self) -> None:
        """Work out again what follows from the state."""
        self._groups = self._pipelines = self._stages = None
