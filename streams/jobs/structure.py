"""Is the work itself uneven: a pipeline stage that is longer, sequences of unequal length, data that comes too slowly.

Rule of this file: pure arithmetic over windows of ticks. These verdicts accuse no rank: they say that the cut of the
model or of the data is to blame, and clear the hardware of it.

* **stage_imbalance**: the longest stage's compute over the mean of all stages. In ByteDance's study of 3,079 jobs the
  last stage was the most common reason for a slow job (39 %, OSDI'25).
* **data_imbalance**: forward and backward times of the same micro-batch (or step) vary together, within each rank, by
  more than noise does: long sequences are long in both (the study's rule, correlation from 0.9; 21 % of jobs).
* **data_bound**: every rank alike spends much of the step on its input.
"""

from typing import Any

import numpy as np

from ..episodes.episode import Episode
from ..robust import Array, nanmedian
from ..row_arrays import OP_INDEX
from .cohorts import Cohorts
from .config import Config
from .job_episodes import Standing, Window
from .steps import Step
from .ticks import Tick

_COMPUTE = [OP_INDEX["forward"], OP_INDEX["backward"]]
_FORWARD, _BACKWARD, _DATA, _PREPARE = (OP_INDEX[name] for name in ("forward", "backward", "data", "prepare"))
#: Sums over pairs of forward and backward times of one rank: count, f, b, ff, bb, fb.
_SUMS = 6


