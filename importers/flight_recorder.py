"""Dumps of PyTorch's flight recorder to events: what each rank has called, and where it still waits.

Rule of this file: a number is known only where the dump has it. How long a collective took is known where timing was on
(``duration_ms``); it includes waiting for others, so the shortest is the late rank. Of a buffer's open entries of a
group only the first is one in which the rank waits; the others are queued behind it. No dump says when it was written:
a rank has waited until its file was written, but never longer than the collective's time limit, when its process ends.
"""

import itertools
import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import IO, Any, NamedTuple

from paceline.events import RANK_LIMIT, CollectiveCalls, OpenCollective, StepTimings
from paceline.flight_recorder import Entry, Facts, between_two, distinct_groups, entries, facts, load, uncounted
from paceline.timed_event import TimedEvent
from paceline.topics import COLLECTIVE, OP

from .call_messages import CallRow, call_message
from .notes import Notes, SourceError
from .one_run import check_apart
from .op_rows import MOST_ROWS, MOST_S, ROWLESS, speakers

#: PyTorch's own limit for collectives, where a dump has none, in seconds.
_LIMIT_S = 600.0
#: A rank is first said to wait for so long, in seconds, so that all are known to wait before any waits long.
_FIRST_S = 1.0
#: Ranks without a dump that are named.
_MOST_NAMED = 16
#: Groups in which one rank waits that are kept, and bytes that an event can hold.
_MOST_OPEN, _MOST_BYTES = 64, 1 << 53
_BYTES = {
    "Double": 8,
    "Long": 8,
    "ComplexFloat": 8,
    "Float": 4,
    "Int": 4,
    "BFloat16": 2,
    "Half": 2,
    "Short": 2,
    "Byte": 1,
    "Char": 1,
    "Bool": 1,
}
_OPERATIONS = {
    "_all_gather_base": "all_gather",
    "_allgather_base": "all_gather",
    "_reduce_scatter_base": "reduce_scatter",
    "all_reduce_barrier": "barrier",
}


class _Open(NamedTuple):
    """A collective in which a rank waits."""

    group: str
    seq: int
    operation: str
    bytes: int | None
    waited_s: float


class _Names(NamedTuple):
    """``apart``: names for groups that ranks call the same; ``shown``: by name what is shown of it, and its size."""

    apart: dict[tuple[int, str], str]
    shown: dict[str, tuple[str, int]]

    def of(self, rank: int, group: str) -> tuple[str, int]:
        """The shown name and the size of what ``rank`` calls ``group``."""
        return self.shown[self.apart.get((rank, group), group)]


class _Rank:
    """The collectives of a rank that have ended, as columns, and those in which it waits."""

    def __init__(self) -> None:
        self.start_s, self.took_s = array("d"), array("d")
        self.seq, self.group, self.operation, self.bytes = (array("q") for _ in range(4))
        self.open: list[_Open] = []
        self.last_s = 0.0


