"""Which collective did not end, who has not joined it, and who called another: from recorders, calls and timeouts.

Rule of this file: pure. Per group the smallest number that is not done at every member is to be explained. Who has
no entry of it is missing, unless it waits elsewhere; if all who are missing wait elsewhere, it is an order deadlock
and nobody is accused. A minority below a half that calls something else is accused. A buffer that begins later than
the number proves nothing.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from ..evidence import Call
from ..places import waits_in_collective
from .case import Case

#: Operations whose size is the same on all ranks; all_to_all, gather and scatter may differ.
_EQUAL = ("all_reduce", "allreduce", "all_gather_base", "allgather_base", "reduce_scatter_base", "broadcast", "reduce")


class Waiting(NamedTuple):
    """A collective that did not end: who is in it, who is a member without having joined, and who may be."""

    group: str
    label: str
    seq: int
    calls: dict[int, Call]
    missing: frozenset[int]
    #: Members of whom there is no record.
    unknown: frozenset[int]
    #: Members whose buffer begins later than this number, has none that is known, could not be read, or is missing
    #: where another file says that they waited: that proves nothing.
    overwritten: frozenset[int]
    #: The members are those of a record, not a guess from who has taken part.
    members_known: bool

    @property
    def operation(self) -> str:
        """What most of its members call."""
        return Counter(call.operation for call in self.calls.values()).most_common(1)[0][0]


def pending(case: Case) -> list[Waiting]:
    """The collectives that did not end, one a group, in no order."""
    by_group: dict[str, dict[int, dict[int, Call]]] = defaultdict(lambda: defaultdict(dict))
    for call in case.calls:
        if call.rank is not None:
            by_group[call.group][call.rank][call.seq] = call
    made = []
    for group, ranks in by_group.items():
        waiting = _of_group(case, group, ranks)
        if waiting is not None:
            made.append(waiting)
    return made


def _of_group(case: Case, group: str, ranks: dict[int, dict[int, Call]]) -> Waiting | None:
    members, known = _members(case, group, ranks)
    last_done = {rank: _last_done(calls) for rank, calls in ranks.items()}
    open_at = {rank: _first_open(calls, last_done[rank]) for rank, calls in ranks.items()}
    candidates = [seq for seq in open_at.values() if seq is not None]
    if not candidates:
        return None
    seq = min(candidates)
    joined = {rank: calls[seq] for rank, calls in ranks.items() if seq in calls}
    behind: set[int] = set()
    unknown: set[int] = set()
    overwritten: set[int] = set()
    unread = {dump.rank for dump in case.dumps if not dump.counted} | {said.rank for said in case.no_dumps}
    unread |= _waited(case)
    for rank in members - set(joined):
        calls = ranks.get(rank)
        if calls is None and rank in unread:
            overwritten.add(rank)
        elif calls is None:
            # A rank that has a record, but nothing of this group in it, has not come to its first collective.
            recorded = _recorded(case, rank)
            (behind if recorded and seq <= 1 else overwritten if recorded else unknown).add(rank)
        elif max(calls) < seq:
            behind.add(rank)
        else:
            overwritten.add(rank)
    label = Counter(call.label for call in joined.values()).most_common(1)[0][0]
    return Waiting(group, label, seq, joined, frozenset(behind), frozenset(unknown), frozenset(overwritten), known)


def _waited(case: Case) -> set[int | None]:
    """Ranks that waited in a collective by their logs or stacks, whatever is recorded of them."""
    logged = {said.rank for said in case.timeouts} | {said.rank for said in case.failures if said.role == "waiter"}
    return logged | {said.rank for said in case.stacks if said.main and waits_in_collective(said.frames)}


def _recorded(case: Case, rank: int) -> bool:
    return any(call.rank == rank for call in case.calls)


def _members(case: Case, group: str, ranks: dict[int, dict[int, Call]]) -> tuple[set[int], bool]:
    """The members of a group, and whether a record says so."""
    labels = {call.label for calls in ranks.values() for call in calls.values()}
    said: set[int] = set()
    for dump in case.dumps:
        said.update(dump.members.get(group, ()))
    if said:
        return said | set(ranks), True
    if "default_pg" in labels or group == "0":
        # Gloo's dumps name the default group "".
        for dump in case.dumps:
            said.update(dump.members.get("", ()))
        return said | set(ranks) | _recorders(case), True
    return set(ranks), False


def _recorders(case: Case) -> set[int]:
    return {call.rank for call in case.calls if call.rank is not None}


def _last_done(calls: dict[int, Call]) -> int:
    """The last number that has ended; where a file does not say, all but the last have."""
    if any(call.done is not None for call in calls.values()):
        return max((seq for seq, call in calls.items() if call.done), default=-1)
    return max(calls) - 1


def _first_open(calls: dict[int, Call], last_done: int) -> int | None:
    return min((seq for seq, call in calls.items() if not call.done and seq > last_done), default=None)


class Explained(NamedTuple):
    """Who keeps whom: the collective to explain, and those who wait for nobody else."""

    waiting: Waiting
    culprits: frozenset[int]
    #: Two or more collectives whose members wait for each other.
    cycle: tuple[Waiting, ...] = ()


def explained(case: Case, waits: list[Waiting]) -> Explained | None:
    """Follow from who waits to who is waited for, to the end."""
    stuck = _where(waits)
    first = next(iter(sorted(waits, key=lambda one: (-len(one.calls), one.group, one.seq))), None)
    if first is None:
        return None
    seen: list[Waiting] = []
    current = first
    while True:
        if current in seen:
            return Explained(first, frozenset(), tuple(seen[seen.index(current) :]))
        seen.append(current)
        away = current.missing or (current.unknown if current.members_known else frozenset())
        if not away and not current.members_known:
            away = frozenset(case.ranks - set(current.calls))
        elsewhere = {rank: stuck[rank] for rank in away if rank in stuck and stuck[rank] != current}
        idle = away - set(elsewhere)
        if not elsewhere or (idle and current.members_known):
            return Explained(current, frozenset(idle if current.missing or current.members_known else ()))
        current = max(elsewhere.values(), key=lambda one: (len(one.calls), one.group))


def _where(waits: list[Waiting]) -> dict[int, Waiting]:
    """The first collective that each rank waits in, by the order of its own calls."""
    made: dict[int, tuple[int, Waiting]] = {}
    for one in waits:
        for rank, call in one.calls.items():
            if not call.done and (rank not in made or call.order < made[rank][0]):
                made[rank] = call.order, one
    return {rank: one for rank, (_, one) in made.items()}


def odd_ones(calls: dict[int, Call]) -> tuple[frozenset[int], bool]:
    """Who calls something else than most, and whether calls differ at all: without a majority nobody is accused."""
    by_kind: dict[tuple[str, ...], set[int]] = defaultdict(set)
    for rank, call in calls.items():
        by_kind[_kind(call, calls.values())].add(rank)
    if len(by_kind) < 2:
        return frozenset(), False
    largest = max(by_kind.values(), key=len)
    if len(largest) * 2 <= len(calls):
        return frozenset(), True
    return frozenset(set(calls) - largest), True


def _kind(call: Call, others: Iterable[Call]) -> tuple[str, ...]:
    operation = call.operation.lower().strip("_")
    if not any(word in operation for word in _EQUAL) or "coalesced" in operation:
        return (operation,)
    numel = str(call.numel_in) if all(other.numel_in >= 0 for other in others) else ""
    size = str(call.size) if all(other.size >= 0 for other in others) else ""
    dtype = call.dtype if all(other.dtype for other in others) else ""
    return (operation, numel, size, dtype)
