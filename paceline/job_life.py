"""Whether an attempt of a job goes on, and in which stages its ranks are, from what its nodes say of it.

Rule of this file: pure and bounded. Each node's sidecar speaks for its own ranks, in any order and more than once; a
job has ended when all nodes that ever spoke have left, and how is told by an exit status that is not 0, if any. Who
died without a word, and whose ranks another has started since (a pod that was killed, and the next one), has left.
Two runs may have one name by mistake: what is measured well after the end is of the one that goes on.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from paceline.events import JobDescribed

#: Nodes of one job that are known by name; no job has more.
MOST_NODES = 20_000
#: What begins so long after the end of a job shows that it runs: clocks of nodes are closer than that.
BEYOND_S = 20.0


def stages_of(parts: Iterable[JobDescribed]) -> dict[int, int]:
    """By rank its pipeline stage, where that is known, from what the nodes of one job say."""
    return {place.rank: place.pp for part in parts for place in part.places if place.pp is not None}


@dataclass
class JobLife:
    """One attempt of a job: its nodes, or parts of them, each with the time when its ranks left, None before."""

    attempt: int
    nodes: dict[str, float | None] = field(default_factory=dict)
    exit_status: int | None = None
    #: By the lowest rank that it speaks for: who started last, and when.
    speakers: dict[int, tuple[str, float]] = field(default_factory=dict)

    def update(self, event: JobDescribed) -> None:
        """Take what one node says; what it says of another attempt is passed over."""
        if event.attempt != self.attempt:
            return
        if self._is_replaced(event) and not self._ran_beside(event):
            self.nodes.pop(event.teller, None)
            return
        if event.teller in self.nodes or len(self.nodes) < MOST_NODES:
            self.nodes[event.teller] = event.ended_s
        if event.exit_status or self.exit_status is None:
            self.exit_status = event.exit_status

    def _is_replaced(self, event: JobDescribed) -> bool:
        """Whether somebody else has started the ranks of ``event`` since; whom ``event`` replaces is forgotten."""
        lowest = min((place.rank for place in event.places), default=None)
        if lowest is None:
            return False
        teller, started_s = self.speakers.get(lowest, (event.teller, event.started_s))
        if teller != event.teller and event.started_s < started_s:
            return True
        if (
            teller != event.teller
            and event.started_s > started_s
            and not (self.nodes.get(teller) or 0.0) > event.started_s
        ):
            self.nodes.pop(teller, None)
        if lowest in self.speakers or len(self.speakers) < MOST_NODES:
            self.speakers[lowest] = event.teller, event.started_s
        return False

    def _ran_beside(self, event: JobDescribed) -> bool:
        """Whether ``event`` is the goodbye of one that ran when somebody else started its ranks as well."""
        lowest = min(place.rank for place in event.places)
        return event.ended_s is not None and event.ended_s > self.speakers[lowest][1]

    def ended_by(self, measured_s: float | None) -> float | None:
        """When it ended; None as well where something that began at ``measured_s`` shows that a run goes on.

        >>> life = JobLife(0, {"a": 5.0})
        >>> life.ended_by(6.0), life.ended_by(26.0), life.ended_by(None)
        (5.0, None, 5.0)
        """
        ended_s = self.ended_s
        goes_on = ended_s is not None and measured_s is not None and measured_s > ended_s + BEYOND_S
        return None if goes_on else ended_s

    def succeeded_by(self, event: JobDescribed) -> bool:
        """Whether ``event`` is of a later attempt, or of another run of this name that began after this one's end."""
        ended_s = self.ended_s
        return event.attempt > self.attempt or (ended_s is not None and event.started_s > ended_s)

    @property
    def ended_s(self) -> float | None:
        """When the last node's ranks left; None while some are there, or where nobody has spoken.

        >>> life = JobLife(0, {"a": 5.0, "b": None})
        >>> life.ended_s
        >>> JobLife(0, {"a": 5.0, "b": 7.0}).ended_s
        7.0
        """
        ends = [end for end in self.nodes.values() if end is not None]
        return max(ends) if ends and len(ends) == len(self.nodes) else None
