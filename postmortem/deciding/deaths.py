"""Who went first where no exception says it: the chain of names, exit codes, and who left early.

Rule of this file: pure. A launcher's own signals are no cause. A rank that ended with 0 while the others were in a
collective has left early; torchrun's table does not list it.
"""

from ..evidence import Exit, Failure
from .case import Case, grounds
from .naming import first_to_go, named_by
from .verdict import Sure, Verdict, several

_SIGNALS = {
    -9: "was killed (SIGKILL): for memory, or by an operator",
    -11: "crashed (SIGSEGV)",
    -7: "crashed (SIGBUS): often a full /dev/shm or a file that became shorter",
    -4: "crashed (SIGILL)",
    -8: "crashed (SIGFPE)",
}


def verdict(case: Case) -> Verdict | None:
    """By exit codes, then by names."""
    return _signalled(case) or _left_early(case) or _named(case) or _lost_actor(case) or _aborted(case)


def _victims(case: Case, ranks: set[int]) -> tuple[int, ...]:
    said = {one.rank for one in (*case.failures, *case.timeouts, *case.exits) if one.rank is not None}
    return tuple(sorted((said | set(case.exit_of)) - ranks))


def _signalled(case: Case) -> Verdict | None:
    found = {
        rank: one for rank, one in case.exit_of.items() if one.code in _SIGNALS and not case.ended_by_launcher(one)
    }
    if not found:
        return None
    named = first_to_go(case)
    ranks = {named} if named in found else _earliest(found)
    if len(ranks) > 2:
        return None
    node = case.nodes.get(min(ranks), "")
    sure: Sure = "likely" if len(ranks) == 1 else "unsure"
    return Verdict(
        kind="died",
        cause=_how(found, ranks),
        ranks=tuple(sorted(ranks)),
        victims=_victims(case, ranks),
        nodes=(node,) if node and len(ranks) == 1 else (),
        line=case.line_of(min(ranks)),
        sure=sure,
        next=f"the kernel's log of {node or 'its node'}: dmesg -T | tail -50",
        grounds=grounds(*(found[rank] for rank in sorted(ranks))),
    )


def _earliest(found: dict[int, Exit]) -> set[int]:
    """The one that its launcher saw end first, by more than the second that its clock shows; else all of them."""
    times = {rank: one.time_s for rank, one in found.items() if one.time_s is not None}
    first = min(times, key=lambda rank: times[rank]) if len(times) == len(found) else None
    if first is None or not found[first].first:
        return set(found)
    return {first} if all(times[rank] > times[first] + 1.0 for rank in times if rank != first) else set(found)


def _how(found: dict[int, Exit], ranks: set[int]) -> str:
    """How these ended, in words: those together that ended alike."""
    alike: dict[int, list[int]] = {}
    for rank in sorted(ranks):
        alike.setdefault(found[rank].code, []).append(rank)
    return "; ".join(f"{several(those)} {_SIGNALS[code]}" for code, those in alike.items())


def of_unknown_rank(case: Case) -> Verdict | None:
    """By a signal that its launcher saw, where nothing says which rank of the job the process was."""
    seen = [one for one in case.exits if one.rank is None and one.code in _SIGNALS and not case.ended_by_launcher(one)]
    processes = {(one.node, one.local_rank, one.pid): one for one in seen}
    if len(processes) != 1:
        return None
    (one,) = processes.values()
    who = "a process of the job" if one.local_rank is None else f"local rank {one.local_rank}"
    who += (f" (pid {one.pid})" if one.pid is not None else "") + (f" on {one.node}" if one.node else "")
    what = one.pid if one.pid is not None else "-iE 'killed process|segfault'"
    return Verdict(
        kind="died",
        cause=f"{who} {_SIGNALS[one.code]}; no file says which rank that is",
        victims=_victims(case, set()),
        nodes=(one.node,) if one.node else (),
        sure="unsure",
        next=f"the kernel's log of {one.node or 'its node'}: dmesg -T | grep {what}",
        grounds=grounds(one),
    )


def _left_early(case: Case) -> Verdict | None:
    """Ended with 0 while others waited for it."""
    waited = any(one.role in ("victim", "waiter") for one in case.failures) or bool(case.timeouts)
    ended = {rank for rank, one in case.exit_of.items() if one.code == 0}
    failed = {rank for rank, one in case.exit_of.items() if one.code != 0}
    unlisted = _unlisted(case) if not ended else set()
    ranks = ended or unlisted
    if not waited or not failed or not ranks or len(ranks) * 2 >= len(ranks | failed):
        return None
    how = "ended with exit code 0" if ended else "is in no table of failures, so it ended with exit code 0,"
    return Verdict(
        kind="died",
        cause=f"{several(ranks)} {how} while the others were in a collective: it left early, as with uneven data",
        ranks=tuple(sorted(ranks)),
        victims=_victims(case, ranks),
        line=case.line_of(min(ranks)),
        sure="certain" if ended else "likely",
        next="give all ranks the same number of steps (drop_last, Join), or look why that rank's loop ended",
        grounds=grounds(*(case.exit_of[rank] for rank in sorted(ended)), *list(case.exits)[:2]),
    )


