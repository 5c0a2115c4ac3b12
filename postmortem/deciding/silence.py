"""A timeout is reported by everybody but the late one: who of a group's members says nothing?

Rule of this file: pure. Members are known by a record, by the sizes of a gather or scatter, or because the group is
the default one; where they are not known, silence means nothing. Two silent ranks are both named; more are not.
"""

from collections import Counter, defaultdict

import msgspec

from ..evidence import Call, Failure, Statement, Timeout
from ..places import innermost
from .case import Case, grounds
from .collectives import odd_ones
from .mismatch import differing
from .standing import standing
from .unseen import unseen
from .verdict import Sure, Verdict, several

_DEFAULT = ("", "0", "default_pg")
#: How the watchdog calls operations between two ranks, and a batch of these, or of collectives.
_BETWEEN_TWO = frozenset({"SEND", "RECV"})
_BATCH = "COALESCED"


def verdict(case: Case) -> Verdict | None:
    """By timeouts of NCCL's watchdog, or of gloo."""
    by_group: dict[tuple[str, str], list[Timeout]] = defaultdict(list)
    labels = _labels(case)
    for said in case.timeouts:
        if said.rank is not None:
            group, guid = (said.group, said.guid) if said.group else labels.get(said.rank, ("", ""))
            key = ("", "") if group in _DEFAULT else (group, guid)
            by_group[key].append(msgspec.structs.replace(said, group=key[0], guid=key[1]))
    ordered = [
        (group, said_by) for (group, _), said_by in sorted(by_group.items(), key=lambda one: (-len(one[1]), one[0]))
    ]
    if ordered:
        elsewhere = {said.rank for _, said_by in ordered[1:] for said in said_by if said.rank is not None}
        made = _of_group(case, *ordered[0], elsewhere)
        return made if made.ranks or made.kind != "hang" else _with_others(made, ordered[1:])
    waited = [
        one for one in case.failures if one.role == "waiter" and one.name == "timeout_gloo" and one.rank is not None
    ]
    return _of_gloo(case, waited) if waited else None


def _labels(case: Case) -> dict[int, tuple[str, str]]:
    """The group that a rank's watchdog speaks of in another line, where there is one alone with such a number."""
    made: dict[int, tuple[str, str]] = {}
    for said in case.progress:
        if said.rank is not None and said.group and said.enqueued > said.completed:
            made.setdefault(said.rank, (said.group, said.guid))
    return made


def _with_others(made: Verdict, others: list[tuple[str, list[Timeout]]]) -> Verdict:
    """A verdict that accuses nobody, with who waited in other groups: one of them may wait for the other."""
    if not others:
        return made
    waits = [f"{_who_waited_where(_first(said_by))} of group {group or 'default_pg'}" for group, said_by in others[:3]]
    victims = {said.rank for _, said_by in others for said in said_by if said.rank is not None}
    return msgspec.structs.replace(
        made, cause=f"{made.cause}; {'; '.join(waits)}", victims=tuple(sorted({*made.victims, *victims}))
    )


def _of_group(case: Case, group: str, said_by: list[Timeout], elsewhere: set[int]) -> Verdict:
    """Who is late for ``group``; a rank that waited in vain ``elsewhere`` waits for somebody itself."""
    first = _first(said_by)
    seq = Counter(said.seq for said in first.values()).most_common(1)[0][0]
    if why := _unclear(first, group, seq):
        return _too_few(first, group, seq, why)
    mismatch = _mismatch(case, group, seq, first)
    if mismatch is not None:
        return mismatch
    if (unfinished := _unfinished(case, group, first)) is not None:
        return unfinished
    size = _size(said_by)
    members = _members(case, group, first, size)
    if members is None:
        late = _behind(case, set(case.ranks)) - set(first) - elsewhere
        if size is not None and len(set(first) | late) < size and 0 < len(late) <= 2:
            return _of_part(_late(case, late, dict(first), group, seq, late), size - len(set(first) | late))
        return _too_few(first, group, seq, _stuck_watchdogs(case, case.ranks - set(first)))
    silent = members - set(first) - elsewhere
    behind = _behind(case, members) - elsewhere
    late = silent
    if len(silent) > 1 and behind and behind < silent:
        late = behind
    if (
        not members - set(first)
        and len({said.seq for said in first.values()}) == 1
        and _are_all(case, group, first, size)
    ):
        return _too_few(first, group, seq, "all its ranks did: the network, the library or a device; no rank is late")
    if not late or len(late) > 2 or len(late) * 2 > len(members):
        return _too_few(first, group, seq, _stuck_watchdogs(case, silent))
    if why := unseen(case, late, said_by):
        return _too_few(first, group, seq, why)
    return _late(case, late, dict(first), group, seq, behind)