class Structure:
    """Ticks and steps of one job in, episodes of the three kinds out."""

    def __init__(self, config: Config, cohorts: Cohorts) -> None:
        self.config = config
        self.cohorts = cohorts
        self.standing = Standing()
        self._clear()

    def _clear(self) -> None:
        self.ticks = 0
        self.steps = 0
        self.first_step = -1
        self.span_s = 0.0
        self.seconds = np.zeros((0, 0))
        self.pairs = np.zeros((_SUMS, 0))
        self.lost_s = 0.0

    def step(self, step: Step) -> None:
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
        self.lost_s += self._held_back(step.seconds[_COMPUTE].sum(axis=0))

    def _pairs_of(self, step: Step) -> tuple[Any, Array, Array]:
        if step.pairs is not None and step.pairs.rank.size:
            return step.pairs.rank, step.pairs.forward, step.pairs.backward
        forward, backward = step.seconds[_FORWARD], step.seconds[_BACKWARD]
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
                out[group] = np.median(mine)
        return out

    def _held_back(self, compute: Array) -> float:
        """Seconds that this step would be shorter if its data were cut evenly: the worst stage's maximum over mean."""
        worst = 0.0
        for group in self.cohorts.groups(compute.size):
            mine = compute[group][~np.isnan(compute[group])]
            if mine.size > 1:
                worst = max(worst, float(mine.max() - mine.mean()))
        return worst

    def tick(self, tick: Tick, accused: set[int], has_loader: bool) -> list[tuple[str, Episode]]:
        """Take in one tick; (kind, episode) of what has something new to tell.

        Args:
            tick: the tick.
            accused: ranks that a verdict of their own explains.
            has_loader: time before the forward that a loader does not account for is no input then.
        """
        if self.ticks == 0:
            self.first_step = tick.first_step
        ranks = tick.seconds.shape[1]
        if self.seconds.shape[1] < ranks:
            grown = np.zeros((tick.seconds.shape[0], ranks))
            grown[: self.seconds.shape[0], : self.seconds.shape[1]] = self.seconds
            self.seconds = grown
        self.seconds[:, :ranks] += np.nan_to_num(tick.seconds) * tick.steps
        self.ticks, self.steps, self.span_s = self.ticks + 1, self.steps + tick.steps, self.span_s + tick.span_s
        long = self.span_s >= self.ticks * self.config.long_tick_s
        ticks, steps = (self.config.window_long,) * 2 if long else (self.config.window_ticks, self.config.window_steps)
        if self.ticks < ticks or self.steps < steps:
            return []
        window = Window(self.first_step, tick.last_step, self.span_s)
        told = [*self._stages(window, accused), *self._data(window, accused), *self._input(window, accused, has_loader)]
        self._clear()
        return told

    def _stages(self, window: Window, accused: set[int]) -> list[tuple[str, Episode]]:
        stages = self.cohorts.stages()
        if len(stages) < 2:
            return []
        compute = self.seconds[_COMPUTE].sum(axis=0)
        took: dict[int, float] = {}
        for stage, ranks in stages.items():
            heard = [rank for rank in ranks.tolist() if rank < compute.size and compute[rank] > 0]
            sound = [rank for rank in heard if rank not in accused]
            if not sound:
                return []  # all that is known of this stage is a rank that is slow by itself
            took[stage] = float(np.median(compute[sound]))
        mean = float(np.mean(list(took.values())))
        longest = max(took, key=lambda stage: (took[stage], -stage))
        size = took[longest] / mean - 1 if mean > 0 else 0.0
        told = []
        for stage in took:
            subject = f"stage {stage}"
            if stage != longest and subject not in self.standing.episodes:
                continue
            here = size if stage == longest else 0.0
            evidence = {
                "stage": float(stage),
                "took": took[stage] / self.steps,
                "mean": mean / self.steps,
                "shortest": min(took.values()) / self.steps,
            }
            lost = self._ratio(max(took[stage] - mean, 0.0))
            episode = self.standing.see(
                subject, window, here, self.config.least_stage, lost, "pipeline_stage", evidence
            )
            told += [("stage_imbalance", episode)] if episode else []
        return told

    def _ratio(self, lost_s: float) -> float:
        """``lost_s`` of this window as a share of the window without them."""
        return lost_s / max(self.span_s - lost_s, 1e-9)

    def _data(self, window: Window, accused: set[int]) -> list[tuple[str, Episode]]:
        count, f, b, ff, bb, fb = self.pairs
        known = (count >= 3) & ~np.isin(np.arange(count.size), list(accused))
        if known.sum() < 2 or float(count[known].sum()) < self.config.least_pairs:
            return []
        n = count[known]
        # Within each rank, and the median of all ranks: a rank that is slow for good, or turns slow in this window, is
        # no matter of the data, which falls on all ranks in turn.
        var_f = np.maximum(ff[known] - f[known] ** 2 / n, 0.0) / (n - 1)
        var_b = np.maximum(bb[known] - b[known] ** 2 / n, 0.0) / (n - 1)
        cov = (fb[known] - f[known] * b[known] / n) / (n - 1)
        spread = float(np.median(np.sqrt(np.minimum(var_f, var_b))))
        alike = float(np.median(cov / np.sqrt(np.maximum(var_f * var_b, 1e-18))))
        lost = self._ratio(self.lost_s)
        size = min(
            spread / self.config.least_spread,
            lost / self.config.least_excess,
            1.0 if alike >= self.config.least_alike else 0.0,
        )
        evidence = {"spread": spread, "alike": alike, "lost": lost}
        episode = self.standing.see("data", window, size, 1.0, lost, "sequence_length", evidence)
        return [("data_imbalance", episode)] if episode else []

    def _input(self, window: Window, accused: set[int], has_loader: bool) -> list[tuple[str, Episode]]:
        total = self.seconds[-1]
        fetched = self.seconds[_DATA] + (0.0 if has_loader else self.seconds[_PREPARE])
        heard = (total > 0) & ~np.isin(np.arange(total.size), list(accused))
        if not heard.any():
            return []
        share = fetched[heard] / total[heard]
        # The rank that waits least for its input decides: the others may be waiting for it.
        least, middle = float(share.min()), float(nanmedian(share))
        evidence = {"share": middle, "least": least, "fetched": float(np.median(fetched[heard])) / self.steps}
        lost = middle / max(1 - middle, 0.01)
        episode = self.standing.see("input", window, least, self.config.data_bound, lost, "input_pipeline", evidence)
        return [("data_bound", episode)] if episode else []

    _STATE = ("ticks", "steps", "first_step", "span_s", "seconds", "pairs", "lost_s")

    def snapshot(self) -> dict[str, Any]:
        """The state as plain data and arrays."""
        return {"standing": self.standing.snapshot(), **{name: getattr(self, name) for name in self._STATE}}

    def load(self, data: dict[str, Any]) -> None:
        """Take the state that ``snapshot`` described."""
        self.standing.load(data["standing"])
        for name in self._STATE:
            setattr(self, name, data[name])
