"""What is known of a collective that does not end: who waits, who is missing, and where the code of those is.

Rule of this file: plain data and what follows from it alone. Ranks are listed up to a bound and counted beyond it.
"""

import msgspec

from ..episodes.tracker import Episode, Measured

#: Ranks told by number in a finding; of more, only the first.
MOST_TOLD = 64
#: A missing rank that still moves holds the finding back for so long, in seconds: PyTorch's own limit by default.
MOVES_S = 600.0
#: Changes of whom and what a hang names that are reported one by one in each state; a further one is reported once the
#: wait has grown by this factor. In a job of thousands of nodes each message may change it.
MOST_NEWS, NEWS_GROWTH = 3, 1.25


class Seen(msgspec.Struct):
    """Where the code of a rank is, and what it does there."""

    rank: int
    doing: str
    moved: bool | None
    line: str
    pid: int
    #: The line at which its data loader's worker stands, or why that is not known.
    worker_line: str = ""
    worker_unseen: str = ""


class Stop(msgspec.Struct):
    """A collective that somebody is missing from, or that ranks call in different ways."""

    group: str
    seq: int
    operation: str
    waiting: list[int]
    #: How many wait and how many are missing; the lists hold the first of them.
    waits: int
    misses: int
    missing: list[int]
    #: Members of the group that were never heard of.
    unknown: int
    last_seq: int
    #: Where those accused are, as far as they were looked at, and the line at which most of the others wait.
    places: list[Seen] = []
    others_line: str = ""
    #: The calls that differ under this number, each as words and its ranks, most ranks first; empty where they agree.
    calls: list[tuple[str, list[int]]] = []
    #: Where the others wait for ranks that wait here, because groups are used in different order: the first of them,
    #: how many they are, and their collective.
    across: list[int] = []
    across_waits: int = 0
    across_in: str = ""
    #: Ranks that may be the members never heard of; and whether others were looked at, but none of those missing.
    perhaps: list[Seen] = []
    unlooked: bool = False
    #: Ranks that called it and wait there no longer: the first of them, and how many they are.
    left: list[int] = []
    leaves: int = 0
    #: It is over, and none of those who waited is known to have been through it: they gave up, or were not heard.
    unended: bool = False

    def where(self) -> str:
        """The collective in words."""
        return f"{self.operation} number {self.seq} of group {self.group}"

    def accused(self) -> list[int]:
        """The ranks to name: those missing, or the few that call something else."""
        if self.calls:
            first, *others = (ranks for _, ranks in self.calls)
            odd = sorted(rank for ranks in others for rank in ranks)
            return odd if len(odd) < len(first) else []
        return self.missing

    def moves(self) -> bool:
        """Whether any of those accused, or that may be missing, has got further since the look before."""
        return any(place.moved for place in (*self.places, *self.perhaps))

    def seen(self) -> bool:
        """Whether it is known why nobody gets further: all the missing stand still, calls differ, or groups cross."""
        still = [place for place in self.places if place.moved is False]
        missing = bool(self.missing) and not self.unknown
        return bool(self.calls or self.across) or (missing and len(still) == len(self.missing))


class HangEvidence(Measured, frozen=True, kw_only=True):
    """How long the longest waiter has waited, the longest wait that is usual, and the collective to name.

    ``name``: the collective named when the hang began; the one to name may change while it lasts, the finding's id not.
    """

    name: str
    waited_s: float
    usual_s: float
    stop: Stop
    #: Where those accused were when last seen in this collective: who goes on is looked at no longer.
    last_seen: tuple[Seen, ...] = ()


class Reported(msgspec.Struct):
    """What was last reported: the collective, after how long a wait, and how many changes since the state changed."""

    stop: Stop
    waited_s: float
    changes: int = 0

    def is_due(self, now: Stop, waited_s: float) -> bool:
        """Whether ``now``, after ``waited_s``, is to be reported for what it names."""
        room = self.changes < MOST_NEWS or waited_s >= NEWS_GROWTH * self.waited_s
        return room and _news(self.stop, now)


HangEpisode = Episode[str, HangEvidence]


def last_seen(before: HangEvidence | None, now: Stop) -> tuple[Seen, ...]:
    """Where those who are accused ``now`` were when last seen, if that was in the same collective."""
    if before is None or (before.stop.group, before.stop.seq) != (now.group, now.seq):
        return ()
    accused = set(now.accused())
    return tuple(place for place in before.last_seen if place.rank in accused)


def _news(before: Stop, now: Stop) -> bool:
    """Whether ``now`` names other ranks, a line that was not known before, or shows the first movement."""
    if before.accused() != now.accused() or (now.moves() and not before.moves()):
        return True
    known = {place.rank: place for place in before.places}
    for place in now.places:
        then = known.get(place.rank)
        if (place.line and not (then and then.line)) or (place.worker_line and not (then and then.worker_line)):
            return True
    return False


def call_words(operation: str, seq: int, group: str) -> str:
    """One call of a collective.

    >>> call_words("all_reduce", 7, "dp")
    'all_reduce #7 (group dp)'
    """
    return f"{operation} #{seq} (group {group})"
