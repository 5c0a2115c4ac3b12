"""Two looks at ranks that still live: who works while others wait is no hang.

Rule of this file: pure. A rank moves if its stack or a counter changed between two looks; those who wait do not, and
within a collective or a data loader another stack is no movement. Dumps of one process count as looks if no file says
that something failed.
"""

from ..evidence import Look, Place
from ..places import in_loader, innermost, users, waits_in_collective
from .case import Case, grounds
from .verdict import Verdict, several


def verdict(case: Case) -> Verdict | None:
    """A wait for somebody who works; None where there are not two looks, or nobody moves."""
    by_rank: dict[int, list[Look]] = {}
    for look in sorted(case.looks, key=lambda one: one.turn) or _of_stacks(case):
        if look.rank is not None:
            by_rank.setdefault(look.rank, []).append(look)
    pairs = {rank: (looks[0], looks[-1]) for rank, looks in by_rank.items() if len(looks) > 1}
    moving = {rank for rank, (first, last) in pairs.items() if _moved(first, last)}
    if not moving or len(moving) == len(pairs):
        return None
    return _of(case, pairs, moving)


def _of_stacks(case: Case) -> list[Look]:
    """Looks made of dumps, where the same process was dumped more than once: in the order of the files."""
    if case.timeouts or case.failures or case.exits:
        return []
    pids = {one.rank: one.pid for one in case.stacks if one.main and not one.worker}
    return [
        Look(rank=one.rank, source=one.source, turn=turn, frames=one.frames, counters={})
        for turn, one in enumerate(case.stacks)
        if one.pid == pids.get(one.rank) and one.main and not one.worker and one.pid is not None and one.frames
    ]


def _moved(first: Look, last: Look) -> bool:
    counters = (name for name in first.counters if name in last.counters)
    changed = first.frames != last.frames and not (_waits(first) and _waits(first) == _waits(last))
    return changed or any(last.counters[name] > first.counters[name] for name in counters)


def _waits(look: Look) -> tuple[str, Place | None] | None:
    """In which collective or loader it waits, and at which line; None if in neither."""
    name = waits_in_collective(look.frames) or ("loader" if in_loader(look.frames) else "")
    return (name, innermost(look.frames)) if name else None


def _of(case: Case, pairs: dict[int, tuple[Look, Look]], moving: set[int]) -> Verdict:
    still = set(pairs) - moving
    rank = min(moving)
    first, last = pairs[rank]
    stands, inside = _common(first.frames, last.frames)
    waits = next((name for one in sorted(still) if (name := _called(pairs[one][1]))), "a collective")
    written = max(
        (
            last.counters[name] - first.counters.get(name, 0)
            for name in ("wchar", "write_bytes")
            if name in last.counters
        ),
        default=0,
    )
    doing = f"is in {inside} and moves" if inside else "moves"
    amount = f": {written:.0f} bytes written between two looks" if written > 0 else ""
    others = innermost(pairs[min(still)][1].frames)
    return Verdict(
        kind="waiting",
        cause=f"{several(still)} wait in {waits} for {several(moving)}, which {doing}{amount}",
        victims=(),
        slow=tuple(sorted(moving)),
        line=None if stands is None else f"{case.line(stands)}{f', in {inside}' if inside else ''}",
        others_line=case.line(others),
        operation=waits,
        sure="certain" if written > 0 else "likely",
        next="nothing yet: this is no hang; check again if it continues",
        grounds=grounds(*pairs[rank]),
    )


def _called(look: Look) -> str:
    return waits_in_collective(look.frames) or next((frame.function for frame in look.frames[:1]), "")


def _common(first: tuple[Place, ...], last: tuple[Place, ...]) -> tuple[Place | None, str]:
    """The innermost of the user's frames that both looks have, and the function that moved inside it."""
    one, other = list(reversed(users(first))), list(reversed(users(last)))
    same = 0
    while same < min(len(one), len(other)) and one[same] == other[same]:
        same += 1
    stands = one[same - 1] if same else None
    inside = other[same].function if same < len(other) else ""
    return (stands, inside) if stands else (other[0] if other else None, "")
