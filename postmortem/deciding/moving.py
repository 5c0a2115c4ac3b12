"""Two looks at ranks that still live: who works while others wait is no hang.

Rule of this file: pure. A rank moves if its stack or a counter changed between two looks; those who wait do not.
"""

from ..evidence import Look, Place
from ..places import innermost, users
from .case import Case, grounds
from .verdict import Verdict, several


def verdict(case: Case) -> Verdict | None:
    """A wait for somebody who works; None where there are not two looks, or nobody moves."""
    by_rank: dict[int, list[Look]] = {}
    for look in sorted(case.looks, key=lambda one: one.turn):
        if look.rank is not None:
            by_rank.setdefault(look.rank, []).append(look)
    pairs = {rank: (looks[0], looks[-1]) for rank, looks in by_rank.items() if len(looks) > 1}
    moving = {rank for rank, (first, last) in pairs.items() if _moved(first, last)}
    if not moving or len(moving) == len(pairs):
        return None
    return _of(case, pairs, moving)


def _moved(first: Look, last: Look) -> bool:
    counters = (name for name in first.counters if name in last.counters)
    return first.frames != last.frames or any(last.counters[name] > first.counters[name] for name in counters)


def _of(case: Case, pairs: dict[int, tuple[Look, Look]], moving: set[int]) -> Verdict:
    still = set(pairs) - moving
    rank = min(moving)
    first, last = pairs[rank]
    stands, inside = _common(first.frames, last.frames)
    waits = next((frame.function for one in still for frame in pairs[one][1].frames[:1]), "a collective")
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
        sure="certain",
        next="nothing yet: this is no hang; check again if it continues",
        grounds=grounds(*pairs[rank]),
    )


def _common(first: tuple[Place, ...], last: tuple[Place, ...]) -> tuple[Place | None, str]:
    """The innermost of the user's frames that both looks have, and the function that moved inside it."""
    one, other = list(reversed(users(first))), list(reversed(users(last)))
    same = 0
    while same < min(len(one), len(other)) and one[same] == other[same]:
        same += 1
    stands = one[same - 1] if same else None
    inside = other[same].function if same < len(other) else ""
    return (stands, inside) if stands else (other[0] if other else None, "")
