"""Which cluster's job a name means, where several clusters on the same brokers have a job of that name.

Rule of this file: pure. A job that runs is meant rather than one that has ended, and that rather than one of which only
thresholds or a plan are known.
"""

from collections.abc import Sequence
from typing import NamedTuple

from paceline.words import joined


class JobClusters(NamedTuple):
    """The clusters in which a job of one name runs, has ended, or was only named: by thresholds or a plan.

    >>> JobClusters(["east"], ["west"], []).meant, JobClusters([], [], []).meant
    (['east'], [])
    >>> JobClusters(["east", "west"], [], []).ambiguity("train")
    "'train' runs in east and west: name one with cluster=..."
    >>> JobClusters(["east"], ["west"], []).ambiguity("train") is None
    True
    """

    running: Sequence[str]
    ended: Sequence[str]
    named: Sequence[str]

    @property
    def meant(self) -> Sequence[str]:
        """Those that a name without a cluster may mean: one, several where it is ambiguous, none of an unknown job."""
        return self.running or self.ended or self.named

    def ambiguity(self, job: str) -> str | None:
        """Why ``job`` by its name alone means none, with the fix; None where it does."""
        if len(self.meant) < 2:
            return None
        state = "runs" if self.running else "has ended" if self.ended else "is known"
        return f"{job[:100]!r} {state} in {joined(self.meant)}: name one with cluster=..."
