"""How far each rank has come in its collectives: the latest of each group, and when it was in any of them.

Rule of this file: pure. It speaks of all collectives since the message before, also of those in no step.
"""

from paceline.sidecar.columns import MOST_WORDS
from paceline.sidecar.rank_rows import CollectiveRow


class Span:
    """One rank's collectives since the message before: the first start, the last end, and the seconds stood waiting."""

    __slots__ = ("first_s", "last_s", "waited_s")

    def __init__(self, first_s: float) -> None:
        self.first_s = self.last_s = first_s
        self.waited_s = 0.0


class Progress:
    """Told each rank's collectives, until the next message takes it along."""

    def __init__(self) -> None:
        #: Rank -> group -> number of its latest collective there; rank -> its span.
        self.reached: dict[int, dict[str, int]] = {}
        self.spans: dict[int, Span] = {}
        #: Group -> its size.
        self.sizes: dict[str, int] = {}
        self.longest_wait_s = 0.0

    def update(self, rank: int, row: CollectiveRow) -> None:
        """One collective of ``rank``."""
        _, seq, group, group_size, _, _, start_s, duration_s, wait_s = row
        reached = self.reached.get(rank)
        if reached is None:
            reached = self.reached[rank] = {}
            self.spans[rank] = Span(start_s)
        if reached.get(group, -1) < seq and (group in reached or len(self.sizes) < MOST_WORDS):
            reached[group] = seq
            self.sizes[group] = group_size
        span = self.spans[rank]
        if start_s < span.first_s:
            span.first_s = start_s
        if start_s + duration_s > span.last_s:
            span.last_s = start_s + duration_s
        span.waited_s += wait_s
        if wait_s > self.longest_wait_s:
            self.longest_wait_s = wait_s

    def first_s(self) -> float | None:
        """When the earliest of these collectives began."""
        return min((span.first_s for span in self.spans.values()), default=None)
