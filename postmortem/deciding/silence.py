"""A timeout is reported by everybody but the late one: who of a group's members says nothing?

Rule of this file: pure. Members are known by a record, by the sizes of a gather or scatter, or because the group is
the default one; where they are not known, silence means nothing. Two silent ranks are both named; more are not.
"""

from collections import Counter, defaultdict

from ..evidence import Call, Failure, Statement, Timeout
from ..places import innermost
from .case import Case, grounds
from .collectives import odd_ones
from .mismatch import differing
from .standing import standing
from .unseen import unseen
from .verdict import Sure, Verdict, several

_DEFAULT = ("", "0", "default_pg", "undefined")


def verdict(case: Case) -> Verdict | None:
    """By timeouts of NCCL's watchdog, or of gloo."""
    by_group: dict[str, list[Timeout]] = defaultdict(list)
    labels = _labels(case)
    for said in case.timeouts:
        if said.rank is not None:
            by_group[said.group or labels.get(said.rank, "")].append(said)
    for group, said_by in sorted(by_group.items(), key=lambda one: (-len(one[1]), one[0])):
        made = _of_group(case, group, said_by)
        if made is not None:
            return made
    waited = [
        one for one in case.failures if one.role == "waiter" and one.name == "timeout_gloo" and one.rank is not None
    ]
    return _of_gloo(case, waited) if waited else None


def _labels(case: Case) -> dict[int, str]:
    """The group that a rank's watchdog speaks of in another line, where there is one alone with such a number."""
    made: dict[int, str] = {}
    for said in case.progress:
        if said.rank is not None and said.group and said.enqueued > said.completed:
            made.setdefault(said.rank, said.group)
    return made


def _of_group(case: Case, group: str, said_by: list[Timeout]) -> Verdict | None:
    first = {said.rank: said for said in reversed(said_by) if said.rank is not None}
    seq = Counter(said.seq for said in first.values()).most_common(1)[0][0]
    mismatch = _mismatch(case, group, seq, first)
    if mismatch is not None:
        return mismatch
    size = _size(said_by)
    members = _members(case, group, size)
    if members is None:
        return _too_few(first, group, seq)
    silent = members - set(first)
    behind = _behind(case, members)
    late = silent
    if len(silent) > 1 and behind and behind < silent:
        late = behind
    if not late or len(late) > 2 or len(late) * 2 > len(members):
        return _too_few(first, group, seq)
    if why := unseen(case, late, said_by):
        return _too_few(first, group, seq, why)
    return _late(case, late, dict(first), group, seq, behind)


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
        for rank, said in first.items()
        if said.seq == seq >= 0 and said.operation
    }
    odd, differ = odd_ones(calls)
    return differing(case, group or "default_pg", seq, calls, odd) if differ else None


def _size(said_by: list[Timeout]) -> int | None:
    """The members of a group, as an operation that gathers or scatters evenly tells by its sizes."""
    for said in said_by:
        less, more = sorted((said.numel_in, said.numel_out))
        if "BASE" in said.operation and less > 0 and more > less and more % less == 0:
            return more // less
    return None


def _members(case: Case, group: str, size: int | None) -> set[int] | None:
    for dump in case.dumps:
        if dump.members.get(group):
            return set(dump.members[group])
    if (group in _DEFAULT and size is None) or (size is not None and size == len(case.ranks)):
        return set(case.ranks)
    return None


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


def _late(case: Case, late: set[int], said_by: dict[int, Statement], group: str, seq: int, behind: set[int]) -> Verdict:
    found = standing(case, min(late))
    some = next(said for said in said_by.values() if said.rank is not None)
    operation = some.operation if isinstance(some, Timeout) else ""
    what = f"{operation.lower().strip('_')} {seq}".strip() if operation else f"collective {seq}"
    alone = len(late) == 1
    verb = "is the only one that reports" if alone else "report"
    cause = f"{several(late)} {verb} no timeout in group {group or 'default_pg'}"
    if late & behind:
        numbers = {said.rank: said.enqueued for said in case.progress if said.group in _DEFAULT}
        cause += (
            f", and in the default group it is behind ({numbers[min(late & behind)]} against {max(numbers.values())})"
        )
    cause += f": it has not issued {what}, or is inside the library while issuing it"
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
    some = next(iter(first.values()))
    number = f" {seq}" if seq >= 0 else ""
    return Verdict(
        kind="hang",
        cause=(
            f"{several(set(first))} waited in {some.operation.lower().strip('_') or 'a collective'}{number} of group "
            f"{group or 'default_pg'} until it timed out; {why or 'these files do not say who did not come'}"
        ),
        victims=tuple(sorted(first)),
        group=group or "default_pg",
        seq=seq if seq >= 0 else None,
        operation=some.operation or None,
        sure="unsure",
        next="the logs of all ranks, or flight recorder dumps (TORCH_FR_BUFFER_SIZE=2000, TORCH_FR_DUMP_ON_TIMEOUT=1)",
        grounds=grounds(*list(first.values())[:4]),
    )


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
