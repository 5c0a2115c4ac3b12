"""The rules in their order: the first that has a verdict gives it.

Rule of this file: pure. What is outside the job and what the kernel says come first, then a rank's own words, then
whether it ever began, the numbers of collectives, who was silent, and who names whom. Wrong accusation is the worst
error, so what is left accuses nobody.
"""

from collections.abc import Callable, Iterable

import msgspec

from ..evidence import Statement
from . import (
    absent_tasks,
    deaths,
    exceptions,
    hardware,
    moving,
    naming,
    no_record,
    outside,
    pods,
    ras,
    reports,
    silence,
    stacks,
    stalls,
    starting,
    waits,
)
from .attempts import last_attempt
from .case import Case, grounds
from .verdict import Verdict, several

_RULES: tuple[Callable[[Case], Verdict | None], ...] = (
    outside.with_reason,
    hardware.verdict,
    pods.verdict,
    starting.on_one_device,
    reports.sizes_of_nccl,
    exceptions.verdict,
    hardware.reset,
    hardware.of_unknown_time,
    starting.verdict,
    waits.verdict,
    reports.verdict,
    moving.verdict,
    deaths.verdict,
    absent_tasks.verdict,
    hardware.reset_somewhere,
    stalls.verdict,
    ras.settled,
    silence.verdict,
    exceptions.stuck,
    stacks.verdict,
    no_record.verdict,
    absent_tasks.without_progress,
    hardware.out_of_memory_somewhere,
    deaths.of_unknown_rank,
    starting.never_met,
    outside.without_reason,
)


def decide(statements: Iterable[Statement]) -> Verdict | None:
    """The verdict on a job's last attempt, or on those before if it says nothing of a failure; None if none does."""
    last, earlier = last_attempt(statements)
    made = _decided(last)
    before = _decided(earlier) if earlier and (made is None or made.kind == "insufficient_data") else None
    if before is None:
        return made
    if made is None:
        return msgspec.structs.replace(before, cause=f"{before.cause}; all ranks were then started again")
    return msgspec.structs.replace(made, cause=f"{made.cause}; the attempt before ended so: {before.cause}")


def _decided(statements: Iterable[Statement]) -> Verdict | None:
    case = Case(statements)
    made = next((made for rule in _RULES if (made := rule(case)) is not None), None)
    if made is None or (made.sure == "unsure" and not made.ranks and not case.calls):
        made = ras.beside(case, made)
    made = made or _insufficient(case) or ras.nobody(case)
    if made is None:
        return stacks.few(case) or no_record.nothing(case)
    return msgspec.structs.replace(made, chain=(*made.chain, *no_record.sentences(case)))


def _insufficient(case: Case) -> Verdict | None:
    lost = case.failed | set(case.exit_of)
    if not case.failures and not case.exits and not case.kernel:
        return None
    said: list[Statement] = [*case.failures, *case.exits, *case.kernel]
    who = f"{several(lost)} ended or lost a peer" if lost else "something failed"
    first = deaths.first_exit(case)
    if first is not None:
        who = f"rank {first} ended with {deaths.code_of(case.exit_of[first])} before the launcher ended the others"
    gone = [f"pid {pid} on {node}" for node, pid in deaths.lost_processes(case)]
    if gone:
        who += f", Ray lost {'the process' if len(gone) == 1 else 'processes, the first'} {gone[0]}"
    return Verdict(
        kind="insufficient_data",
        cause=f"{who}, and these files do not say {'why' if first is not None else 'who was first'}",
        victims=tuple(sorted(lost)),
        sure="unsure",
        next=f"what rank {first} wrote itself; srun --label says whose each line is"
        if first is not None
        else "the logs of all ranks and nodes, and their kernels' logs; with --tee 3 for torchrun, --label for srun",
        grounds=grounds(*said[:4]),
        chain=naming.sentences(case),
    )
