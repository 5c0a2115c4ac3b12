"""Is the work itself uneven: a pipeline stage that is longer, sequences of unequal length, data that comes too slowly.

Rule of this file: sums over windows of ticks, for the three detectors that judge them. These accuse no rank: they say
that the cut of the model or of the data is to blame, and clear the hardware of it.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from paceline.events import OPS

from ..robust import Array, known_or_zero, nanmedian
from .cohorts import Cohorts
from .data_bound import DataBound, InputConfig, InputEpisode
from .data_imbalance import DataConfig, DataEpisode, DataImbalance
from .job_episodes import JudgedWindow
from .stage_imbalance import StageConfig, StageEpisode, StageImbalance
from .steps import Step
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


class Structure:
    """Steps and ticks of one job in, episodes of the three kinds out."""

    def __init__(self, config: StructureConfig, cohorts: Cohorts) -> None:
        self.config = config
        self.cohorts = cohorts
        self.stages = StageImbalance(config.stages, cohorts)
        self.data = DataImbalance(config.data)
        self.input = DataBound(config.input)
        self._clear()

    def _clear(self) -> None:
        self.ticks = 0
        self.steps = 0
        self.first_step = -1
        self.span_s = self.lasted_s = 0.0
        self.seconds = np.zeros((len(OPS), 0))
        self.pairs = np.zeros((len(PAIR_SUMS), 0))
        self.held_back_s = 0.0

    def add_step(self, step: Step) -> None:
        """Take in one step: its pairs of forward and backward times."""
        ranks = step.seconds.shape[1]
        if ranks > self.pairs.shape[1]:
            self.pairs = np.pad(self.pairs, ((0, 0), (0, ranks - self.pairs.shape[1])))
        rank, forward, backward = self._pairs_of(step)
        if not rank.size:
            return
        scale_f, scale_b = self._scales(rank, forward, ranks), self._scales(rank, backward, ranks)
        f, b = forward / scale_f[rank], backward / scale_b[rank]
        sound = np.isfinite(f) & np.isfinite(b)
        rank, f, b = rank[sound], f[sound], b[sound]
        for row, values in enumerate((np.ones(rank.size), f, b, f * f, b * b, f * b)):
            self.pairs[row, :ranks] += np.bincount(rank, weights=values, minlength=ranks)
        self.held_back_s += self._held_back(step.seconds[list(COMPUTE)].sum(axis=0))

    def _pairs_of(self, step: Step) -> tuple[Any, Array, Array]:
        if step.pairs is not None and step.pairs.rank.size:
            return step.pairs.rank, step.pairs.forward, step.pairs.backward
        forward, backward = step.seconds[FORWARD], step.seconds[BACKWARD]
        rank = np.flatnonzero((forward > 0) & (backward > 0))
        return rank, forward[rank], backward[rank]

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

    def _held_back(self, compute: Array) -> float:
        """Seconds that this step would be shorter if its data were cut evenly: the worst stage's maximum over mean."""
        worst = 0.0
        for group in self.cohorts.groups(compute.size):
            mine = compute[group][~np.isnan(compute[group])]
            if mine.size > 1:
                worst = max(worst, float(mine.max() - mine.mean()))
        return worst

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
        self._clear()
        return told

    def snapshot(self) -> dict[str, Any]:
        """The state as plain data and arrays."""
        return {
            "stages": self.stages.snapshot(),
            "data": self.data.snapshot(),
            "input": self.input.snapshot(),
            "ticks": self.ticks,
            "steps": self.steps,
            "first_step": self.first_step,
            "span_s": self.span_s,
            "lasted_s": self.lasted_s,
            "seconds": self.seconds,
            "pairs": self.pairs,
            "held_back_s": self.held_back_s,
        }

    def load(self, data: dict[str, Any]) -> None:
        """Take the state that ``snapshot`` described."""
        self.stages.load(data["stages"])
        self.data.load(data["data"])
        self.input.load(data["input"])
        self.ticks, self.steps, self.first_step = data["ticks"], data["steps"], data["first_step"]
        self.span_s, self.lasted_s, self.held_back_s = data["span_s"], data["lasted_s"], data["held_back_s"]
        self.seconds, self.pairs = data["seconds"], data["pairs"]
