"""Ranks of whom no file shows what they called: named, with the reason where one is given, and never accused for it.

Rule of this file: pure.
"""

from collections import defaultdict

from .case import Case, grounds
from .collectives import Waiting, pending
from .mismatch import common_line
from .verdict import Verdict, several


def verdict(case: Case) -> Verdict | None:
    """Where others wait and who has no record there; None where each has one."""
    for waiting in sorted(pending(case), key=lambda one: (-len(one.calls), one.group, one.seq)):
        silent = waiting.unknown | (waiting.overwritten & set(_reasons(case)))
        if silent and not waiting.missing:
            return _waiting(case, waiting, silent)
    return None


def nothing(case: Case) -> Verdict | None:
    """All that is known is that there are no dumps."""
    if not case.no_dumps or case.calls:
        return None
    return Verdict(
        kind="insufficient_data",
        cause="; ".join(sentences(case)),
        sure="unsure",
        next="the logs of all ranks, and their stacks (py-spy dump)",
        grounds=grounds(*case.no_dumps[:4]),
    )


def sentences(case: Case) -> tuple[str, ...]:
    """Who has no dump, by reason."""
    by_reason: dict[str, set[int]] = defaultdict(set)
    for rank, reason in _reasons(case).items():
        by_reason[reason].add(rank)
    return tuple(
        f"{several(ranks)} left no flight-recorder dump: {reason}"
        for reason, ranks in sorted(by_reason.items(), key=lambda one: min(one[1]))[:4]
    )


def _reasons(case: Case) -> dict[int, str]:
    """Why each rank has no dump; a rank that has one all the same is left out."""
    dumped = {dump.rank for dump in case.dumps}
    return {said.rank: said.reason for said in case.no_dumps if said.rank is not None and said.rank not in dumped}


def _waiting(case: Case, waiting: Waiting, silent: frozenset[int]) -> Verdict:
    one = min(silent)
    where = (
        f"wait{'s' if len(waiting.calls) == 1 else ''} in {waiting.operation} {waiting.seq} of group {waiting.label}"
    )
    return Verdict(
        kind="hang",
        cause=(f"{several(set(waiting.calls))} {where}; no record says whether {several(set(silent))} called it"),
        victims=tuple(sorted(waiting.calls)),
        group=waiting.label,
        seq=waiting.seq,
        operation=waiting.operation,
        others_line=common_line(case, waiting.calls),
        sure="unsure",
        next=f"the dump and the log of rank {one}, or its stack if it lives: py-spy dump --nonblocking --pid PID",
        grounds=grounds(*list(waiting.calls.values())[:3]),
    )
