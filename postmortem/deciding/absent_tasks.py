"""Processes that are missed: by JAX's coordinator, or by the monitors of NVIDIA's resiliency extension.

Rule of this file: pure. A process that is only busy may send no heartbeat: one that reports its own death lives. Ranks
that wait for a late one make no progress either, so that a monitor of each accuses none.
"""

from .case import Case, grounds
from .verdict import Verdict, several

_MOST_NAMED = 2


def verdict(case: Case) -> Verdict | None:
    """By the coordinator's lists, or by what others say of the process that it is in."""
    return _silent(case) or _late(case) or _without_leader(case)


def without_progress(case: Case) -> Verdict | None:
    """By the monitors of ranks, where nothing else says more."""
    said = [one for one in case.failures if one.name == "no_progress" and one.rank is not None]
    ranks = {one.rank for one in said if one.rank is not None}
    if not ranks:
        return None
    return Verdict(
        kind="hang",
        cause=f"{several(ranks)} made no progress for {said[0].text} s, as their monitors report; these files do not "
        "say for which rank the others waited",
        victims=tuple(sorted(ranks)),
        sure="unsure",
        next="flight recorder dumps (TORCH_FR_BUFFER_SIZE=2000) or the stacks of all ranks: py-spy dump --pid PID",
        grounds=grounds(*said[:4]),
    )


def _silent(case: Case) -> Verdict | None:
    said = [one for one in case.failures if one.name == "no_heartbeat"]
    silent = {rank for one in said for rank in one.ranks}
    if not silent:
        return None
    alive = silent & {one.rank for one in said if one.rank is not None}
    why = (
        f"; {several(alive)} reports this itself, so it was alive, and too busy to send any"
        if alive
        else ": dead, preempted, or too busy to send any"
    )
    named = silent if len(silent) <= _MOST_NAMED else set()
    return Verdict(
        kind="hang" if alive else "died",
        cause=f"JAX's coordinator had no heartbeat of {_processes(silent)}{why}",
        ranks=tuple(sorted(named)),
        victims=tuple(sorted((case.ranks | silent) - named)),
        sure="likely" if len(silent) == 1 and not alive else "unsure",
        next=f"the log of process {min(silent)} and its node's kernel log; if it was only busy, a longer "
        "heartbeat_timeout_seconds for jax.distributed.initialize",
        grounds=grounds(*said[:4]),
    )


def _late(case: Case) -> Verdict | None:
    said = [one for one in case.failures if one.name == "not_at_barrier"]
    late = {rank for one in said for rank in one.ranks}
    if not late:
        return None
    barrier = next((one for one in case.failures if one.name == "task_barrier"), None)
    others = case.ranks - late
    named = late if len(late) <= _MOST_NAMED and not late & case.failed else set()
    return Verdict(
        kind="hang",
        cause=f"{_processes(late)} did not come to JAX's barrier{f' {barrier.text}' if barrier else ''}",
        ranks=tuple(sorted(named)),
        victims=tuple(sorted(others | (late - named))),
        others_line=case.line_in(case.failures),
        sure="likely" if len(named) == 1 else "unsure",
        next=f"the log of process {min(late)}: where it was, or how it ended",
        grounds=grounds(*([barrier] if barrier else []), *said[:3]),
    )


def _without_leader(case: Case) -> Verdict | None:
    """The coordinator is in process 0: the others cannot reach it, and it says nothing itself."""
    said = [one for one in case.failures if one.name == "no_leader" and one.rank is not None]
    ranks = {one.rank for one in said if one.rank is not None}
    if not ranks or 0 in case.failed:
        return None
    return Verdict(
        kind="died",
        cause=f"{_processes(ranks)} no longer reached JAX's coordinator, which is in process 0, and that has reported "
        "nothing: it ended first, or its node or network did",
        ranks=(0,),
        victims=tuple(sorted(ranks)),
        sure="unsure",
        next="the log of process 0, how it ended (sacct, kubectl describe), and its node's kernel log",
        grounds=grounds(*said[:4]),
    )


def _processes(ranks: set[int]) -> str:
    return several(ranks).replace("ranks", "processes").replace("rank", "process")
