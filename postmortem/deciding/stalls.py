"""Horovod's last report of a stall: who has not submitted what the others wait for.

Rule of this file: pure. A rank is accused only if it is missing in every operation of the report: where each of two
has submitted what the other has not, they call different ones. A stall that the job went on from is none.
"""

import re

from ..evidence import Stalled
from .case import Case, grounds
from .standing import standing
from .verdict import Verdict, several

_OPERATION = re.compile(r"(?i)allreduce|allgather|broadcast|alltoall|reducescatter")


def verdict(case: Case) -> Verdict | None:
    """By the last report, where the job did not go on."""
    rows = [one for one in case.stalls if one.operations]
    missing = _missing(case, rows)
    if not missing:
        return _only_ready(rows)
    everywhere = set.intersection(*(set(ranks) for ranks in missing.values()))
    cut = {one.missing[0]: one.operations for one in rows if one.more}
    if len({*map(frozenset, cut.values())}) > 1:
        return _different(rows, missing)  # What is left out of two lists may be what differs.
    everywhere |= {rank for rank, names in cut.items() if set(names) == {*missing}}
    if not everywhere:
        return _different(rows, missing)
    return _absent(case, rows, everywhere, [*missing])


def _missing(case: Case, rows: list[Stalled]) -> dict[str, set[int]]:
    """The ranks that have not submitted each operation. Before 0.14.1 only those that have are listed: there the
    missing ones are the gaps up to the highest rank that any line names."""
    made: dict[str, set[int]] = {}
    known = range(max(case.ranks, default=-1) + 1)
    for row in rows:
        for name in row.operations:
            away = set(known).difference(row.ready) if row.ready else set(row.missing)
            if away:
                made.setdefault(name, set()).update(away)
    return made


def _absent(case: Case, rows: list[Stalled], late: set[int], names: list[str]) -> Verdict:
    others = case.ranks - late
    what = f"{names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}"
    verb = "has" if len(late) == 1 else "have"
    cause = f"{several(late)} {verb} not submitted {what}, which others wait for (Horovod's stall report)"
    found = standing(case, min(late))
    most = len(late) > 2 and len(late) * 2 > len(case.ranks)
    if most:
        cause += "; those are most ranks, so the others may have called one too many"
    return Verdict(
        kind="hang",
        cause=f"{found.doing}; {cause}" if found.doing and not most else cause,
        ranks=() if most else tuple(sorted(late)),
        victims=tuple(sorted(case.ranks if most else others)),
        operation=_operation(names),
        line=None if most else found.line,
        worker_line=None if most else found.worker_line,
        sure="unsure" if most else "likely",
        next=None if found.line and not most else f"the stack of rank {min(late)}: py-spy dump --nonblocking --pid PID",
        grounds=(*grounds(*rows[:3]), *found.grounds),
    )


def _different(rows: list[Stalled], missing: dict[str, set[int]]) -> Verdict:
    ranks = sorted(set().union(*missing.values()))
    first = {rank: next(name for name, away in missing.items() if rank in away) for rank in ranks[:4]}
    return Verdict(
        kind="collective_mismatch",
        cause="ranks submitted different operations: "
        + "; ".join(f"rank {rank} is missing in {name}" for rank, name in first.items())
        + " (Horovod's stall report)",
        victims=tuple(ranks),
        operation=_operation([*missing]),
        sure="unsure",
        next=f"the stacks of {several(ranks)}: what leads each to another call",
        grounds=grounds(*rows[:4]),
    )


def _only_ready(rows: list[Stalled]) -> Verdict | None:
    """Only those that came are listed, and no line names a rank beside them."""
    if not rows:
        return None
    ready = {rank for row in rows for rank in row.ready}
    return Verdict(
        kind="hang",
        cause=f"{several(ready)} waited in {rows[0].operations[0]} for ranks that no file names "
        "(Horovod's stall report)",
        victims=tuple(sorted(ready)),
        operation=_operation([*rows[0].operations]),
        sure="unsure",
        next="the logs of all ranks, and their stacks: py-spy dump --nonblocking --pid PID",
        grounds=grounds(*rows[:4]),
    )


def _operation(names: list[str]) -> str | None:
    found = _OPERATION.search(names[0])
    return found[0].lower() if found else None
