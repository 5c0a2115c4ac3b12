"""A collective that did not end, by recorders and calls: a mismatch, a rank that is missing, or an order deadlock.

Rule of this file: pure. Where a rank stands is its stack's word if there is one, else its last call's.
"""

from collections import Counter
from typing import Any

from .case import Case, grounds
from .collectives import Explained, Waiting, explained, odd_ones, pending
from .mismatch import common_line, differing
from .standing import standing
from .verdict import Verdict, several

#: How ranks end that waited, or that were ended because others failed.
_AFTERWARDS = (-15, -6, 1)


def verdict(case: Case) -> Verdict | None:
    """The collective to explain; None where every one has ended, or none is known."""
    waits = pending(case)
    for waiting in sorted(waits, key=lambda one: one.label):
        odd, differ = odd_ones(waiting.calls)
        if differ:
            away = waiting.missing | waiting.unknown | waiting.overwritten
            return differing(case, waiting.label, waiting.seq, waiting.calls, odd, away)
    found = explained(case, waits)
    if found is None:
        return None
    if found.cycle:
        return _deadlock(case, found)
    if found.culprits:
        return _missing(case, found)
    here = found.waiting
    return None if here.missing or here.unknown or here.overwritten else _inside(case, here)


def _deadlock(case: Case, found: Explained) -> Verdict:
    sides = sorted(found.cycle, key=lambda one: min(one.calls))
    waits = []
    for index, one in enumerate(sides):
        following = sides[(index + 1) % len(sides)]
        verb = "waits" if len(one.calls) == 1 else "wait"
        waits.append((several(set(one.calls)), f"{verb} in group {one.label} for {several(set(following.calls))}"))
    cause = (
        f"{' '.join(waits[0])}, which {waits[1][1]}" if len(waits) == 2 else "; ".join(" ".join(one) for one in waits)
    )
    places = Counter(call.place for one in sides for call in one.calls.values() if call.place is not None)
    return Verdict(
        kind="order_deadlock",
        cause=cause,
        victims=tuple(sorted({rank for one in sides for rank in one.calls})),
        group=sides[0].label,
        seq=sides[0].seq,
        operation=sides[0].operation,
        line=case.line(places.most_common(1)[0][0]) if places else None,
        sure="certain",
        next="let all ranks call the collectives of these groups in the same order",
        grounds=grounds(*(next(iter(one.calls.values())) for one in sides)),
    )


def _missing(case: Case, found: Explained) -> Verdict | None:
    waiting, late = found.waiting, found.culprits
    if len(late) * 2 >= len(late) + len(waiting.calls) and not late <= waiting.missing:
        return None  # More are unknown than are here: there are too few files to say anything.
    unseen = late - waiting.missing
    if len(unseen) > 1:
        return None  # Files of a whole node may be left out.
    if any(_ended_first(case, rank) for rank in unseen):
        return None  # It left no dump because of that.
    one = min(late)
    found_at = standing(case, one)
    what = f"has not called {waiting.operation} {waiting.seq} of group {waiting.label}"
    if len(late) > 1:
        what = what.replace("has", "have", 1)
    cause = f"{several(set(late))} {what}"
    if doing := found_at.doing:
        cause = f"{doing}; it {what}" if len(late) == 1 else f"{cause}: {doing}"
    if unseen:
        cause += f" ({several(set(unseen))} left no record)"
    return _hang(
        case,
        waiting,
        set(late),
        cause=cause,
        line=found_at.line,
        worker_line=found_at.worker_line,
        sure="certain" if not unseen else "likely",
        next=None if found_at.line else f"the stack of rank {one}: py-spy dump --nonblocking --pid PID",
        grounds=(*grounds(*list(waiting.calls.values())[:3]), *found_at.grounds),
    )


def _ended_first(case: Case, rank: int) -> bool:
    """Whether a rank ended in a way that is not how ranks that waited end."""
    ended = case.exit_of.get(rank)
    return ended is not None and ended.code not in _AFTERWARDS and not case.ended_by_launcher(ended)


def _inside(case: Case, waiting: Waiting) -> Verdict | None:
    """All have called it. One that the library does not count as enqueued stands inside the call."""
    inside = {
        dump.rank
        for dump in case.dumps
        if dump.rank in waiting.calls
        and dump.backend == "nccl"
        and dump.enqueued.get(waiting.group, waiting.seq) == waiting.seq - 1
    }
    late = {rank for rank in waiting.calls if rank in inside}
    if late and len(late) * 2 < len(waiting.calls):
        return _stuck(case, waiting, late, f"{several(late)} is inside the launch of {waiting.operation} {waiting.seq}")
    slow = {rank for rank, call in waiting.calls.items() if not call.done}
    if any(call.done is None for call in waiting.calls.values()):
        return None
    if len(slow) < len(waiting.calls):
        if len(slow) * 2 >= len(waiting.calls):
            return None
        what = f"{several(slow)} has not ended {waiting.operation} {waiting.seq}, which the others have"
        return _stuck(case, waiting, slow, what)
    return _hang(
        case,
        waiting,
        set(),
        cause=(
            f"all ranks have called {waiting.operation} {waiting.seq} of group {waiting.label} and none has ended it: "
            "the network, the library or a device; no rank is late"
        ),
        line=common_line(case, waiting.calls),
        sure="unsure",
        next="the kernels' logs (dmesg), NCCL_DEBUG=INFO, and two reports of `ncclras -v`, 30 s apart",
        grounds=grounds(*list(waiting.calls.values())[:4]),
    )


def _stuck(case: Case, waiting: Waiting, late: set[int], cause: str) -> Verdict:
    found = standing(case, min(late))
    call = waiting.calls[min(late)]
    return _hang(
        case,
        waiting,
        late,
        cause=cause,
        line=found.line or case.line(call.place),
        sure="likely",
        next=f"the stack of rank {min(late)} with native frames: py-spy dump --native --pid PID",
        grounds=(*grounds(call), *found.grounds),
    )


def _hang(case: Case, waiting: Waiting, late: set[int], **rest: Any) -> Verdict:
    """``late`` against those that wait for them in ``waiting``; no rank is accused if it is empty."""
    others = {rank: call for rank, call in waiting.calls.items() if rank not in late}
    return Verdict(
        kind="hang",
        ranks=tuple(sorted(late)),
        victims=tuple(sorted(others)),
        group=waiting.label,
        seq=waiting.seq,
        operation=waiting.operation,
        others_line=common_line(case, others) if late else None,
        **rest,
    )
