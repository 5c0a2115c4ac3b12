"""Reports of NCCL's RAS: a process that cannot be reached, an error, a rank that has launched less than the others.

Rule of this file: pure. The newest report counts. RAS counts launches, and asks ranks one after the other while they
work: one report cannot tell a late rank from a busy job, so it is unsure. It is likely if the rank has launched nothing
between two reports, or if others have waited until their time was over and this one has not.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from ..evidence import RasProcess, RasRanks, Source
from .case import Case
from .ras_behind import Behind, behind, different, movement, uneven
from .ras_reports import Communicator, Place, Report, place, reports
from .ras_words import counts, launched, process, who
from .standing import Standing, standing
from .verdict import Kind, Verdict

#: More are not accused, unless they are all of one node.
_MOST_ACCUSED = 8
_MOST_OF_A_NODE = 64
#: With so many reports before the newest it is compared.
_MOST_BEFORE = 16
#: Those of a larger job are not listed as victims.
_MOST_OTHERS = 1 << 17
#: What follows from an error elsewhere.
_REMOTE = "Remote process error"
#: Words for a rank that has left, or leaves, what the others are in, or has not come to it.
_APART = {
    "FINALIZE": "it leaves the communicator",
    "NOCOMM": "it has left the communicator, or has not joined it",
    "UNKNOWN": "it has left the communicator, or has not joined it",
    "INIT": "it is not ready",
}
_STACKS = "stacks of all ranks (py-spy dump), flight recorder dumps, and a second report 30 s later"
_AGAIN = "a second report 30 s later (ncclras -v), given together with this one"


def settled(case: Case) -> Verdict | None:
    """What the reports say surely enough to come before silence and stacks."""
    made = verdict(case)
    return made if made is not None and made.sure != "unsure" else None


def verdict(case: Case) -> Verdict | None:
    """What the newest report names."""
    every = reports(case)
    if not every:
        return None
    last, before = every[-1], every[:-1][-_MOST_BEFORE:]
    return (
        _unreachable(case, last)
        or _failed(case, last)
        or _different(case, last)
        or _behind(case, last, before)
        or _apart(case, last)
    )


def beside(case: Case, made: Verdict | None) -> Verdict | None:
    """A verdict that other files give without a rank: that of the reports in its place, or what they say beside it."""
    named = verdict(case)
    if named is not None or made is None:
        return named
    level = nobody(case)
    return made if level is None else msgspec.structs.replace(made, chain=(*made.chain, level.cause))


def nobody(case: Case) -> Verdict | None:
    """Reports that name no rank say so: with all counts where they differ."""
    every = reports(case)
    if not every:
        return None
    last = every[-1]
    which = f"the last of {len(every)} RAS reports" if len(every) > 1 else "the RAS report"
    if sides := uneven(last):
        cause, step = f"{which} names no rank: {'; '.join(counts(*one) for one in sides[:3])}", _AGAIN
    elif last.gone_count:
        cause = f"{which} has no data from {last.gone_count} process{'es' if last.gone_count > 1 else ''}"
        step = "ncclras -v, which lists them, and the kernels' logs of their nodes"
    else:
        cause, step = f"{which} shows {_level(last)}", _STACKS
    return Verdict(kind="insufficient_data", cause=cause, sure="unsure", next=step, grounds=(last.source,))


def _level(last: Report) -> str:
    many = sum(one.communicators for one in last.groups.values()) or len(last.communicators)
    ranks = max((one.size for one in last.groups.values()), default=0)
    where = f"{many} communicator{'s' if many != 1 else ''}" + (f" (the largest has {ranks} ranks)" if ranks else "")
    return (
        f"no rank behind and no process out of reach in {where}: RAS counts launches, so it does not see a collective "
        "that does not end"
    )


def _unreachable(case: Case, last: Report) -> Verdict | None:
    gone = last.gone
    away = {place(one): one for each in last.communicators.values() for one in each.missing if place(one) is not None}
    many = max(last.gone_count, len(gone))
    nodes = {one.node for one in gone}
    if not gone or many > len(gone) or (last.processes and many * 2 >= last.processes):
        return None
    if len(gone) > _MOST_ACCUSED and len(nodes) > 1:
        return None
    ranks = {rank for one in gone if (rank := _rank_of_process(case, last, one, away)) is not None}
    dead = all(one.dead for one in gone)
    names = "; ".join(process(one, _rank_of_process(case, last, one, away)) for one in gone[:_MOST_ACCUSED])
    does = f"do{'es' if len(gone) == 1 else ''} not answer NCCL's RAS"
    given = ", which considers it dead" if dead else ""
    return Verdict(
        kind="hang",
        cause=f"{names} {does}{given}: it has ended, is stopped, or its node is out of reach",
        ranks=tuple(sorted(ranks)),
        victims=_others(case, last, ranks),
        nodes=tuple(sorted(nodes - {""})),
        sure="likely" if dead else "unsure",
        next=f"ps -o stat,wchan -p {gone[0].pid} on {gone[0].node}, and the kernel's log of that node",
        grounds=tuple(one.source for one in gone[:4]),
    )


def _rank_of_process(case: Case, last: Report, one: RasProcess, away: dict[Place | None, RasRanks]) -> int | None:
    """Of a process with one GPU, by what the report lists as missing, or by other files."""
    listed = away.get((one.node, one.pid, one.gpu)) if one.pid is not None else None
    if listed is not None:
        return last.rank_of(case, listed)
    alone = [each.missing for each in last.communicators.values() if last.has_all(case, each.size)]
    if len(last.gone) == 1 and len(alone) == 1 and len(alone[0]) == 1:
        return alone[0][0].member  # NCCL 2.24 gives only the numbers of ranks that are missing.
    return case.rank_of_pid(one.pid, one.node)


def _failed(case: Case, last: Report) -> Verdict | None:
    for communicator in last.communicators.values():
        own = [level for level in communicator.errors if level.value != _REMOTE]
        members = [one for level in own for one in level.members]
        if not own or sum(level.ranks for level in own) != len(members) or not _few(members, communicator.size):
            continue
        what = own[0].value
        return _named(
            case,
            last,
            communicator,
            members,
            f"reported to NCCL: {what}",
            sure="likely" if what == "Unhandled CUDA error" else "unsure",
            step="the log of that rank, and the kernel's log of its node (Xid)",
            grounds=[level.source for level in own],
        )
    return None


def _different(case: Case, last: Report) -> Verdict | None:
    found = different(last)
    if found is None or not _few(list(found.members), found.communicator.size):
        return None
    (few, low, usual), (many, high, other) = found.fewer, found.more
    does = (
        f"{launched(few, low)} and {launched(many, high)}, where most {launched(few, usual)} and "
        f"{launched(many, other)}: its calls differ"
    )
    return _named(
        case,
        last,
        found.communicator,
        found.members,
        f"{_has(found.members)} {does}",
        kind="collective_mismatch",
        sure="unsure",
        step="flight recorder dumps of all ranks (TORCH_FR_BUFFER_SIZE=2000) show the call",
        grounds=[low.source, high.source],
        operation=few,
    )


def _behind(case: Case, last: Report, before: list[Report]) -> Verdict | None:
    found = behind(last)
    if not found:
        return None
    first = found[0]
    own = {place(one) for one in first.members}
    elsewhere = any({place(member) for member in one.members} - own for one in found[1:])
    if elsewhere or not _few(list(first.members), first.communicator.size):
        return None
    moves = movement(before, last, first.members)
    words = f"{launched(first.operation, first.low)}, the others up to {first.high.value}"
    if moves == "moved":
        # Where something failed later, the reports are of before.
        return None if case.timeouts or case.failures or case.exits else _moving(case, last, first, words)
    late = moves != "still" and _others_waited(case, last, first)
    return _named(
        case,
        last,
        first.communicator,
        first.members,
        f"{_has(first.members)} {words}{_how_sure(first, len(before), moves == 'still', late)}",
        sure="likely" if moves == "still" or late else "unsure",
        step=None if moves == "still" else _AGAIN,
        grounds=[first.low.source, first.high.source],
        operation=first.operation,
    )


def _others_waited(case: Case, last: Report, found: Behind) -> bool:
    """Whether timeouts show that the job hung, and none is of those who are behind."""
    ranks = _ranks(case, last, found.members)
    waited = {said.rank for said in case.timeouts}
    return bool(ranks) and bool(waited) and not ranks & waited


def _how_sure(found: Behind, before: int, still: bool, late: bool) -> str:
    if still:
        return f"; {'they have' if len(found.members) > 1 else 'it has'} not moved between two reports"
    if late:
        return ""
    gap = int(found.high.value) - int(found.low.value)
    flight = ", and one operation less can be in flight" if gap == 1 else ""
    return f"; {'these reports do' if before else 'one report does'} not say whether that changes{flight}"


def _has(members: tuple[RasRanks, ...]) -> str:
    return "have" if len(members) > 1 else "has"


def _moving(case: Case, last: Report, found: Behind, words: str) -> Verdict:
    ranks = _ranks(case, last, found.members)
    has = _has(found.members)
    return Verdict(
        kind="waiting",
        cause=f"{who(case, last, found.members)} {has} {words}, and {has} moved since the report before",
        slow=tuple(sorted(ranks)),
        group=found.communicator.name,
        operation=found.operation,
        sure="likely",
        next="nothing yet: this is no hang; check again if it continues",
        grounds=(found.low.source, found.high.source),
    )


def _apart(case: Case, last: Report) -> Verdict | None:
    """A rank whose status is not that of most."""
    for communicator in last.communicators.values():
        usual = max(communicator.statuses, key=lambda level: level.ranks, default=None)
        for level in communicator.statuses:
            word = str(level.value)
            few = level.listed and _few(list(level.members), communicator.size)
            if usual is None or level is usual or usual.value != "RUNNING" or word not in _APART or not few:
                continue
            return _named(
                case,
                last,
                communicator,
                level.members,
                f"has status {word} where {usual.ranks} have {usual.value}: {_APART[word]}",
                sure="unsure",
                step=_AGAIN,
                grounds=[level.source, usual.source],
            )
    return None


def _few(members: list[RasRanks], size: int) -> bool:
    """Whether these may be accused: fewer than half, and few or of one node."""
    of_a_node = len(members) <= _MOST_OF_A_NODE and len({one.node for one in members}) == 1 and bool(members[0].node)
    return 0 < len(members) * 2 < size and (len(members) <= _MOST_ACCUSED or of_a_node)


def _ranks(case: Case, last: Report, members: Iterable[RasRanks]) -> set[int]:
    return {rank for one in members if (rank := last.rank_of(case, one)) is not None}


def _others(case: Case, last: Report, ranks: set[int]) -> tuple[int, ...]:
    """The other ranks of the job, where a communicator has all."""
    whole = any(last.has_all(case, one.size) for one in last.groups.values())
    few = whole and ranks and last.gpus <= _MOST_OTHERS
    return tuple(rank for rank in range(last.gpus) if rank not in ranks) if few else ()


def _named(
    case: Case,
    last: Report,
    communicator: Communicator,
    members: Iterable[RasRanks],
    does: str,
    *,
    step: str | None,
    grounds: list[Source],
    kind: Kind = "hang",
    **rest: Any,
) -> Verdict:
    """The verdict on ``members``, of whom ``does`` says what the report shows; ``rest`` are fields of it."""
    own = list(members)
    ranks = _ranks(case, last, own)
    found = standing(case, min(ranks)) if ranks else Standing()
    named = f" (communicator {communicator.name}, {communicator.size} ranks)" if ranks else ""
    return Verdict(
        kind=kind,
        cause=f"{found.doing + '; ' if found.doing else ''}{who(case, last, own)} {does}{named}",
        ranks=tuple(sorted(ranks)) if len(ranks) == len(own) else (),
        victims=_others(case, last, ranks),
        group=communicator.name,
        line=found.line,
        worker_line=found.worker_line,
        next="; ".join(one for one in (None if found.line else _stack(own[0]), step) if one) or None,
        grounds=tuple(dict.fromkeys((*(one.source for one in own[:2]), *grounds, *found.grounds))),
        **_places(own),
        **rest,
    )


def _places(members: list[RasRanks]) -> dict[str, Any]:
    """Their nodes and GPUs, as a verdict names them."""
    return {
        "nodes": tuple(sorted({one.node for one in members} - {""})),
        "devices": tuple(dict.fromkeys(f"GPU {one.gpu} of {one.node}" for one in members if one.gpu)),
    }


def _stack(one: RasRanks) -> str | None:
    """The command that prints its stack."""
    return f"py-spy dump --nonblocking --pid {one.pid} on {one.node}" if one.pid is not None else None
