"""Only stacks: who is not where the others wait.

Rule of this file: pure. It needs the stacks of three ranks at least, and the ones elsewhere are fewer than half. One
look does not show whether a rank moves: at a checkpoint, in a model or a compiler it is named, and not accused.
"""

from collections import Counter
from collections.abc import Mapping

from ..evidence import Stack
from ..places import in_loader, innermost, waits_for_device, waits_in_collective, works_at
from .case import Case, grounds
from .standing import Standing, standing
from .verdict import Verdict, several

#: So many stacks are listed one by one.
_LISTED = 4
_NO_LINE = "no line of your own code"


def verdict(case: Case) -> Verdict | None:
    """By stacks of main threads."""
    stacks = {rank: stack for rank in case.ranks if (stack := case.stack_of(rank)) is not None}
    waits = {
        rank: name
        for rank, stack in stacks.items()
        if (name := waits_in_collective(stack.frames) or waits_for_device(stack.frames))
    }
    if len(stacks) < 3 or not waits:
        return None
    usual = Counter((name, innermost(stacks[rank].frames)) for rank, name in waits.items()).most_common(1)[0][0]
    here = {rank for rank, name in waits.items() if (name, innermost(stacks[rank].frames)) == usual}
    away = set(stacks) - here
    if not away or len(away) * 2 >= len(stacks):
        return None
    idle = away - set(waits)
    late = idle or away
    found = standing(case, min(late))
    if (work := works_at(stacks[min(late)].frames)) and idle and not found.worker_line:
        return _at_work(case, found, stacks, here, late, f"{work} while {several(here)} wait in {usual[0]}")
    return Verdict(
        kind="hang" if idle else "collective_mismatch",
        cause=f"{found.doing or several(late) + ' is elsewhere'} while {several(here)} wait in {usual[0]}",
        ranks=tuple(sorted(late)),
        victims=tuple(sorted(here | (away - late))),
        operation=usual[0],
        line=found.line,
        worker_line=found.worker_line,
        others_line=case.line(usual[1]),
        sure="likely" if len(late) == 1 else "unsure",
        next=None if found.line else f"the stack of rank {min(late)} once more, some seconds later",
        grounds=(*grounds(*(stacks[rank] for rank in sorted(here)[:2])), *found.grounds),
    )


def _at_work(
    case: Case, found: Standing, stacks: Mapping[int, Stack], here: set[int], late: set[int], does: str
) -> Verdict:
    return Verdict(
        kind="hang",
        cause=f"{several(late)} {does}: one stack does not show whether that goes on",
        victims=tuple(sorted(here)),
        slow=tuple(sorted(late)),
        line=found.line,
        others_line=case.line(innermost(stacks[min(here)].frames)),
        sure="unsure",
        next="the stacks of all ranks once more, 10 s later, given together with these",
        grounds=(*grounds(*(stacks[rank] for rank in sorted(here)[:2])), *found.grounds),
    )


def few(case: Case) -> Verdict | None:
    """Stacks that do not decide: where their ranks are."""
    stacks = {rank: stack for rank in sorted(case.ranks) if (stack := case.stack_of(rank)) is not None}
    if not any(map(_waits, stacks.values())):
        return _of_processes(case)
    places = [
        f"{standing(case, rank).doing or f'rank {rank}'} ({case.line_of(rank) or _NO_LINE})"
        for rank in list(stacks)[:_LISTED]
    ]
    return Verdict(
        kind="insufficient_data",
        cause=f"stacks of {several(set(stacks))} do not say who is waited for: {_listed(places, len(stacks))}",
        sure="unsure",
        next="stacks of all ranks (py-spy dump), twice, 10 s apart",
        grounds=grounds(*list(stacks.values())[:_LISTED]),
    )


def _listed(places: list[str], count: int) -> str:
    """The first places of so many."""
    return "; ".join([*places, *([f"and {count - _LISTED} more"] if count > _LISTED else [])])


def _waits(stack: Stack) -> bool:
    return bool(waits_in_collective(stack.frames) or waits_for_device(stack.frames) or in_loader(stack.frames))


def _of_processes(case: Case) -> Verdict | None:
    """Where processes are whose ranks no file says; None where no thread of them waits."""
    own = [stack for stack in case.stacks if stack.rank is None and not stack.worker]
    if not any(map(_waits, own)):
        return None
    mains = [stack for stack in own if stack.main]
    # Of a process that was dumped again the newest counts; those without a number are each a process.
    newest = {at if stack.pid is None else f"pid {stack.pid}": stack for at, stack in enumerate(mains)}
    places = [
        f"{'a process' if isinstance(who, int) else who} ({case.line(innermost(stack.frames)) or _NO_LINE})"
        for who, stack in list(newest.items())[:_LISTED]
    ]
    return Verdict(
        kind="insufficient_data",
        cause=f"no file says whose these stacks are: {_listed(places, len(newest))}",
        sure="unsure",
        next="the stack of each rank in a file that is named by it (rank3.txt), or the job's log beside them",
        grounds=grounds(*own[:_LISTED]),
    )
