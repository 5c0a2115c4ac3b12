"""NCCL Inspector's JSON (NVIDIA/nccl, plugins/profiler/inspector, formats 4.0 to 4.3) to CollectiveCalls.

Rule of this file: a collective's execution time is what its kernel took, waiting for others included, so all of it is
time stood and the shortest is the late rank. The files hold no steps; only verbose ones hold starts. Collectives are
counted per communicator and function, so each such pair is a group of its own. Point to point operations are left out.

What a line says is read by ``paceline.nccl_inspector``. Who shares no communicator with the others, or ran at another
time, is of another run.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import IO, Any, NamedTuple

from paceline.nccl_inspector import lines
from paceline.nccl_inspector.lines import Collective, Header, Line, LineError, Metadata
from paceline.timed_event import TimedEvent
from paceline.topics import COLLECTIVE

from .call_messages import CallRow, call_message
from .notes import Notes, SourceError
from .one_run import check_apart
from .op_rows import MOST_ROWS, MOST_S

#: Ranks with gaps that are named, and how much of its peers' numbers a rank has that only began or ended apart.
_MOST_NAMED, _MOST_OF = 8, 0.9
#: How the Inspector's Prometheus texts begin.
_BEGIN = 4096
_PROM = re.compile(rb"# (?:HELP|TYPE) |nccl_\w+(?:\{| )")


class _Process(NamedTuple):
    host: str
    pid: int


class _Life:
    """What the headers say of one process: its rank in the largest communicator it is in, all of them, and when."""

    def __init__(self) -> None:
        self.rank, self.size = 0, 0
        self.communicators: set[str] = set()
        self.first_s, self.last_s = float("inf"), float("-inf")

    def see(self, header: Header, dumped_s: float) -> None:
        """Another header."""
        if header.n_ranks > self.size:
            self.rank, self.size = header.rank, header.n_ranks
        self.communicators.add(header.id)
        self.first_s, self.last_s = min(self.first_s, dumped_s), max(self.last_s, dumped_s)


class Inspector:
    """Reads the files of one job twice: ``survey`` each, then ``read`` each, then ``messages``."""

    def __init__(self, job: str, notes: Notes) -> None:
        self.job = job
        self.notes = notes
        self._lives: dict[_Process, _Life] = defaultdict(_Life)
        self._rows: dict[_Process, list[CallRow]] = defaultdict(list)
        self._laid_out = False

    def survey(self, stream: IO[bytes], name: str = "") -> None:
        """Learn which rank each process is: headers name ranks within their communicator, the largest is the job.

        Raises:
            SourceError: the file ``name`` is in the Inspector's other format.
        """
        begin = stream.read(_BEGIN).lstrip()
        stream.seek(0)
        if _PROM.match(begin):
            raise SourceError(
                f"{name}: a Prometheus text (.prom): NCCL Inspector tells sums in it, and no single collective; "
                "run without NCCL_INSPECTOR_PROM_DUMP to get its JSON"
            )
        for line in stream:
            parsed = _decode(line)
            if parsed is None or parsed.header is None or parsed.metadata is None:
                continue
            process = _process(parsed.metadata)
            self._lives[process].see(parsed.header, parsed.metadata.dump_timestamp_us / 1e6)

    def read(self, stream: IO[bytes]) -> None:
        """Take in the collectives of one file."""
        header, metadata = None, None
        dumped: dict[_Process, float] = {}
        pending: list[tuple[Header, Collective]] = []
        for line in stream:
            parsed = _decode(line, self.notes)
            if parsed is None:
                continue
            if parsed.header is not None and parsed.metadata is not None:
                if metadata is not None and metadata.dump_timestamp_us != parsed.metadata.dump_timestamp_us:
                    self._lay_out(metadata, pending, dumped)
                    pending = []
                header, metadata = parsed.header, parsed.metadata
            self._count(parsed)
            if parsed.coll_perf is not None and header is not None:
                pending.append((header, parsed.coll_perf))
            self.notes.drop(
                "collectives before the line that says whose they are", parsed.coll_perf is not None and header is None
            )
        if metadata is not None:
            self._lay_out(metadata, pending, dumped)

    def _count(self, parsed: Line) -> None:
        """Count what is not there or cannot be used."""
        if parsed.dump_stats is not None:
            self.notes.drop("overwritten in NCCL Inspector's ring", parsed.dump_stats.coll_dropped_since_last_dump)
        self.notes.drop("point to point operations", parsed.p2p_perf is not None)
        told = (parsed.header, parsed.metadata, parsed.coll_perf, parsed.p2p_perf, parsed.dump_stats)
        self.notes.drop("records of other kinds", all(one is None for one in told))

    def _lay_out(
        self, metadata: Metadata, pending: list[tuple[Header, Collective]], dumped: dict[_Process, float]
    ) -> None:
        """Give every collective of one dump its start: its own, else evenly since the dump before."""
        process = _process(metadata)
        end_s = metadata.dump_timestamp_us / 1e6
        spent_s = sum(collective.coll_exec_time_us for _, collective in pending) / 1e6
        begin_s = min(max(dumped.get(process, 0.0), end_s - max(10 * spent_s, 1e-3)), end_s)
        dumped[process] = end_s
        for index, (header, collective) in enumerate(pending):
            start_us = collective.event_trace_ts.coll_start_ts if collective.event_trace_ts is not None else None
            if not lines.is_possible(collective, start_us or 0):
                self.notes.drop("collectives with impossible numbers")
                continue
            self._laid_out |= not start_us
            start_s = start_us / 1e6 if start_us else begin_s + (end_s - begin_s) * index / len(pending)
            operation = lines.operation_of(collective)
            took_s = collective.coll_exec_time_us / 1e6
            self._rows[process].append(
                CallRow(
                    start_s=start_s,
                    rank=self._lives[process].rank,
                    step=-1,
                    group=lines.group_of(header, operation),
                    size=header.n_ranks,
                    seq=collective.coll_sn,
                    operation=operation,
                    bytes=lines.bytes_of(collective, header),
                    duration_s=took_s,
                    wait_s=took_s,
                )
            )

    def messages(self) -> Iterator[TimedEvent]:
        """All collectives, by time.

        Raises:
            SourceError: there are none, or they are of more than one run: two processes say that they are the same
                rank, some share no communicator with the others, or ran at another time.
        """
        if not any(self._rows.values()):
            raise SourceError("no collective in it; NCCL Inspector writes them with NCCL_INSPECTOR_ENABLE=1")
        world = max(self._lives[process].size for process in self._rows)
        self._check_one_run()
        if self._laid_out:
            self.notes.remark(
                "no times of day (NCCL_INSPECTOR_DUMP_VERBOSE=1 writes them): collectives are spread between dumps"
            )
        self.notes.remark(
            "NCCL Inspector has no steps and no phases: lateness is reported by collective, without a cause"
        )
        self._remark_gaps()
        heard = {self._lives[process].rank for process in self._rows}
        if len(heard) < world:
            missing = [str(rank) for rank in range(world) if rank not in heard]
            shown = ", ".join(missing[:8]) + (", …" if len(missing) > 8 else "")
            self.notes.remark(f"{len(heard)} of {world} ranks: no collective of rank {shown}")
        parts = [part for process in self._rows for part in self._parts(process)]
        for sequences, (process, rows) in _numbered(sorted(parts, key=lambda part: part[1][-1].start_s)):
            event = call_message(rows, world, self._about(process, sequences))
            yield TimedEvent(rows[-1].start_s, COLLECTIVE, event)

    def _remark_gaps(self) -> None:
        """Which ranks' files lack collectives, by the numbers that NCCL gives them."""
        gaps: Counter[int] = Counter()
        there: Counter[int] = Counter()
        numbers = {process: _numbers(rows) for process, rows in self._rows.items()}
        spans: dict[str, list[int]] = defaultdict(list)
        for of_group in numbers.values():
            for group, seen in of_group.items():
                spans[group] += [min(seen), max(seen)]
        for process, of_group in numbers.items():
            rank = self._lives[process].rank
            for group, seen in of_group.items():
                # Files begin and end a little apart: what is before or behind counts from a tenth on.
                own, whole = max(seen) - min(seen) + 1, max(spans[group]) - min(spans[group]) + 1
                gaps[rank] += (own if own > _MOST_OF * whole else whole) - len(seen)
                there[rank] += len(seen)
        for rank, count in gaps.most_common(_MOST_NAMED):
            if count:
                self.notes.remark(
                    f"rank {rank}: {count:,} of {count + there[rank]:,} collectives are not in its files"
                    " (gaps in coll_sn)"
                )
        others = [rank for rank, count in gaps.most_common()[_MOST_NAMED:] if count]
        if others:
            self.notes.remark(f"{len(others)} more ranks have gaps in coll_sn")

    def _parts(self, process: _Process) -> Iterator[tuple[_Process, list[CallRow]]]:
        rows = sorted(self._rows[process])
        begin = 0
        for index, row in enumerate(rows):
            if index > begin and (row.start_s - rows[begin].start_s >= MOST_S or index - begin >= MOST_ROWS):
                yield process, rows[begin:index]
                begin = index
        yield process, rows[begin:]

    def _check_one_run(self) -> None:
        """Refuse processes of which some cannot be compared with the others."""
        lives = [self._lives[process] for process in self._rows]
        if len({life.rank for life in lives}) < len(lives):
            raise SourceError("two processes are the same rank: these files are of more than one job or attempt")
        check_apart([(life.first_s, life.last_s, life.rank) for life in lives])
        joined = set(lives[0].communicators)
        apart = lives[1:]
        while reached := [life for life in apart if life.communicators & joined]:
            joined.update(*(life.communicators for life in reached))
            apart = [life for life in apart if not life.communicators & joined]
        if apart:
            ranks = ", ".join(str(life.rank) for life in apart[:8]) + (", …" if len(apart) > 8 else "")
            raise SourceError(
                f"no communicator joins rank {lives[0].rank} with rank {ranks}: these files are of more than one job"
            )

    def _about(self, process: _Process, sequence: int) -> dict[str, Any]:
        return {
            "cluster": "imported",
            "producer": f"import-{self.job}-{process.host}-{process.pid}",
            "sequence": sequence,
            "job": self.job,
            "attempt": 0,
            "node": process.host,
        }


def _numbers(rows: list[CallRow]) -> dict[str, set[int]]:
    """The numbers of a process's collectives, by group."""
    seen: dict[str, set[int]] = defaultdict(set)
    for row in rows:
        seen[row.group].add(row.seq)
    return seen


def _process(metadata: Metadata) -> _Process:
    return _Process(metadata.hostname or "unknown", metadata.pid)


def _numbered(
    parts: list[tuple[_Process, list[CallRow]]],
) -> Iterator[tuple[int, tuple[_Process, list[CallRow]]]]:
    """Each part with the number of its message among its process's."""
    count: dict[_Process, int] = defaultdict(int)
    for part in parts:
        yield count[part[0]], part
        count[part[0]] += 1


def _decode(line: bytes, notes: Notes | None = None) -> Line | None:
    """What a line says; None where it is none, which is counted in ``notes``."""
    try:
        return lines.read(line)
    except LineError as error:
        if notes is not None:
            notes.drop(str(error), bool(line.strip()))
    return None
