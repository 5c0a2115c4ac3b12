"""One episode of one rank: its state, its cost so far, and when it is worth saying something new.

Rule of this file: data and small steps of it; the statistics are in lateness, the words in wording.
"""

import hashlib

import msgspec

from paceline.events import Cause

from .lifecycle import State


class Episode(msgspec.Struct, kw_only=True):
    """What is remembered of an episode while it lasts."""

    rank: int
    first_step: int
    last_step: int
    state: State | None = None
    revision: int = 0
    cause: Cause = "unknown"
    cause_share: float = 0.0
    #: Ticks on end in which another cause was the better one: a cause changes only when that lasts.
    cause_doubt: int = 0
    ticks: int = 0
    next_update: int = 0
    lost_s: float = 0.0
    span_s: float = 0.0
    evidence: dict[str, float] = {}

    def lasts(self, last_step: int, span_s: float, excess_ratio: float) -> None:
        """Another tick of ``span_s`` seconds in which the step was lengthened by ``excess_ratio`` of its base."""
        ratio = max(excess_ratio, 0.0)
        self.last_step = last_step
        self.ticks += 1
        self.span_s += span_s
        self.lost_s += span_s * ratio / (1.0 + ratio)

    def due(self) -> bool:
        """Whether the episode has grown enough for a new revision: at every doubling of its length."""
        if self.ticks < self.next_update:
            return False
        self.next_update = 2 * max(self.ticks, 1)
        return True


def finding_id(cluster: str, job: str, attempt: int, kind: str, subject: str, first_step: int) -> str:
    """The id of an episode: a function of what it is about, so every replay gives the same.

    >>> finding_id("default", "demo", 0, "straggler", "rank 2", 61)
    'straggler-0ebee0f92a8738f4'
    """
    text = "\x1f".join((cluster, job, str(attempt), kind, subject, str(first_step)))
    return f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
