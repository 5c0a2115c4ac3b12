"""Is the work itself uneven: a pipeline stage that is longer, sequences of unequal length, data that comes too slowly.

Rule of this file: sums over windows of ticks, for the three detectors that judge them. These accuse no rank: they say
that the cut of the model or of the data is to blame, and clear the hardware of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from paceline.events import OPS

from ..ingest.microbatches import Pairs
from ..ingest.steps import Step
from ..robust import Array, known_or_zero, nanmedian
from ..stored import Kept, Stored
from .cohorts import Cohorts
from .data_bound import DataBound, InputConfig, InputEpisode
from .data_imbalance import DataConfig, DataEpisode, DataImbalance
from .job_episodes import JudgedWindow
from .stage_imbalance import StageConfig, StageEpisode, StageImbalance
from .ticks import LONG_TICK_S, Tick
from .window_sums import BACKWARD, COMPUTE, FORWARD, PAIR_SUMS, WindowSums


@dataclass(frozen=True)
class StructureConfig:
    """Verdicts are given for windows of at least so many ticks and steps; of ``window_long`` ticks where these are
    long, each a step of its own."""

    window_ticks: int = 10
    window_steps: int = 10
    window_long: int = 5
    stages: StageConfig = field(default_factory=StageConfig)
    data: DataConfig = field(default_factory=DataConfig)
    input: InputConfig = field(default_factory=InputConfig)


class StructureEpisodes(NamedTuple):
    """What the three detectors have to tell of one window."""

    stages: list[StageEpisode]
    data: DataEpisode | None
    input: InputEpisode | None


class StepSums(NamedTuple):
    """What a step adds to its window: sums over its pairs by rank, shape (len(PAIR_SUMS), ranks), None where it has no
    pair, and the seconds that uneven data cost it."""

    pairs: Array | None
    held_back_s: float


class Structure(Stored):
    """Steps and ticks of one job in, episodes of the three kinds out."""

    stages: Kept[StageImbalance]
    data: Kept[DataImbalance]
    input: Kept[DataBound]
    ticks: Kept[int]
    steps: Kept[int]
    first_step: Kept[int]
    span_s: Kept[float]
    lasted_s: Kept[float]
    seconds: Kept[Array]
    pairs: Kept[Array]
    held_back_s: Kept[float]

    def __init__(self, config: StructureConfig, cohorts: Cohorts) -> None:
        self.config = config
        self.cohorts = cohorts
        self.stages = StageImbalance(config.stages, cohorts)
        self.data = DataImbalance(config.data)
        self.input = DataBound(config.input)
        self._clear(ranks=0)

    def _clear(self, ranks: int) -> None:
        self.ticks = 0
        self.steps = 0
        self.first_step = -1
        self.span_s = self.lasted_s = 0.0
        self.seconds = np.zeros((len(OPS), ranks))
        self.pairs = np.zeros((len(PAIR_SUMS), ranks))
        self.held_back_s = 0.0

    def sums_of(self, steps: Sequence[Step]) -> list[StepSums]:
        """What each of some steps of equally many ranks adds to the sums of its window."""
        seconds = np.array([step.seconds for step in steps])
        pairs = self._whole_steps(seconds[:, FORWARD], seconds[:, BACKWARD])
        held_back = self._held_back(seconds[:, list(COMPUTE)].sum(axis=1))
        return [
            StepSums(
                self._microbatches(step.pairs, seconds.shape[2]) if step.pairs and step.pairs.rank.size else one, held
            )
            for step, one, held in zip(steps, pairs, held_back, strict=True)
        ]

    def add(self, sums: StepSums) -> None:
        """Take in a step by what it adds."""
        if sums.pairs is None:
            return
        ranks = sums.pairs.shape[1]
        if ranks > self.pairs.shape[1]:
            self.pairs = np.pad(self.pairs, ((0, 0), (0, ranks - self.pairs.shape[1])))
        self.pairs[:, :ranks] += sums.pairs
        self.held_back_s += sums.held_back_s

    def _whole_steps(self, forward: Array, backward: Array) -> list[Array | None]:
        """The sums of steps with one pair a rank: seconds of shape (steps, ranks); None for one without any."""
        told = (forward > 0) & (backward > 0)
        f, b = (
            np.where(told, values, np.nan) / self._medians(np.where(told, values, np.nan))
            for values in (forward, backward)
        )
        sound = np.isfinite(f) & np.isfinite(b)
        f, b = np.where(sound, f, 0.0), np.where(sound, b, 0.0)
        sums = np.stack([sound, f, b, f * f, b * b, f * b], axis=1)
        some = np.asarray(told.any(axis=1)).tolist()
        return [one if any_ else None for one, any_ in zip(sums, some, strict=True)]

    def _medians(self, values: Array) -> Array:
        """For each rank the median of its cohort, of at least two: shape (steps, ranks)."""
        out = np.full(values.shape, np.nan)
        for group in self.cohorts.groups(values.shape[1]):
            mine = values[:, group]
            out[:, group] = np.where((~np.isnan(mine)).sum(axis=1) > 1, nanmedian(mine, axis=1), np.nan)[:, None]
        return out

    def _microbatches(self, pairs: Pairs, ranks: int) -> Array:
        """The sums of a step that has several pairs a rank."""
        rank, forward, backward = pairs
        f, b = forward / self._scales(rank, forward, ranks)[rank], backward / self._scales(rank, backward, ranks)[rank]
        sound = np.isfinite(f) & np.isfinite(b)
        rank, f, b = rank[sound], f[sound], b[sound]
        rows = (np.ones(rank.size), f, b, f * f, b * b, f * b)
        return np.array([np.bincount(rank, weights=values, minlength=ranks) for values in rows])

    def _scales(self, rank: Any, values: Array, ranks: int) -> Array:
        """The median of this step's ``values`` in each rank's cohort, for each rank."""
        out = np.full(ranks, np.nan)
        groups = self.cohorts.groups(ranks)
        cohort = np.empty(ranks, dtype=np.int64)
        for number, group in enumerate(groups):
            cohort[group] = number
        of = cohort[rank]
        for number, group in enumerate(groups):
            mine = values[of == number] if len(groups) > 1 else values
            if mine.size > 1:
                out[group] = nanmedian(mine)
        return out

    def _held_back(self, compute: Array) -> list[float]:
        """Seconds that each step would be shorter if its data were cut evenly: the worst stage's maximum over mean.

        Args:
            compute: seconds, shape (steps, ranks).
        """
        worst = np.zeros(len(compute))
        for group in self.cohorts.groups(compute.shape[1]):
            mine = compute[:, group]
            if np.isnan(mine).any():
                held = np.array([_over_mean(row[~np.isnan(row)]) for row in mine])
            else:
                held = mine.max(axis=1) - mine.mean(axis=1) if group.size > 1 else np.zeros(len(mine))
            worst = np.maximum(worst, held)
        return [float(one) for one in worst]

    def update(self, tick: Tick, accused: set[int], has_loader: bool) -> StructureEpisodes | None:
        """Take in one tick; what has something new to tell, where it ends a window.

        Args:
            tick: the tick.
            accused: ranks that a verdict of their own explains.
            has_loader: time before the forward that a loader does not account for is no input then.
        """
        if self.ticks == 0:
            self.first_step = tick.first_step
        ranks = tick.seconds.shape[1]
        if self.seconds.shape[1] < ranks:
            self.seconds = np.pad(self.seconds, ((0, 0), (0, ranks - self.seconds.shape[1])))
        self.seconds[:, :ranks] += known_or_zero(tick.seconds) * tick.steps
        self.ticks, self.steps, self.span_s = self.ticks + 1, self.steps + tick.steps, self.span_s + tick.span_s
        self.lasted_s += tick.lasted_s
        long = self.span_s >= self.ticks * LONG_TICK_S
        ticks, steps = (self.config.window_long,) * 2 if long else (self.config.window_ticks, self.config.window_steps)
        if self.ticks < ticks or self.steps < steps:
            return None
        window = JudgedWindow(self.first_step, tick.last_step, self.span_s, self.lasted_s / max(self.span_s, 1e-9))
        sums = WindowSums(window, self.steps, self.seconds, self.pairs, self.held_back_s)
        told = StructureEpisodes(
            self.stages.update(sums, accused),
            self.data.update(sums, accused),
            self.input.update(sums, accused, has_loader),
        )
        self._clear(ranks)
        return told


def _over_mean(values: Array) -> float:
    return float(values.max() - values.mean()) if values.size > 1 else 0.0