def _unlisted(case: Case) -> set[int]:
    """Ranks that the whole table of a node's agent leaves out: known ones, and holes among its local ranks."""
    tables: dict[str, dict[int, int]] = {}
    files: dict[str, set[str]] = {}
    for one in case.exits:
        if one.local_rank is not None and one.rank is not None:
            tables.setdefault(one.node, {})[one.local_rank] = one.rank
            files.setdefault(one.source.file, set()).add(one.node)
    listed = {rank for ranks in tables.values() for rank in ranks.values()}
    holes: set[int] = set()
    spoke = case.failed
    whole = {one.node for one in case.exits if one.first and one.rank is not None}
    for node, ranks in tables.items():
        if node not in whole:  # Its end is missing, where the first exit is.
            continue
        first = {rank - local for local, rank in ranks.items()}
        if len(first) != 1:
            continue
        base = first.pop()
        holes.update(base + local for local in range(min(max(ranks), 1024)) if local not in ranks)
        # Local ranks that wrote something behind the launcher's mark, in a log of this node alone.
        alone = {file for file, nodes in files.items() if nodes == {node}} if len(tables) == 1 else set()
        holes.update(
            base + one.local_rank
            for one in case.present
            if one.local_rank is not None and one.local_rank < 1024 and one.source.file in alone
        )
        # A rank that failed and is not in the only table is of another node, as those below its first are.
        if len(tables) == 1 and not spoke - listed:
            holes.update(rank for rank in case.ranks if rank > base)
    return holes - listed - spoke


def _named(case: Case) -> Verdict | None:
    first = first_to_go(case)
    if first is None:
        return None
    naming = sorted(rank for rank, peers in named_by(case).items() if first in peers)
    ended = case.exit_of.get(first)
    how = f"; it ended with {code_of(ended)}" if ended else ""
    return Verdict(
        kind="died",
        cause=f"{several(naming)} lost the connection to rank {first}, which names no other rank: it ended first{how}",
        ranks=(first,),
        victims=_victims(case, {first}),
        line=case.line_of(first),
        sure="likely",
        next=f"the log and exit of rank {first}, and its node's kernel log",
        grounds=grounds(
            *[one for one in case.failures if one.rank in naming and one.peer][:3], *([ended] if ended else [])
        ),
    )


def first_exit(case: Case) -> int | None:
    """The one rank that ended by itself, where its launcher has ended all others, or says that it was the first."""
    own = [rank for rank, one in case.exit_of.items() if not (one.code == -15 or case.ended_by_launcher(one))]
    if len(own) != 1 or own[0] in case.failed:
        return None
    first = case.exit_of[own[0]]
    others = [one for rank, one in case.exit_of.items() if rank != own[0]]
    behind = all(one.source.file == first.source.file and one.source.line > first.source.line for one in others)
    in_a_box = first.first and first.pid is None
    return own[0] if first.code != 0 and (behind if others else in_a_box) else None


def code_of(ended: Exit) -> str:
    """How a process ended, in words."""
    return f"signal {-ended.code}" if ended.code < 0 else f"exit code {ended.code}"


def lost_processes(case: Case) -> dict[tuple[str, int | None], Failure]:
    """The processes that Ray says are gone, by node and pid."""
    return {(one.node, one.of_pid): one for one in case.failures if one.name == "actor_died"}


def _lost_actor(case: Case) -> Verdict | None:
    """The one process of Ray's that is gone. One that waited in vain before was ended by its own watchdog."""
    gone = lost_processes(case)
    if len(gone) != 1:
        return None
    (one,) = gone.values()
    if any(said.name == "actor_died" and said.text for said in case.failures):
        return None  # Of others that ended, Ray has printed no line.
    waited = {said.rank for said in (*case.timeouts, *case.failures) if said is not one and said.rank is not None}
    if one.rank in waited or (one.rank is None and (case.timeouts or waited)):
        return None
    process = f"pid {one.of_pid} on {one.node}"
    whose = f"rank {one.rank} ({process})" if one.rank is not None else f"a worker of Ray ({process})"
    unknown = "" if one.rank is not None else ", and no file says which rank that is"
    return Verdict(
        kind="died",
        cause=f"the process of {whose} is gone; Ray does not know how it ended{unknown}",
        ranks=() if one.rank is None else (one.rank,),
        victims=_victims(case, {one.rank} if one.rank is not None else set()),
        sure="likely" if one.rank is not None else "unsure",
        next=f"the kernel's log of {one.node} (dmesg -T | tail -50), and the file *{one.of_pid}.err among Ray's logs",
        grounds=grounds(one),
    )


def _aborted(case: Case) -> Verdict | None:
    """Only exit codes, and one rank's is not what a launcher sends."""
    odd = {
        rank: one for rank, one in case.exit_of.items() if one.code not in (0, -15) and not case.ended_by_launcher(one)
    }
    spoke = {one.rank for one in case.failures if one.role in ("victim", "waiter")}
    if len(odd) != 1 or len(case.exit_of) < 2:
        return None
    rank, one = next(iter(odd.items()))
    # Python's own exit code for an exception, and that of a victim's abort, need words: they are not in these files.
    if one.code in (1, -6) or (spoke and (rank in spoke or None in spoke or not one.first)):
        return None
    return Verdict(
        kind="died",
        cause=f"rank {rank} ended with {code_of(one)} while the others were shut down; no file says why",
        ranks=(rank,),
        victims=_victims(case, {rank}),
        sure="unsure",
        next=f"the log of rank {rank}",
        grounds=grounds(one),
    )
