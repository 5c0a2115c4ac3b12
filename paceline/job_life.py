"""Whether an attempt of a job goes on, from what its nodes say of it.

Rule of this file: pure and bounded. Each node's sidecar speaks for its own ranks, in any order and more than once; a
job has ended when all nodes that ever spoke have left, and how is told by an exit status that is not 0, if any.
"""

from dataclasses import dataclass, field

from paceline.events import JobDescribed

#: Nodes of one job that are known by name; no job has more.
MOST_NODES = 20_000


@dataclass
class JobLife:
    """One attempt of a job: its nodes, each with the time when its ranks left, None while they are there."""

    attempt: int
    nodes: dict[str, float | None] = field(default_factory=dict)
    exit_status: int | None = None

    def update(self, event: JobDescribed) -> None:
        """Take what one node says; what it says of another attempt is passed over."""
        if event.attempt != self.attempt:
            return
        if event.node in self.nodes or len(self.nodes) < MOST_NODES:
            self.nodes[event.node] = event.ended_s
        if event.exit_status or self.exit_status is None:
            self.exit_status = event.exit_status

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
