"""Only stacks: who is not in the collective in which the others wait.

Rule of this file: pure. It needs the stacks of three ranks at least, and the ones elsewhere are fewer than half.
"""

from collections import Counter

from ..places import innermost, waits_in_collective
from .case import Case, grounds
from .standing import standing
from .verdict import Verdict, several


def verdict(case: Case) -> Verdict | None:
    """By stacks of main threads."""
    stacks = {rank: stack for rank in case.ranks if (stack := case.stack_of(rank)) is not None}
    waits = {rank: name for rank, stack in stacks.items() if (name := waits_in_collective(stack.frames))}
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