def _unclear(first: dict[int, Timeout], group: str, seq: int) -> str:
    """Why it does not follow from these lines who waits for whom; "" where it may."""
    within = [said.within for said in first.values() if said.within is not None]
    if group and len(set(within)) < len(within):  # The groups of one split share all their names.
        return "several groups have this name, and these lines do not say who is in which"
    if seq < 0 and len({said.operation for said in _collectives(first).values() if said.operation}) > 1:
        return "their calls differ, and these lines have no numbers of them: compare the order"
    return ""


def _of_part(made: Verdict, unknown: int) -> Verdict:
    """A verdict on the ranks whose lines are here, where the group has more."""
    cause = made.cause.replace("is the only one that reports no", "reports no", 1)
    others = f"these files have no line of {unknown} other rank{'s' if unknown > 1 else ''} of the group"
    return msgspec.structs.replace(made, cause=f"{cause}; {others}", sure="unsure")


def _first(said_by: list[Timeout]) -> dict[int, Timeout]:
    """By rank the smallest number that timed out: what is behind it in the queue times out, too, in any order."""
    made: dict[int, Timeout] = {}
    for said in said_by:
        if said.rank is not None and (said.rank not in made or 0 <= said.seq < made[said.rank].seq):
            made[said.rank] = said
    return made


def _collectives(first: dict[int, Timeout]) -> dict[int, Timeout]:
    """Without operations between two ranks: a send meets a receive, and ranks may count theirs differently."""
    if not any(said.operation in _BETWEEN_TWO for said in first.values()):
        return first
    return {rank: said for rank, said in first.items() if said.operation not in {*_BETWEEN_TWO, _BATCH}}


def _mismatch(case: Case, group: str, seq: int, first: dict[int, Timeout]) -> Verdict | None:
    """Ranks that waited in the same number of a group and call it differently."""
    calls = {
        rank: Call(
            rank=rank,
            source=said.source,
            group=group,
            label=group or "default_pg",
            seq=seq,
            operation=said.operation,
            numel_in=said.numel_in,
            numel_out=said.numel_out,
        )
        for rank, said in _collectives(first).items()
        if said.seq == seq >= 0 and said.operation
    }
    odd, differ = odd_ones(calls)
    return differing(case, group or "default_pg", seq, calls, odd) if differ else None


def _unfinished(case: Case, group: str, first: dict[int, Timeout]) -> Verdict | None:
    """The few ranks that timed out in a collective that all the others say they have ended."""
    guid = next(iter(first.values())).guid
    of_group = [
        one for one in case.progress if ((one.group, one.guid) == (group, guid) if group else one.group in _DEFAULT)
    ]
    ended = {one.rank: one.completed for one in of_group}
    usual = Counter(said.seq for said in first.values()).most_common(1)[0][0]
    low = {rank: said for rank, said in first.items() if 0 <= said.seq < usual}
    others = set(first) - set(low)
    if not 0 < len(low) <= 2 or len(low) * 2 >= len(first):
        return None
    last = max(said.seq for said in low.values())
    if any(ended.get(rank, -1) < last for rank in others):
        return None
    one = low[min(low)]
    what = f"{one.operation.lower().strip('_') or 'collective'} {one.seq}"
    return Verdict(
        kind="hang",
        cause=f"{several(set(low))} {'has' if len(low) == 1 else 'have'} not ended {what}, which the others have: they "
        f"wait in number {usual} of group {group or 'default_pg'}",
        ranks=tuple(sorted(low)),
        victims=tuple(sorted(others)),
        group=group or "default_pg",
        seq=one.seq,
        operation=one.operation or None,
        others_line=_others_line(case, others),
        sure="likely",
        next="the device and the links of that rank: dmesg and nvidia-smi on its node, and its flight recorder's dump",
        grounds=grounds(*list(low.values())[:2], *[first[rank] for rank in sorted(others)[:2]]),
    )


