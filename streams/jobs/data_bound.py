"""Does the whole job wait for its input: every rank alike spends much of the step on it.

Rule of this file: pure arithmetic over windows. The rank that waits least for its input decides: the others may be
waiting for it. It accuses no rank.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from paceline.words import step_time

from ..episodes.finding import Said, Subject, number
from ..episodes.tracker import Episode, Measured
from ..robust import nanmedian
from ..stored import Kept, Stored
from .job_episodes import JobEpisodes, Sight
from .window_sums import DATA, PREPARE, WindowSums

#: A job has one input.
_JOB = "input"


@dataclass(frozen=True)
class InputConfig:
    """A job is bound by its input when every rank spends ``least_share`` of the step on it."""

    least_share: float = 0.3


class InputEvidence(Measured, frozen=True, kw_only=True):
    """Shares of the step spent on input, of the median rank and of the one with least; the median rank's seconds."""

    share: float
    least_share: float
    fetched_s: float


InputEpisode = Episode[str, InputEvidence]


class DataBound(Stored):
    """The input of one job, quick enough or not."""

    episodes: Kept[JobEpisodes[Any, Any]]

    def __init__(self, config: InputConfig) -> None:
        self.config = config
        self.episodes = JobEpisodes(InputEpisode)

    def update(self, sums: WindowSums, accused: set[int], has_loader: bool) -> InputEpisode | None:
        """Take in one window; the episode where it has something new to tell."""
        total = sums.seconds[-1]
        fetched = sums.seconds[DATA] + (0.0 if has_loader else sums.seconds[PREPARE])
        heard = (total > 0) & ~np.isin(np.arange(total.size), list(accused))
        if not heard.any():
            return None
        shares = fetched[heard] / total[heard]
        least, middle = float(shares.min()), float(nanmedian(shares))
        fetched_s = float(np.median(fetched[heard])) / sums.steps
        evidence = InputEvidence(share=middle, least_share=least, fetched_s=fetched_s)
        sight = Sight(least, self.config.least_share, middle / max(1 - middle, 0.01), "input_pipeline")
        return self.episodes.push(_JOB, sums.window, sight, evidence)


def said(episode: InputEpisode, config: InputConfig) -> Said:
    """What is said of a job all of whose ranks wait for their input."""
    seen = episode.measured
    rule = f"the rank that spends least on its input decides; reported from {config.least_share:.0%}"
    evidence = [
        number("input_share", seen.share, "ratio", None, "median rank's share of the step spent on input"),
        number("least_input_share", seen.least_share, "ratio", None, rule),
        number("input_time", seen.fetched_s, "s/step", None, "median rank"),
    ]
    summary = (
        f"Every rank spends {seen.least_share:.0%} or more of its step on input ({step_time(seen.fetched_s)} on "
        f"the median rank), since about step {episode.first_step}: the job is bound by its data. "
        "Use more loader workers, prefetch, or store the data nearer."
    )
    return Said(Subject("data_bound", "input"), evidence, summary, ("the computing of every rank",))
