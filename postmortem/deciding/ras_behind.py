"""Who is behind in a communicator by a report of NCCL's RAS, and whether it moved between two reports.

Rule of this file: pure. Those with the fewest launched operations are behind, if each of them is listed and they are
fewer than half: of two halves either may be wrong, and one that is ahead of all others has made a call too many. A rank
that is ahead in another communicator waits there. A call less of one operation and one more of another is no matter of
time: ranks that do the same pass the same counts.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Literal, NamedTuple

from ..evidence import RasRanks
from .ras_reports import Communicator, Level, Place, Report, place

Movement = Literal["still", "moved", "unknown"]
#: A communicator, an operation, and its levels from few to many.
Uneven = tuple[Communicator, str, tuple[Level, ...]]


class Behind(NamedTuple):
    """Ranks of a communicator that have launched fewer of an operation than the others."""

    communicator: Communicator
    operation: str
    low: Level
    high: Level
    members: tuple[RasRanks, ...]


class Different(NamedTuple):
    """Ranks that have launched fewer of one operation and more of another than most."""

    communicator: Communicator
    fewer: tuple[str, Level, Level]
    more: tuple[str, Level, Level]
    members: tuple[RasRanks, ...]


def uneven(report: Report) -> list[Uneven]:
    """Communicators and operations of which ranks have launched different numbers, the largest first."""
    found = [
        (one, operation, levels)
        for one in report.communicators.values()
        for operation, levels in one.operations.items()
        if len(levels) > 1
    ]
    return sorted(found, key=lambda one: (-one[0].size, -_gap(one[2]), one[0].name, one[1]))


def different(report: Report) -> Different | None:
    """The first communicator of which fewer than half of the ranks have made other calls than most."""
    for one in report.communicators.values():
        fewer: dict[int | None, tuple[str, Level, Level]] = {}
        more: dict[int | None, tuple[str, Level, Level]] = {}
        for operation, levels in one.operations.items():
            usual = max(levels, key=lambda level: level.ranks)
            if usual.ranks * 2 <= one.size:
                continue
            for level in levels:
                if level is not usual:
                    side = fewer if int(level.value) < int(usual.value) else more
                    side.update({member.member: (operation, level, usual) for member in level.members})
        both = sorted(rank for rank in set(fewer) & set(more) if rank is not None)
        if both and len(both) * 2 < one.size:
            first = both[0]
            level = fewer[first][1]
            members = tuple(member for member in level.members if member.member in both)
            return Different(one, fewer[first], more[first], members)
    return None


def behind(report: Report) -> list[Behind]:
    """By communicator those behind who wait in no other, the largest first, by the operation with the largest gap."""
    made: dict[str, Behind] = {}
    every = uneven(report)
    ahead = _ahead(every)
    for one, operation, levels in every:
        low = levels[0]
        if one.name in made or not low.listed or low.ranks * 2 >= one.size:
            continue
        members = tuple(member for member in low.members if not ahead[place(member)] - {one.name})
        if members:
            made[one.name] = Behind(one, operation, low, max(levels[1:], key=lambda level: level.ranks), members)
    return list(made.values())


def _gap(levels: tuple[Level, ...]) -> int:
    return int(levels[-1].value) - int(levels[0].value)


def _ahead(every: Iterable[Uneven]) -> dict[Place | None, set[str]]:
    """By process the communicators in which it is ahead of others."""
    made: dict[Place | None, set[str]] = defaultdict(set)
    for one, _, levels in every:
        for level in levels[1:]:
            for member in level.members:
                if (where := place(member)) is not None:
                    made[where].add(one.name)
    return made


def movement(before: Iterable[Report], last: Report, members: Iterable[RasRanks]) -> Movement:
    """Of ranks in ``last``: still, if an earlier report has the same of each; moved, if it has less of each in all."""
    own = tuple(members)
    known = [made for one in before if (made := _between(one, last, own)) != "unknown"]
    return "still" if "still" in known else "moved" if known else "unknown"


def _between(before: Report, last: Report, members: tuple[RasRanks, ...]) -> Movement:
    made: set[Movement] = set()
    for member in members:
        then, now = _launched(before, member), _launched(last, member)
        common = set(then) & set(now)
        same = all(then[one] == now[one] for one in common)
        made.add("unknown" if not common else "still" if same else "moved")
    return made.pop() if len(made) == 1 else "unknown"


def _launched(report: Report, member: RasRanks) -> dict[tuple[str, str], int]:
    """What a report says that a rank has launched, by communicator and operation."""
    key = place(member)
    return {
        (one.name, operation): int(level.value)
        for one in report.communicators.values()
        for operation, levels in one.operations.items()
        for level in levels
        if any(
            (one.name == member.communicator and other.member == member.member)
            or (key is not None and place(other) == key)
            for other in level.members
        )
    }
