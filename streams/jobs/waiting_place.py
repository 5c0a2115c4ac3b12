"""One collective that has no result: who waits in it, who has left it, and who of its group has not called it.

Rule of this file: pure. Counts and sorted lists follow each rank that comes and goes.
"""

from bisect import bisect_left, insort
from collections import Counter
from typing import Any

import msgspec

#: Operations between two ranks, and one that is known only to be a collective: they match any other.
_UNKNOWN = frozenset(("send", "recv", "collective", ""))
#: Operations for which every rank passes the same number of bytes.
_SAME_BYTES = frozenset(("all_reduce", "broadcast", "reduce", "reduce_scatter", "barrier"))

#: A group and the number of a collective in it.
Where = tuple[str, int]


class Wait(msgspec.Struct):
    """One rank in one collective that has no result: since when, in seconds of its own clock until it last said so."""

    rank: int
    group: str
    size: int
    seq: int
    operation: str
    waited_s: float
    bytes: int | None = None

    def call(self) -> tuple[str, int | None]:
        """What was called: the operation, and its bytes where all ranks must pass as many."""
        return self.operation, self.bytes if self.operation in _SAME_BYTES else None


class Place:
    """A collective in which ranks wait. Lists of ranks are sorted."""

    def __init__(self, group: str, seq: int) -> None:
        self.group, self.seq = group, seq
        self.waits: dict[int, Wait] = {}
        #: Who waited here until it gave up, or was ended: it has called it, whatever it waits for now.
        self.left: dict[int, Wait] = {}
        self.sizes: Counter[int] = Counter()
        #: Ranks that others keep here; of these and of those that left, how many have never been through a collective
        #: of the group.
        self.waiting: list[int] = []
        self.strangers = 0
        #: How many ranks have not been through it; of those, who has not called it, and who of them waits nowhere.
        self.below = 0
        self.behind: list[int] = []
        self.missing: list[int] = []
        self._missing_at: list[int] = []
        self.known = 0
        #: What decided whether it keeps those who wait, when that was last worked out.
        self.terms: tuple[Any, ...] = ()
        #: What those who wait or have left have called, and the lines at which those who wait are.
        self._calls: dict[tuple[str, int | None], list[int]] = {}
        self.operations: Counter[str] = Counter()
        self.lines: Counter[str] = Counter()

    @property
    def where(self) -> Where:
        """Group and number."""
        return self.group, self.seq

    def enter(self, rank: int, line: str) -> None:
        """``rank`` is kept here, at ``line`` of its code."""
        insort(self.waiting, rank)
        self._call(rank, self.waits[rank])
        self.lines[line] += 1

    def leave(self, rank: int, line: str) -> None:
        """Nobody keeps ``rank`` here any longer."""
        remove(self.waiting, rank)
        self._uncall(rank, self.waits[rank])
        less(self.lines, line)

    def give_up(self, rank: int, wait: Wait) -> None:
        """``rank`` waits here no longer, and has not been through it."""
        self.left[rank] = wait
        self._call(rank, wait)

    def come_back(self, rank: int) -> None:
        """``rank`` has not given up."""
        self._uncall(rank, self.left.pop(rank))

    def _call(self, rank: int, wait: Wait) -> None:
        insort(self._calls.setdefault(wait.call(), []), rank)
        self.operations[wait.operation] += 1

    def _uncall(self, rank: int, wait: Wait) -> None:
        remove(self._calls[wait.call()], rank)
        if not self._calls[wait.call()]:
            del self._calls[wait.call()]
        less(self.operations, wait.operation)

    def follow(self, behind: list[int], missing: list[tuple[int, int]]) -> None:
        """Who has not been through it so far, and of those who wait nowhere the number that each has got to."""
        self.behind = behind
        self.missing = [rank for rank, _ in missing]
        self._missing_at = sorted(at for _, at in missing)

    def miss(self, rank: int, at: int) -> None:
        """``rank``, which is behind and has got to number ``at``, is missing."""
        if _holds(self.behind, rank):
            insort(self.missing, rank)
            insort(self._missing_at, at)

    def find(self, rank: int, at: int) -> None:
        """``rank`` is no longer missing."""
        if remove(self.missing, rank):
            remove(self._missing_at, at)

    def last_seq(self) -> int:
        """The number that the furthest of the missing has got to; -1 where none is."""
        return self._missing_at[-1] if self._missing_at else -1

    def unknown(self) -> int:
        """Members of the group that were never heard of."""
        return max(max(self.sizes, default=0) - self.known - self.strangers, 0)

    def lacks(self) -> bool:
        """Whether a member of the group does not wait here and has not been through it."""
        return bool(self.behind) or self.unknown() > 0

    def differ(self) -> bool:
        """Whether ranks have called different things."""
        if self._sized():
            return len(self._calls) - ((next(iter(self.operations)), None) in self._calls) > 1
        return len(self.operations) - sum(word in self.operations for word in _UNKNOWN) > 1

    def calls(self) -> list[tuple[str, list[int]]]:
        """What ranks have called, by operation and, where it must be the same, bytes; most ranks first.

        The sizes of what gathers and scatters may differ between ranks; a call that is not known agrees with any.
        """
        ranks: dict[str, list[int]] = {}
        sized = self._sized()
        for (operation, size), who in self._calls.items():
            if operation not in _UNKNOWN and (not sized or size is not None):
                ranks.setdefault(f"{operation} of {size} bytes" if sized else operation, []).extend(who)
        return sorted(((words, sorted(who)) for words, who in ranks.items()), key=lambda one: (-len(one[1]), one))

    def operation(self) -> str:
        """What most have called, of what is known."""
        known = [(-count, word) for word, count in self.operations.items() if word not in _UNKNOWN]
        return min(known)[1] if known else self.waits[self.waiting[0]].operation

    def _sized(self) -> bool:
        return len(self.operations) == 1 and next(iter(self.operations)) in _SAME_BYTES

    def order(self) -> tuple[bool, bool, bool, int]:
        """Which place to name comes first: where calls differ, else from where somebody is missing who waits nowhere,
        of those where most wait."""
        return not self.differ(), not self.missing, not self.unknown(), -len(self.waiting)

    def new_terms(self) -> tuple[Any, ...]:
        """All that decides whether this place keeps those who wait, beside their own numbers."""
        sizes = tuple(sorted((size, max(min(self.known - size, 0), -2)) for size in self.sizes))
        return min(self.below, 2), min(self.known, 2), sizes


def remove(ranks: list[int], rank: int) -> bool:
    """Take ``rank`` out of sorted ``ranks``; whether it was in there."""
    found = _holds(ranks, rank)
    if found:
        del ranks[bisect_left(ranks, rank)]
    return found


def _holds(ranks: list[int], rank: int) -> bool:
    at = bisect_left(ranks, rank)
    return at < len(ranks) and ranks[at] == rank


def less(counts: Counter[Any], key: Any) -> None:
    """Count one ``key`` less; what there is none of any more is not kept."""
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
