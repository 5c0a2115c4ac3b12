"""Is a pipeline cut unevenly: the longest stage's compute over the mean of all stages.

Rule of this file: pure arithmetic over windows. It accuses no rank: the cut of the model is to blame. In ByteDance's
study of 3,079 jobs the last stage was the most common reason for a slow job (39 %, OSDI'25).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from paceline.words import step_time

from ..episodes.finding import Said, Subject, number
from ..episodes.tracker import Episode, Measured
from ..stored import Kept, Stored
from .cohorts import Cohorts
from .job_episodes import JobEpisodes, Sight
from .window_sums import WindowSums

#: Of a pipeline of more stages than this only the longest, the mean and the shortest are told.
MOST_STAGES = 12
#: How evidence of one stage is named, and that of the micro-batches: advice reads them.
STAGE_NAME, MICROBATCHES_NAME = "stage_{}_compute", "microbatches"


@dataclass(frozen=True)
class StageConfig:
    """A stage is longer when its compute is by ``least_excess`` over the mean of all stages."""

    least_excess: float = 0.1


class StageEvidence(Measured, frozen=True, kw_only=True):
    """Seconds a step of forward and backward: the stage's median rank, the mean of all stages, and the shortest.

    ``stages_s`` is of each stage from 0 on, empty where there are too many or one of them was not heard;
    ``microbatches`` of a step, 0 where nobody tells.
    """

    took_s: float
    mean_s: float
    shortest_s: float
    stages_s: tuple[float, ...] = ()
    microbatches: int = 0


StageEpisode = Episode[int, StageEvidence]


class StageImbalance(Stored):
    """The stages of one job, longer than the others or not."""

    episodes: Kept[JobEpisodes[Any, Any]]

    def __init__(self, config: StageConfig, cohorts: Cohorts) -> None:
        self.config = config
        self.cohorts = cohorts
        self.episodes = JobEpisodes(StageEpisode)

    def update(self, sums: WindowSums, accused: set[int]) -> list[StageEpisode]:
        """Take in one window; the episodes that have something new to tell."""
        took_s = self._stages(sums, accused)
        if len(took_s) < 2:
            return []
        mean_s, shortest_s = float(np.mean(list(took_s.values()))), min(took_s.values())
        longest = max(took_s, key=lambda stage: (took_s[stage], -stage))
        excess = took_s[longest] / mean_s - 1 if mean_s > 0 else 0.0
        told = []
        for stage, own_s in took_s.items():
            if stage != longest and stage not in self.episodes.open():
                continue
            evidence = StageEvidence(
                took_s=own_s / sums.steps,
                mean_s=mean_s / sums.steps,
                shortest_s=shortest_s / sums.steps,
                stages_s=_each(took_s, sums.steps),
                microbatches=_microbatches(sums),
            )
            size = excess if stage == longest else 0.0
            lost_ratio = sums.lost_ratio(max(own_s - mean_s, 0.0))
            sight = Sight(size, self.config.least_excess, lost_ratio, "pipeline_stage")
            told.append(self.episodes.push(stage, sums.window, sight, evidence))
        return [episode for episode in told if episode]

    def _stages(self, sums: WindowSums, accused: set[int]) -> dict[int, float]:
        """The compute of each stage's median rank; empty where a stage has only ranks that are slow by themselves."""
        stages, compute = self.cohorts.stages(), sums.compute
        took_s: dict[int, float] = {}
        for stage, ranks in stages.items():
            heard = [rank for rank in ranks.tolist() if rank < compute.size and compute[rank] > 0]
            sound = [rank for rank in heard if rank not in accused]
            if not sound:
                return {}
            took_s[stage] = float(np.median(compute[sound]))
        return took_s


def _each(took_s: dict[int, float], steps: int) -> tuple[float, ...]:
    """Seconds a step of each stage from 0 on; empty where they are too many, or have gaps."""
    if len(took_s) > MOST_STAGES or sorted(took_s) != list(range(len(took_s))):
        return ()
    return tuple(took_s[stage] / steps for stage in sorted(took_s))


def _microbatches(sums: WindowSums) -> int:
    """How many forward and backward passes the median rank told a step; 0 where only whole steps are told."""
    told = sums.pairs[0] / sums.steps
    heard = told[told > 0]
    count = round(float(np.median(heard))) if heard.size else 0
    return count if count > 1 else 0


def said(episode: StageEpisode, config: StageConfig) -> Said:
    """What is said of a stage that is longer than the others."""
    seen, stage = episode.measured, episode.subject
    excess = seen.took_s / seen.mean_s - 1 if seen.mean_s else 0.0
    rule = f"median rank's forward and backward over the mean of all stages; reported from {config.least_excess:.0%}"
    evidence = [
        number("stage_compute", seen.took_s, "s/step", seen.mean_s, rule),
        number("shortest_stage", seen.shortest_s, "s/step", None, "the same of the shortest stage"),
    ]
    each = "forward and backward of that stage's median rank"
    evidence += [
        number(STAGE_NAME.format(index), own_s, "s/step", seen.mean_s, each)
        for index, own_s in enumerate(seen.stages_s)
    ]
    if seen.stages_s and seen.microbatches:
        rule = "passes a step, of the median rank"
        evidence.append(number(MICROBATCHES_NAME, seen.microbatches, "passes/step", None, rule))
    summary = (
        f"Stage {stage} computes {step_time(seen.took_s)} a step where the stages' mean is "
        f"{step_time(seen.mean_s)} ({excess:+.0%}), since about step {episode.first_step}: the model is cut "
        "unevenly. "
        "Move layers from this stage to a shorter one; its GPUs are not to blame."
    )
    cleared = (f"the ranks of stage {stage}: alike among themselves, no change since about step {episode.first_step}",)
    return Said(Subject("stage_imbalance", f"stage {stage}", stage=stage), evidence, summary, cleared)
