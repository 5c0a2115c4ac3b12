"""The collectives in one file of NCCL Inspector, read line by line while it grows.

Rule of this file: pure; times are Unix seconds on the clock of the node that wrote the file. A collective began when
its kernel did, which verbose files tell; of others it is known that they ended between two dumps of their communicator.
"""

from collections import Counter
from typing import NamedTuple

from paceline.nccl_inspector.lines import (
    Collective,
    Header,
    LineError,
    Metadata,
    Times,
    bytes_of,
    group_of,
    is_possible,
    operation_of,
    read,
)

#: Lines of one communicator written within so many seconds are of one dump, in a format that does not mark dumps.
ONE_DUMP_S = 0.0002
#: Communicators of one process whose dumps are remembered; of what is beyond them, no start is bounded from below.
MOST_COMMUNICATORS = 4096
#: A host's name and a communicator's id are no longer.
_LONGEST = 256
#: Reasons that are counted apart.
_MOST_REASONS = 64


class Call(NamedTuple):
    """One rank's part in a collective. It began between ``earliest_s`` and ``latest_s``, and its kernel ran for
    ``duration_s``, waiting for other ranks included. ``rank`` is that within the communicator of ``size`` ranks."""

    host: str
    pid: int
    rank: int
    group: str
    size: int
    operation: str
    seq: int
    bytes: int
    earliest_s: float
    latest_s: float
    duration_s: float


class _Dump:
    """When a communicator was dumped last: the lines of that dump, and the one before."""

    __slots__ = ("before_s", "last_s")

    def __init__(self) -> None:
        self.before_s = self.last_s = 0.0


class FileCalls:
    """Told the lines of one file in their order, gives the collectives in them; ``dropped`` counts by reason what it
    cannot use, and what NCCL Inspector itself has dropped.

    >>> header = b'"header": {"id": "0x7f", "rank": 1, "n_ranks": 2}'
    >>> metadata = b'"metadata": {"dump_timestamp_us": 5000000, "hostname": "node-1", "pid": 12}'
    >>> performed = b'"coll_perf": {"coll": "AllReduce", "coll_sn": 7, "coll_exec_time_us": 1500}'
    >>> call = FileCalls().read(b"{" + b", ".join((header, metadata, performed)) + b"}")
    >>> (call.pid, call.group, call.seq, call.earliest_s, call.latest_s)
    (12, '0x7f all_reduce', 7, 0.0, 4.9985)
    """

    def __init__(self) -> None:
        self.dropped: Counter[str] = Counter()
        self._header: Header | None = None
        self._metadata: Metadata | None = None
        self._dumps: dict[str, _Dump] = {}

    def read(self, line: bytes) -> Call | None:
        """The collective in ``line``, if there is one."""
        try:
            told = read(line)
        except LineError as error:
            self.drop(str(error))
            return None
        if told.header is not None and told.metadata is not None:
            self._header, self._metadata = told.header, told.metadata
            self._dumped(told.header.id, told.metadata.dump_timestamp_us / 1e6, begins=told.dump_stats is not None)
        if told.dump_stats is not None:
            self.drop("overwritten in NCCL Inspector's ring", told.dump_stats.coll_dropped_since_last_dump)
        if told.coll_perf is None:
            return None
        if self._header is None or self._metadata is None:
            self.drop("collectives before the line that says whose they are")
            return None
        return self._call(self._header, self._metadata, told.coll_perf)

    def restart(self) -> None:
        """The lines that come are not those after the last one: whose they are, a line has to say."""
        self._header = self._metadata = None

    def drop(self, reason: str, count: int = 1) -> None:
        """Count what is not told."""
        if count and (reason in self.dropped or len(self.dropped) < _MOST_REASONS):
            self.dropped[reason] += count

    def _dumped(self, communicator: str, now_s: float, *, begins: bool) -> None:
        communicator = communicator[:_LONGEST]
        dump = self._dumps.get(communicator)
        if dump is None:
            if len(self._dumps) >= MOST_COMMUNICATORS:
                return
            dump = self._dumps[communicator] = _Dump()
        if begins or now_s - dump.last_s > ONE_DUMP_S:
            dump.before_s = dump.last_s
        dump.last_s = now_s

    def _call(self, header: Header, metadata: Metadata, collective: Collective) -> Call | None:
        start_us = _start_us(collective.event_trace_ts)
        if not is_possible(collective, start_us):
            self.drop("collectives with impossible numbers")
            return None
        duration_s = collective.coll_exec_time_us / 1e6
        if start_us:
            earliest_s = latest_s = start_us / 1e6
        else:
            dump = self._dumps.get(header.id[:_LONGEST])
            latest_s = max(metadata.dump_timestamp_us / 1e6 - duration_s, 0.0)
            earliest_s = min(max((dump.before_s if dump is not None else 0.0) - duration_s, 0.0), latest_s)
        operation = operation_of(collective)
        return Call(
            (metadata.hostname or "")[:_LONGEST],
            metadata.pid,
            header.rank,
            group_of(header, operation),
            header.n_ranks,
            operation,
            collective.coll_sn,
            bytes_of(collective, header),
            earliest_s,
            latest_s,
            duration_s,
        )


def _start_us(times: Times | None) -> float:
    """When the first channel's kernel started, else when the collective was called; 0 where neither is told."""
    if times is None:
        return 0.0
    started = [one.kernel_start_ts for one in times.kernel_events or () if one.kernel_start_ts]
    return min(started) if started else times.coll_start_ts or 0.0