def _size(said_by: list[Timeout]) -> int | None:
    """The members of a group, as an operation that gathers or scatters evenly tells by its sizes."""
    for said in said_by:
        less, more = sorted((said.numel_in, said.numel_out))
        if "BASE" in said.operation and less > 0 and more > less and more % less == 0:
            return more // less
    return None


def _members(case: Case, group: str, first: dict[int, Timeout], size: int | None) -> set[int] | None:
    if recorded := _recorded(case, group, first):
        return recorded
    if (group in _DEFAULT and size is None) or (size is not None and size == len(case.ranks)):
        return set(case.ranks)
    return None


def _recorded(case: Case, group: str, first: dict[int, Timeout]) -> set[int]:
    """The members of the group of those who waited ``first``, by a dump, which has them under the group's own name and
    its entries under what the group is for, as other groups may have theirs."""
    called = (next(iter(first.values())).guid, group) if group else _DEFAULT
    names = [*called, *dict.fromkeys(call.group for call in case.calls if call.label in called)]
    listed = (set(dump.members.get(name, ())) for name in names for dump in case.dumps)
    return next((members for members in listed if members and set(first) <= members), set())


def _are_all(case: Case, group: str, first: dict[int, Timeout], size: int | None) -> bool:
    """Whether the members are those of a record, or as many as the operation says."""
    return size is not None or bool(_recorded(case, group, first))


def _behind(case: Case, members: set[int]) -> set[int]:
    """Those whose last number in the default group is smaller than that of most."""
    last = {
        said.rank: said.enqueued
        for said in case.progress
        if said.group in _DEFAULT and said.rank is not None and said.rank in members
    }
    if len(last) < 3:
        return set()
    usual = Counter(last.values()).most_common(1)[0][0]
    return {rank for rank, number in last.items() if number < usual}


def _stuck_watchdogs(case: Case, silent: set[int]) -> str:
    """In words, of silent ranks whose watchdog stood in a call itself; "" where there are none."""
    stuck = {one.rank for one in case.failures if one.name == "stuck" and one.rank in silent and one.rank is not None}
    if not stuck:
        return ""
    return (
        f"the watchdog of {several(stuck)} was stuck itself, in a call of CUDA or NCCL or for Python's lock, "
        "so they could not report it"
    )


def _late(case: Case, late: set[int], said_by: dict[int, Statement], group: str, seq: int, behind: set[int]) -> Verdict:
    found = standing(case, min(late))
    some = next(said for said in said_by.values() if said.rank is not None)
    operation = some.operation if isinstance(some, Timeout) else ""
    what = f"{operation.lower().strip('_') or 'collective'}{f' {seq}' if seq >= 0 else ''}"
    alone = len(late) == 1
    verb = "is the only one that reports" if alone else "report"
    cause = f"{several(late)} {verb} no timeout in group {group or 'default_pg'}"
    if late & behind:
        numbers = {said.rank: said.enqueued for said in case.progress if said.group in _DEFAULT}
        cause += (
            f", and in the default group it is behind ({numbers[min(late & behind)]} against {max(numbers.values())})"
        )
    it = "it has not issued" if alone else "they have not issued"
    cause += f": {it} {what}, or {'is' if alone else 'are'} inside the library while issuing it"
    if found.doing:
        cause = f"{found.doing} when the others' {what} timed out"
    sure: Sure = "likely" if alone else "unsure"
    return Verdict(
        kind="hang",
        cause=cause,
        ranks=tuple(sorted(late)),
        victims=tuple(sorted(set(said_by) - late)),
        group=group or "default_pg",
        seq=seq if seq >= 0 else None,
        operation=operation or None,
        line=found.line,
        worker_line=found.worker_line,
        others_line=_others_line(case, set(said_by)),
        sure=sure,
        next=(
            None
            if found.line
            else f"the stack of rank {min(late)} while it lives: PyTorch keeps it 60 s after the first of these lines"
        ),
        grounds=(*grounds(*list(said_by.values())[:3]), *found.grounds),
    )


