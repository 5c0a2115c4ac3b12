"""NCCL Inspector's JSON (NVIDIA/nccl, plugins/profiler/inspector, formats 4.0 to 4.3) to CollectiveTimings.

Rule of this file: a collective's execution time is what its kernel took, waiting for others included, so all of it is
time stood and the shortest is the late rank. The files hold no steps; only verbose ones hold starts. Collectives are
counted per communicator and function, so each such pair is a group of its own. Point to point operations are left out.

Since format 4.3 an operation's line has no header of its own: it belongs to the last ``dump_stats`` line before it.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import IO, Annotated, Any, NamedTuple

import msgspec

from paceline.events import LATEST_S, CollectiveTimings, Count, Rank, Whole
from paceline.timed_event import TimedEvent
from paceline.topics import COLLECTIVE_V1

from .notes import Notes, SourceError
from .op_rows import MOST_ROWS, MOST_S

#: The latest time and the largest count that an event may hold.
_LATEST_US, _MOST = int(LATEST_S * 1e6), 2**53

_OPERATIONS = {
    "AllReduce": "all_reduce",
    "AllGather": "all_gather",
    "ReduceScatter": "reduce_scatter",
    "Broadcast": "broadcast",
    "Reduce": "reduce",
    "AlltoAll": "all_to_all",
    "Gather": "gather",
    "Scatter": "scatter",
}


class _Header(msgspec.Struct):
    id: str
    rank: Rank
    n_ranks: Annotated[int, msgspec.Meta(ge=1, le=2**20)]
    comm_name: str = ""


class _Metadata(msgspec.Struct):
    dump_timestamp_us: Annotated[int, msgspec.Meta(ge=0, le=_LATEST_US)]
    hostname: str = "unknown"
    pid: Whole = 0
    inspector_output_format_version: str = ""


class _Times(msgspec.Struct):
    coll_start_ts: Whole | None = None


class _Collective(msgspec.Struct):
    coll: str
    coll_sn: Whole
    coll_exec_time_us: Whole
    coll_msg_size_bytes: Whole = 0
    coll_timing_source: str = ""
    event_trace_ts: _Times | None = None


class _Dropped(msgspec.Struct):
    coll_dropped_since_last_dump: Count = 0


class _Line(msgspec.Struct):
    header: _Header | None = None
    metadata: _Metadata | None = None
    coll_perf: _Collective | None = None
    p2p_perf: Any = None
    dump_stats: _Dropped | None = None


class _Process(NamedTuple):
    host: str
    pid: int


class _Row(NamedTuple):
    start_s: float
    rank: int
    group: str
    size: int
    seq: int
    operation: str
    bytes: int
    duration_s: float


_decoder = msgspec.json.Decoder(_Line)


class Inspector:
    """Reads the files of one job twice: ``survey`` each, then ``read`` each, then ``messages``."""

    def __init__(self, job: str, notes: Notes) -> None:
        self.job = job
        self.notes = notes
        #: By process: its rank in the largest communicator it is in, and how large that is.
        self._ranks: dict[_Process, tuple[int, int]] = {}
        self._rows: dict[_Process, list[_Row]] = defaultdict(list)
        self._laid_out = False

    def survey(self, stream: IO[bytes]) -> None:
        """Learn which rank each process is: headers name ranks within their communicator, the largest is the job."""
        for line in stream:
            parsed = _decode(line)
            if parsed is None or parsed.header is None or parsed.metadata is None:
                continue
            process = _Process(parsed.metadata.hostname, parsed.metadata.pid)
            if parsed.header.n_ranks > self._ranks.get(process, (0, 0))[1]:
                self._ranks[process] = (parsed.header.rank, parsed.header.n_ranks)

    def read(self, stream: IO[bytes]) -> None:
        """Take in the collectives of one file."""
        header, metadata = None, None
        dumped: dict[_Process, float] = {}
        pending: list[tuple[_Header, _Collective]] = []
        for line in stream:
            parsed = _decode(line)
            if parsed is None:
                self.notes.drop("lines that are not NCCL Inspector's JSON", bool(line.strip()))
                continue
            if parsed.header is not None and parsed.metadata is not None:
                if metadata is not None and metadata.dump_timestamp_us != parsed.metadata.dump_timestamp_us:
                    self._lay_out(metadata, pending, dumped)
                    pending = []
                header, metadata = parsed.header, parsed.metadata
            self._count(parsed)
            if parsed.coll_perf is not None and header is not None:
                pending.append((header, parsed.coll_perf))
        if metadata is not None:
            self._lay_out(metadata, pending, dumped)

    def _count(self, parsed: _Line) -> None:
        """Count what is not there or cannot be used."""
        if parsed.dump_stats is not None:
            self.notes.drop("overwritten in NCCL Inspector's ring", parsed.dump_stats.coll_dropped_since_last_dump)
        self.notes.drop("point to point operations", parsed.p2p_perf is not None)

    def _lay_out(
        self, metadata: _Metadata, pending: list[tuple[_Header, _Collective]], dumped: dict[_Process, float]
    ) -> None:
        """Give every collective of one dump its start: its own, else evenly since the dump before."""
        process = _Process(metadata.hostname, metadata.pid)
        end_s = metadata.dump_timestamp_us / 1e6
        spent_s = sum(collective.coll_exec_time_us for _, collective in pending) / 1e6
        begin_s = min(max(dumped.get(process, 0.0), end_s - max(10 * spent_s, 1e-3)), end_s)
        dumped[process] = end_s
        for index, (header, collective) in enumerate(pending):
            start_us = collective.event_trace_ts.coll_start_ts if collective.event_trace_ts is not None else None
            if not _possible(collective, start_us or 0):
                self.notes.drop("collectives with impossible numbers")
                continue
            self._laid_out |= not start_us
            start_s = start_us / 1e6 if start_us else begin_s + (end_s - begin_s) * index / len(pending)
            operation = _OPERATIONS.get(collective.coll, collective.coll.lower())
            name = header.comm_name if header.comm_name not in ("", "unknown") else ""
            group = f"{name} {header.id} {operation}".strip()[-64:]
            self._rows[process].append(
                _Row(
                    start_s,
                    self._ranks[process][0],
                    group,
                    header.n_ranks,
                    collective.coll_sn,
                    operation,
                    collective.coll_msg_size_bytes,
                    collective.coll_exec_time_us / 1e6,
                )
            )

    def messages(self) -> Iterator[TimedEvent]:
        """All collectives, by time.

        Raises:
            SourceError: there are none, or two processes say that they are the same rank.
        """
        if not any(self._rows.values()):
            raise SourceError("no collective in it; NCCL Inspector writes them with NCCL_INSPECTOR_ENABLE=1")
        ranks = [self._ranks[process][0] for process in self._rows]
        if len(set(ranks)) < len(ranks):
            raise SourceError("two processes are the same rank: these files are of more than one job or attempt")
        if self._laid_out:
            self.notes.remark(
                "no times of day (NCCL_INSPECTOR_DUMP_VERBOSE=1 writes them): collectives are spread between dumps"
            )
        self.notes.remark(
            "NCCL Inspector knows no steps and no phases: lateness is told by collective, without a cause"
        )
        world = max(self._ranks[process][1] for process in self._rows)
        parts = [part for process in self._rows for part in self._parts(process)]
        for sequences, (process, rows) in _numbered(sorted(parts, key=lambda part: part[1][-1].start_s)):
            yield TimedEvent(rows[-1].start_s, COLLECTIVE_V1, self._event(process, rows, sequences, world))

    def _parts(self, process: _Process) -> Iterator[tuple[_Process, list[_Row]]]:
        rows = sorted(self._rows[process])
        begin = 0
        for index, row in enumerate(rows):
            if index > begin and (row.start_s - rows[begin].start_s >= MOST_S or index - begin >= MOST_ROWS):
                yield process, rows[begin:index]
                begin = index
        yield process, rows[begin:]

    def _event(self, process: _Process, rows: list[_Row], sequence: int, world: int) -> CollectiveTimings:
        groups = {row.group: row.size for row in rows}
        operations = sorted({row.operation for row in rows})
        place = {name: index for index, name in enumerate(groups)}
        t0_s = round(rows[0].start_s, 3)
        return CollectiveTimings(
            cluster="imported",
            producer=f"import-{self.job}-{process.host}-{process.pid}",
            sequence=sequence,
            job=self.job,
            attempt=0,
            node=process.host,
            backend="nccl",
            phases=False,
            t0_s=t0_s,
            ranks=[rows[0].rank],
            world_sizes=[world],
            groups=list(groups),
            group_sizes=list(groups.values()),
            operations=operations,
            rank=[row.rank for row in rows],
            step=[-1] * len(rows),
            seq=[row.seq for row in rows],
            group=[place[row.group] for row in rows],
            operation=[operations.index(row.operation) for row in rows],
            bytes=[row.bytes for row in rows],
            start_s=[round(row.start_s - t0_s, 6) for row in rows],
            duration_s=[row.duration_s for row in rows],
            wait_s=[row.duration_s for row in rows],
        )


def _numbered(
    parts: list[tuple[_Process, list[_Row]]],
) -> Iterator[tuple[int, tuple[_Process, list[_Row]]]]:
    """Each part with the number of its message among its process's."""
    count: dict[_Process, int] = defaultdict(int)
    for part in parts:
        yield count[part[0]], part
        count[part[0]] += 1


def _possible(collective: _Collective, start_us: int) -> bool:
    """Whether an event may hold these numbers."""
    times_us, counts = (collective.coll_exec_time_us, start_us), (collective.coll_sn, collective.coll_msg_size_bytes)
    return all(0 <= one <= _LATEST_US for one in times_us) and all(0 <= one <= _MOST for one in counts)


def _decode(line: bytes) -> _Line | None:
    try:
        return _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
