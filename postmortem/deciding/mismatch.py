"""Ranks that call different collectives under the same number of a group, in words.

Rule of this file: pure. Who is odd was decided by who is fewer; where no side is, both are described.
"""

from collections import Counter

from ..evidence import Call
from .case import Case, grounds
from .verdict import Verdict, several


def differing(
    case: Case,
    label: str,
    seq: int,
    calls: dict[int, Call],
    odd: frozenset[int],
    away: frozenset[int] = frozenset(),
) -> Verdict:
    """The verdict: ``odd`` is who calls something else than most, and ``away`` who has not come at all."""
    others = {rank: call for rank, call in calls.items() if rank not in odd}
    one = calls[min(odd)] if odd else None
    theirs = Counter(call.operation for call in others.values()).most_common(1)[0][0]
    return Verdict(
        kind="collective_mismatch",
        cause=_differs(label, seq, calls, odd, others),
        ranks=tuple(sorted(odd)),
        victims=tuple(sorted(set(calls) - odd | away - odd)),
        group=label,
        seq=seq,
        operation=theirs,
        line=case.line(one.place) if one else None,
        others_line=common_line(case, others) if odd else None,
        sure="certain" if odd else "unsure",
        next=None if odd else "no side is a majority: compare the code of both lines",
        grounds=grounds(*([one] if one else []), *list(others.values())[:3]),
    )


def _differs(label: str, seq: int, calls: dict[int, Call], odd: frozenset[int], others: dict[int, Call]) -> str:
    if not odd:
        sides: dict[str, list[int]] = {}
        for rank, call in calls.items():
            sides.setdefault(_called(call), []).append(rank)
        return f"number {seq} of group {label} differs: " + "; ".join(
            f"{several(ranks)} call{'s' if len(ranks) == 1 else ''} {what}"
            for what, ranks in sorted(sides.items(), key=lambda side: min(side[1]))
        )
    one, other = calls[min(odd)], next(iter(others.values()))
    verb, have, is_ = ("give", "have", "are") if len(odd) > 1 else ("gives", "has", "is")
    if one.operation != other.operation:
        return (
            f"{several(set(odd))} {is_} in {one.operation} where the others are in their {other.operation} number "
            f"{seq}: {'they' if len(odd) > 1 else 'it'} {have} made one {other.operation} less, or another call"
        )
    gives = f"{several(set(odd))} {verb}"
    if one.size >= 0 and one.size != other.size:
        return f"{gives} {one.size} bytes to {one.operation} {seq} where the others give {other.size}"
    if one.numel_in != other.numel_in:
        return f"{gives} {one.numel_in} elements to {one.operation} {seq} where the others give {other.numel_in}"
    return f"{several(set(odd))} {verb} {one.dtype} to {one.operation} {seq} where the others give {other.dtype}"


def _called(call: Call) -> str:
    size = f" of {call.size} bytes" if call.size >= 0 else f" of {call.numel_in} elements" if call.numel_in >= 0 else ""
    return f"{call.operation}{size}{f' {call.dtype}' if call.dtype else ''}"


def common_line(case: Case, calls: dict[int, Call]) -> str | None:
    """Where most of these calls were made."""
    places = Counter(call.place for call in calls.values() if call.place is not None)
    return case.line(places.most_common(1)[0][0]) if places else None
