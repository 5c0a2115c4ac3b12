"""The rank that a finding accuses: where it runs, and how it is named.

Rule of this file: words only, the same for every detector that accuses a rank.
"""

from typing import Any, NamedTuple

from ..episodes.finding import Subject
from ..episodes.tracker import Episode


class AccusedRank(NamedTuple):
    """One rank, and what is known of its place in the job."""

    rank: int
    node: str = ""
    device: str = ""
    stage: int | None = None
    group: str | None = None

    def words(self) -> str:
        """The rank in a sentence."""
        return f"Rank {self.rank}" + (f" on {self.node}" if self.node else "")

    def subject(self, what: str = "") -> Subject:
        """The subject of a finding on the rank, or on ``what`` of it."""
        name = f"rank {self.rank}" + (f" in {self.group}" if self.group else "") + (f" {what}" if what else "")
        return Subject(
            "straggler",
            name,
            ranks=(self.rank,),
            stage=self.stage,
            group=self.group,
            nodes=(self.node,) if self.node else (),
            devices=(self.device,) if self.device else (),
        )


def back_among_peers(rank: AccusedRank, episode: Episode[Any, Any]) -> str:
    """What is said of a rank whose episode is over."""
    since = f"it was slow from step {episode.first_step}"
    return f"{rank.words()} is back among its peers at step {episode.last_step}; {since}."
