"""The collectives of a node's ranks, held until their step is complete, then summed by group, operation and size.

Rule of this file: pure. A collective is known by its group and number: of its ranks the least wait and duration count,
for who comes last into a collective waits for nobody. What a step comes to is given away once; what comes after that
is refused. What is held is bounded: beyond it the oldest steps go, complete or not.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from paceline.sidecar.columns import LARGEST, LONGEST_WORD, MOST_WORDS
from paceline.sidecar.rank_rows import CollectiveRow

#: Collectives held. Ranks report within a second or so of each other; so many are held in 6 MB.
MOST_HELD = 20_000
#: Sums that one message takes, and that one step may come to.
MOST_SUMS = 2000
#: Each end tells its own: no two of them are one.
_BETWEEN_TWO = frozenset(("send", "recv"))
#: Groups and operations that one step may name.
MOST_STEP_WORDS = MOST_WORDS // 4


class Sum(NamedTuple):
    """The collectives of one step, group, operation and power of two of the bytes."""

    step: int
    group: str
    operation: str
    group_size: int
    calls: int
    members: int
    bytes: int
    wait_s: float
    duration_s: float


class _Call:
    """One collective: how many of the node's ranks told of it, and the least of what they did."""

    __slots__ = ("bytes", "duration_s", "group_size", "members", "operation", "wait_s")

    def __init__(self, row: CollectiveRow) -> None:
        self.group_size, self.operation, self.bytes, self.members = row[3], row[4][:LONGEST_WORD], row[5], 1
        self.duration_s, self.wait_s = row[7], row[8]


class HeldCollectives:
    """Told each rank's collectives, it gives away the sums of steps that are complete."""

    def __init__(self) -> None:
        self._steps: dict[int, dict[tuple[Any, ...], _Call]] = {}
        self._held = 0
        #: The latest step that was given away.
        self._given = -1

    def append(self, rank: int, row: CollectiveRow) -> bool:
        """The part of ``rank`` in a collective of a step; whether it comes in time."""
        step, seq, group, _, operation, _, _, duration_s, wait_s = row
        if step <= self._given:
            return False
        calls = self._steps.get(step)
        if calls is None:
            calls = self._steps[step] = {}
        key = (group, seq, rank) if operation in _BETWEEN_TWO else (group, seq)
        call = calls.get(key)
        if call is None:
            calls[key] = _Call(row)
            self._held += 1
            return True
        call.members += 1
        if wait_s < call.wait_s:
            call.wait_s = wait_s
        if duration_s < call.duration_s:
            call.duration_s = duration_s
        return True

    def first(self) -> float:
        """The earliest step that is held."""
        return min(self._steps, default=math.inf)

    def full(self) -> bool:
        """Whether more is held than may be."""
        return self._held >= MOST_HELD

    def due(self, before: float) -> bool:
        """Whether ``take`` has something to give away."""
        return self.full() or self.first() < before

    def take(self, before: float) -> list[Sum]:
        """The sums of the steps ``before`` this one, as many as fit into a message, the oldest first.

        Where more is held than may be, the older half of it goes, too.
        """
        spare = MOST_HELD // 2 if self.full() else None
        sums: list[Sum] = []
        words: set[str] = set()
        for step in sorted(self._steps):
            if step >= before and (spare is None or self._held <= spare):
                break
            found = _summed(step, self._steps[step])
            told = words.union(one.group for one in found).union(one.operation for one in found)
            if sums and (len(sums) + len(found) > MOST_SUMS or len(told) > MOST_WORDS // 2):
                break
            sums, words = sums + found, told
            self._held -= len(self._steps.pop(step))
            self._given = step
        return sums


def _summed(step: int, calls: Mapping[tuple[Any, ...], _Call]) -> list[Sum]:
    """``calls`` by group, operation and size; a step of too many classes, groups or operations is told in part."""
    sums: dict[tuple[str, str, int], list[Any]] = {}
    words: set[str] = set()
    for (group, *_), call in calls.items():
        key = (group[:LONGEST_WORD], call.operation, call.bytes.bit_length())
        found = sums.get(key)
        if found is None:
            words.update(key[:2])
            if len(sums) == MOST_SUMS or len(words) > MOST_STEP_WORDS:
                break
            found = sums[key] = [call.group_size, 0, 0, 0, 0.0, 0.0]
        found[1] += 1
        found[2] = max(found[2], call.members)
        found[3] = min(found[3] + call.bytes, LARGEST)
        found[4] += call.wait_s
        found[5] += call.duration_s
    return [Sum(step, group, operation, *found) for (group, operation, _), found in sums.items()]