class Recorders:
    """Reads the dumps of one job, one a rank: ``read`` each, then ``messages``."""

    def __init__(self, job: str, notes: Notes) -> None:
        self.job, self.notes = job, notes
        self._ranks: dict[int, _Rank] = {}
        self._groups: dict[str, int] = {}
        self._operations: dict[str, int] = {}
        self._labels: dict[str, str] = {}
        self._members: dict[int, dict[str, tuple[int, ...]]] = {}
        #: Each list of members once: every rank's dump has that of the whole job.
        self._lists: dict[tuple[int, ...], tuple[int, ...]] = {}
        self._world = 0
        self._timed = False

    def read(self, stream: IO[bytes], rank: int | None, written_s: float) -> None:
        """One dump, of a file that was written at ``written_s``.

        Raises:
            RecorderError: it cannot be read.
            SourceError: its rank is not known, or another file has it.
        """
        if rank is None or rank >= RANK_LIMIT:
            raise SourceError("no rank in its name: a dump's name has it, as nccl_trace_rank_3")
        dump = load(stream)
        if rank in self._ranks:
            raise SourceError(f"two files are of rank {rank}: these are of more than one job or attempt")
        said = facts(dump)
        self._learn(said, rank)
        self.notes.drop("operations between two ranks", between_two(dump))
        if uncounted(dump):
            self.notes.remark(
                f"rank {rank}: TorchComms numbers the collectives of all groups together, and this dump does not begin "
                "with the first or leaves some out: not compared; a larger max_entries keeps more"
            )
        waits: dict[str, list[Entry]] = defaultdict(list)
        done: dict[str, int] = {}
        own = self._ranks[rank] = _Rank()
        for entry in entries(dump):
            if entry.created_s < 0 or not 0 <= entry.seq <= _MOST_BYTES:
                self.notes.drop("collectives without a time or with an impossible number")
                continue
            self._labels.setdefault(entry.group, entry.label)
            own.last_s = max(own.last_s, entry.created_s)
            if entry.done:
                done[entry.group] = max(done.get(entry.group, -1), entry.seq)
                self._add(own, entry)
            else:
                waits[entry.group].append(entry._replace(frames=[]))
        self._wait(own, waits, done, written_s)

    def _learn(self, said: Facts, rank: int) -> None:
        self._world = max(self._world, rank + 1)
        own = self._members[rank] = {
            group: self._lists.setdefault(members, members) for group, members in said.members.items()
        }
        for members in own.values():
            self._world = max(self._world, min(max(members, default=-1) + 1, RANK_LIMIT))

    def _add(self, own: _Rank, entry: Entry) -> None:
        self._timed |= entry.took_s >= 0
        own.start_s.append(entry.created_s)
        own.took_s.append(max(entry.took_s, 0.0))
        own.seq.append(entry.seq)
        own.group.append(self._groups.setdefault(entry.group, len(self._groups)))
        operation = _operation(entry)
        own.operation.append(self._operations.setdefault(operation, len(self._operations)))
        own.bytes.append(_bytes(entry) or 0)

    def _wait(self, own: _Rank, waits: dict[str, list[Entry]], done: dict[str, int], written_s: float) -> None:
        """Keep of each group the first collective that did not end."""
        for group, open_ in waits.items():
            behind = [one for one in open_ if one.seq > done.get(group, -1)]
            if not behind or len(own.open) >= _MOST_OPEN:
                continue
            first = min(behind, key=lambda one: one.seq)
            limit_s = first.limit_s if first.limit_s > 0 else _LIMIT_S
            waited_s = written_s - first.created_s
            if waited_s < 0:
                self.notes.remark("files are dated before their collectives: ranks wait for as long as their limit is")
                waited_s = limit_s
            own.open.append(
                _Open(
                    group,
                    first.seq,
                    _operation(first),
                    _bytes(first),
                    min(waited_s, limit_s),
                )
            )

    def messages(self) -> Iterator[TimedEvent]:
        """All collectives, by time; at the end who waits where.

        Raises:
            SourceError: there are none, or ranks ran at another time than the others.
        """
        known = {rank: own for rank, own in self._ranks.items() if own.seq or own.open}
        if not known:
            raise SourceError("no collective in it: the recorder keeps them where TORCH_FR_BUFFER_SIZE is above 0")
        check_apart([(min(own.start_s, default=own.last_s), own.last_s, rank) for rank, own in known.items()])
        self._remark(known)
        names = self._names()
        sequences = dict.fromkeys(known, 0)
        clock_s = 0.0
        parts = [(own.start_s[begin], rank, begin, end) for rank, own in known.items() for begin, end in _cuts(own)]
        for _, rank, begin, end in sorted(parts):
            event = self._event(rank, sequences[rank], names, range(begin, end))
            sequences[rank] += 1
            clock_s = max(clock_s, known[rank].start_s[end - 1])
            yield TimedEvent(clock_s, COLLECTIVE, event)
        clock_s = max(clock_s, *(own.last_s for own in known.values()))
        waits = [(rank, one) for rank, own in sorted(known.items()) for one in own.open]
        chunks = [waits[begin : begin + MOST_ROWS] for begin in range(0, len(waits), MOST_ROWS)]
        sequence = 0
        # Of several messages each first says that its ranks wait, so that all are known to before any waits long.
        for most_s in (_FIRST_S, math.inf)[len(chunks) < 2 :]:
            for chunk in chunks:
                yield TimedEvent(clock_s, OP, self._waiting(chunk, sequence, names, clock_s, most_s))
                sequence += 1

    def _remark(self, known: dict[int, _Rank]) -> None:
        missing = self._world - len(known)
        if missing:
            first = itertools.islice((rank for rank in range(self._world) if rank not in known), _MOST_NAMED)
            more = ", …" if missing > _MOST_NAMED else ""
            self.notes.remark(f"no dump of {missing} of {self._world} ranks: {', '.join(map(str, first))}{more}")
        if not self._timed:
            self.notes.remark(
                "no durations in these dumps (TORCH_NCCL_ENABLE_TIMING=1 writes them): who was late before is not known"
            )
        waits = sum(bool(own.open) for own in known.values())
        if waits:
            self.notes.remark(
                f"{waits} of {len(known)} ranks are in a collective that did not end; "
                "for its line of code: paceline why with the same files"
            )

    def _names(self) -> _Names:
        """A name and the size of each group, as each rank calls it: two may have the same label, or the same name."""
        own_names = distinct_groups(self._members)
        number = {index: group for group, index in self._groups.items()}
        took_part: Counter[str] = Counter()
        sizes: Counter[str] = Counter()
        called: dict[str, str] = {}
        for rank, own in self._ranks.items():
            for group in {number[one] for one in own.group} | {one.group for one in own.open}:
                apart = own_names.get((rank, group), group)
                called[apart] = group
                took_part[apart] += 1
            for group, members in self._members[rank].items():
                apart = own_names.get((rank, group), group)
                sizes[apart] = max(sizes[apart], len(members))
        labels = Counter(self._labels[group] for group in called.values())
        names = {}
        for apart, group in called.items():
            label = self._labels[group]
            whole = label == "default_pg" or group in ("", "0")
            size = max(sizes[apart], took_part[apart], self._world if whole else 0)
            name = label or "default_pg"
            names[apart] = (name if labels[label] == 1 else f"{name} {apart}", size)
        return _Names(own_names, names)

    def _event(self, rank: int, sequence: int, names: _Names, rows: range) -> CollectiveCalls:
        """A message of some of a rank's rows."""
        own = self._ranks[rank]
        of_group, of_operation = list(self._groups), list(self._operations)
        calls = []
        for at in rows:
            group, size = names.of(rank, of_group[own.group[at]])
            calls.append(
                CallRow(
                    start_s=own.start_s[at],
                    rank=rank,
                    step=-1,
                    group=group,
                    size=size,
                    seq=own.seq[at],
                    operation=of_operation[own.operation[at]],
                    bytes=own.bytes[at],
                    duration_s=own.took_s[at],
                    wait_s=own.took_s[at],
                )
            )
        return call_message(calls, self._world, self._about(f"rank-{rank}", sequence))

    def _waiting(
        self,
        waits: list[tuple[int, _Open]],
        sequence: int,
        names: _Names,
        clock_s: float,
        most_s: float,
    ) -> StepTimings:
        """A message of ranks that wait, each for as long as by its own clock, ``most_s`` at most."""
        now_s = clock_s + max(one.waited_s for _, one in waits)
        return StepTimings(
            **self._about("waiting", sequence),
            t0_s=clock_s,
            speakers=speakers((rank for rank, _ in waits), self._world),
            **ROWLESS,
            open=[
                OpenCollective(
                    rank=rank,
                    group=names.of(rank, one.group)[0],
                    group_size=names.of(rank, one.group)[1],
                    seq=one.seq,
                    operation=one.operation,
                    start_s=now_s - min(one.waited_s, most_s),
                    bytes=one.bytes,
                )
                for rank, one in waits
            ],
            now_s=now_s,
        )

    def _about(self, producer: str, sequence: int) -> dict[str, Any]:
        """What every message says; no dump names its node."""
        return {
            "cluster": "imported",
            "producer": f"import-{self.job}-{producer}",
            "sequence": sequence,
            "job": self.job,
            "attempt": 0,
            "node": "unknown",
        }


def _cuts(own: _Rank) -> Iterator[tuple[int, int]]:
    """Some second's worth of a rank's rows, never too many."""
    begin = 0
    for at, start_s in enumerate(own.start_s):
        if at > begin and (start_s - own.start_s[begin] >= MOST_S or at - begin >= MOST_ROWS):
            yield begin, at
            begin = at
    if own.start_s:
        yield begin, len(own.start_s)


def _operation(entry: Entry) -> str:
    """The operation in our words.

    >>> from paceline.flight_recorder import entries
    >>> said = {"collective_seq_id": 1, "profiling_name": "nccl:_all_gather_base"}
    >>> _operation(next(entries({"version": "2.7", "entries": [said]})))
    'all_gather'
    """
    return _OPERATIONS.get(entry.operation, entry.operation.lower())[:100]


def _bytes(entry: Entry) -> int | None:
    """What the rank puts in, or what it gets where it puts nothing in; None where that is not known."""
    numel = entry.numel_in if entry.numel_in > 0 else entry.numel_out
    each = _BYTES.get(entry.dtype)
    return min(numel * each, _MOST_BYTES) if each is not None and numel >= 0 else None