def _others_line(case: Case, ranks: set[int]) -> str | None:
    places = Counter(
        place for one in case.failures if one.rank in ranks and (place := innermost(one.frames)) is not None
    )
    return case.line(places.most_common(1)[0][0]) if places else None


def _too_few(first: dict[int, Timeout], group: str, seq: int, why: str = "") -> Verdict:
    some = next(one for one in first.values() if one.seq == seq)
    return Verdict(
        kind="hang",
        cause=(
            f"{_who_waited_where(first)} of group {group or 'default_pg'} until it timed out; "
            f"{why or 'these files do not say who did not come'}"
        ),
        victims=tuple(sorted(first)),
        group=group or "default_pg",
        seq=seq if seq >= 0 else None,
        operation=some.operation or None,
        sure="unsure",
        next="the logs of all ranks, or flight recorder dumps (TORCH_FR_BUFFER_SIZE=2000, TORCH_FR_DUMP_ON_TIMEOUT=1)",
        grounds=grounds(*list(first.values())[:4]),
    )


def _who_waited_where(first: dict[int, Timeout]) -> str:
    """ "ranks 1-3 waited in broadcast 4, rank 0 in allreduce 5": the largest group first, three at most."""
    by_call: dict[tuple[int, str], set[int]] = defaultdict(set)
    for rank, said in first.items():
        by_call[said.seq, said.operation.lower().strip("_")].add(rank)
    ordered = sorted(by_call.items(), key=lambda one: (-len(one[1]), one[0]))
    made: list[str] = []
    for (seq, operation), ranks in ordered[:3]:
        called = f"{operation or 'a collective'}{f' {seq}' if seq >= 0 else ''}"
        made.append(f"{several(ranks)} {'in' if made else 'waited in'} {called}")
    left = f", and others in {len(ordered) - 3} more" if len(ordered) > 3 else ""
    return ", ".join(made) + left


def _of_gloo(case: Case, waited: list[Failure]) -> Verdict | None:
    """Gloo's timeouts name neither group nor number: the only silent rank of all is the late one."""
    said_by = {one.rank: one for one in waited if one.rank is not None}
    victims = {one.rank for one in case.failures if one.role == "victim" and one.rank is not None}
    silent = case.ranks - set(said_by) - victims
    if not silent or len(silent) > 2 or len(silent) >= len(said_by) + len(victims):
        return None
    operation = next((one.frames and _operation(one) for one in waited), "") or "collective"
    if why := unseen(case, silent, waited):
        return Verdict(
            kind="hang",
            cause=f"{several(set(said_by))} waited in {operation} until it timed out; {why}",
            victims=tuple(sorted(set(said_by) | victims)),
            operation=operation,
            others_line=_others_line(case, set(said_by)),
            sure="unsure",
            next="the logs of all ranks: torchrun --tee 3, without --local-ranks-filter",
            grounds=grounds(*waited[:3]),
        )
    found = standing(case, min(silent))
    ended = [case.exit_of[rank] for rank in sorted(silent) if rank in case.exit_of]
    cause = f"{found.doing or f'{several(silent)} reported nothing'} when the others' {operation} timed out" + (
        "; the launcher then ended it (SIGTERM)" if any(one.code == -15 for one in ended) else ""
    )
    return Verdict(
        kind="hang",
        cause=cause,
        ranks=tuple(sorted(silent)),
        victims=tuple(sorted(set(said_by) | victims)),
        operation=operation,
        line=found.line,
        worker_line=found.worker_line,
        others_line=_others_line(case, set(said_by)),
        sure="likely" if len(silent) == 1 else "unsure",
        next=None if found.line else f"the stack of rank {min(silent)}: py-spy dump --nonblocking --pid PID",
        grounds=(*grounds(*waited[:3], *ended), *found.grounds),
    )


def _operation(failed: Failure) -> str:
    return next((frame.function for frame in failed.frames if "torch/distributed" in frame.file), "")
