"""Is enough heard of the job to judge it: ranks that are expected and never spoke.

Rule of this file: pure counting. It is reported once the job has run for a while without them.
"""

from typing import Any

from paceline.events import Coverage

from ..episodes.finding import Said, Subject, number
from ..episodes.tracker import Episode, Measured
from ..stored import Kept, Stored
from .job_episodes import JobEpisodes, JudgedWindow, Sight
from .ticks import Tick

#: A job has one set of ranks.
_JOB = "ranks"

SilenceEpisode = Episode[str, Measured]


class Silence(Stored):
    """The ranks of one job that are missing.

    Args:
        after_steps: steps after which a rank that is missing is reported.
    """

    steps: Kept[int]
    episodes: Kept[JobEpisodes[Any, Any]]

    def __init__(self, after_steps: int) -> None:
        self.after_steps = after_steps
        self.steps = 0
        self.episodes = JobEpisodes(SilenceEpisode)

    def count_step(self) -> None:
        """Another step has been heard."""
        self.steps += 1

    def update(self, tick: Tick, coverage: Coverage) -> SilenceEpisode | None:
        """Take in one tick; the episode where it has something new to tell."""
        if self.steps < self.after_steps:
            return None
        window = JudgedWindow(tick.first_step, tick.last_step, tick.span_s)
        missing = float(coverage.ranks_heard < coverage.ranks_expected)
        return self.episodes.push(_JOB, window, Sight(missing, 1.0, 0.0, "unknown"), Measured())


def said(coverage: Coverage) -> Said:
    """What is said of a job that is heard in part."""
    missing = coverage.ranks_expected - coverage.ranks_heard
    evidence = [number("ranks_heard", coverage.ranks_heard, "ranks", coverage.ranks_expected, "reported, of expected")]
    summary = (
        f"{missing} of {coverage.ranks_expected} ranks have not reported: verdicts cover only the others. "
        "Check that every node runs `paceline run` and reaches the same Kafka."
    )
    over = f"All {coverage.ranks_expected} ranks have reported: verdicts cover the whole job."
    return Said(Subject("insufficient_data", "ranks"), evidence, summary, over=over)
