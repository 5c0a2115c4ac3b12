"""Several ranks' traces to the events of one job.

Rule of this file: traces that cannot be of one run are refused; collectives are
numbered within their group, by their own numbers where every one has one of its own, else in the order in which each
rank began them.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator

from paceline.flight_recorder import distinct_groups
from paceline.timed_event import TimedEvent
from paceline.topics import COLLECTIVE

from .call_messages import CallRow, call_message
from .comparable_ranks import comparable
from .kineto import RankTrace
from .notes import Notes, SourceError
from .op_rows import ImportedJob
from .step_messages import step_messages
from .trace_windows import ONE_RUN_S, UNIX_S, Named, by_rank, joined, numbered_on, windows_told


class Traces:
    """Takes in what each trace says, then gives ``messages``."""

    def __init__(self, job: str, notes: Notes) -> None:
        self.job = job
        self.notes = notes
        self.ranks: dict[int, RankTrace] = {}
        self._files: list[Named] = []

    def update(self, trace: RankTrace, name: str) -> None:
        """Take in the trace of the file ``name``."""
        self._files.append((trace, name))

    def messages(self) -> Iterator[TimedEvent]:
        """Everything, by time.

        Raises:
            SourceError: the files cannot be of one run.
        """
        if not self._files:
            return
        ranks = numbered_on(by_rank(self._files, self.notes), self.notes)
        windows_told(ranks, self.notes)
        traces = {rank: (joined(windows), windows[0][1]) for rank, windows in ranks.items()}
        _one_run(traces)
        uneven = len({len(windows) for windows in ranks.values()}) > 1
        self.ranks = _with_own_groups(comparable({rank: trace for rank, (trace, _) in traces.items()}, self.notes))
        if uneven:
            self._without_unnumbered()
        yield from self._messages()

    def _without_unnumbered(self) -> None:
        """Counting tells the same collective on two ranks only where both have all of them."""
        numbered = self._numbered()
        for number, rank in self.ranks.items():
            kept = [index for index, one in enumerate(rank.collectives) if one.group in numbered]
            self.ranks[number] = rank._replace(
                collectives=[rank.collectives[index] for index in kept],
                steps=[rank.steps[index] for index in kept],
                stood=[rank.stood[index] for index in kept],
            )

    def _messages(self) -> Iterator[TimedEvent]:
        world = max(max(rank.world_size, rank.rank + 1) for rank in self.ranks.values())
        missing = sorted(set(range(world)) - set(self.ranks))
        if missing:
            shown = ", ".join(map(str, missing[:8])) + (", …" if len(missing) > 8 else "")
            self.notes.remark(f"{len(self.ranks)} of {world} ranks: no trace of rank {shown}")
        if any(collective.bytes == 0 for rank in self.ranks.values() for collective in rank.collectives):
            self.notes.remark("collectives whose size the trace does not tell have 0 bytes")
        self.notes.remark(
            "a profiler trace holds no time before its first step, no waiting for a processor, no device state"
        )
        nodes = {number: rank.host for number, rank in self.ranks.items()}
        job = ImportedJob(self.job, list(range(world)), {}, {}, nodes)
        rows = {number: rank.rows for number, rank in sorted(self.ranks.items())}
        breakdowns = [one for _, rank in sorted(self.ranks.items()) for one in rank.breakdowns]
        versions = {number: rank.nccl_version for number, rank in self.ranks.items()}
        everything = [*step_messages(rows, breakdowns, versions, job), *self._collectives(job)]
        yield from sorted(everything, key=lambda message: message.timestamp_ms)

    def _collectives(self, job: ImportedJob) -> Iterator[TimedEvent]:
        numbered = self._numbered()
        for number, rank in sorted(self.ranks.items()):
            counts: dict[str, int] = defaultdict(int)
            starts = [collective.span.start for collective in rank.collectives]
            for sequence, indices in enumerate(_seconds(starts)):
                rows = []
                for index in indices:
                    one = rank.collectives[index]
                    own = one.sequence if one.group in numbered else None
                    rows.append(
                        CallRow(
                            start_s=one.span.start,
                            rank=number,
                            step=rank.steps[index],
                            group=one.group,
                            size=one.size,
                            seq=counts[one.group] if own is None else own,
                            operation=one.operation,
                            bytes=one.bytes,
                            duration_s=one.span.end - one.span.start,
                            wait_s=rank.stood[index],
                        )
                    )
                    counts[one.group] += 1
                about = job.about(rank.host, sequence) | {"producer": f"import-{job.name}-rank-{number}"}
                event = call_message(rows, len(job.ranks), about, phases=True)
                yield TimedEvent(max(rank.collectives[index].span.end for index in indices), COLLECTIVE, event)

    def _numbered(self) -> set[str]:
        """The groups whose collectives have numbers of their own on every rank, each once."""
        groups: set[str] = set()
        broken: set[str] = set()
        for rank in self.ranks.values():
            seen = Counter((collective.group, collective.sequence) for collective in rank.collectives)
            groups |= {group for group, _ in seen}
            broken |= {group for (group, number), count in seen.items() if number is None or count > 1}
        return groups - broken


def _with_own_groups(ranks: dict[int, RankTrace]) -> dict[int, RankTrace]:
    """The traces, with another name for each of several groups that ranks call the same."""
    names = distinct_groups({number: rank.members for number, rank in ranks.items()})
    if not names:
        return ranks
    return {
        number: rank._replace(
            collectives=[one._replace(group=names.get((number, one.group), one.group)) for one in rank.collectives]
        )
        for number, rank in ranks.items()
    }


def _one_run(traces: dict[int, Named]) -> None:
    """Refuse ranks' traces that cannot be of one run.

    Raises:
        SourceError: two of them are not.
    """
    for trace, name in traces.values():
        for other, first in traces.values():
            if other is trace:
                break
            if (why := _apart(trace, other)) is not None:
                raise SourceError(f"{name} and {first} are not of one run: {why}; import one run's files at a time")


def _apart(one: RankTrace, other: RankTrace) -> str | None:
    """Why two traces cannot be of one run, if they cannot."""
    if one.world_size and other.world_size and one.world_size != other.world_size:
        return f"one of {one.world_size} ranks, one of {other.world_size}"
    gap_s = max(one.span.start - other.span.end, other.span.start - one.span.end)
    if min(one.span.start, other.span.start) > UNIX_S and gap_s > ONE_RUN_S:
        return f"{gap_s / 3600:,.0f} hours apart"
    mine, theirs = one.marked, other.marked
    if mine and theirs and not mine & theirs:
        return f"steps {min(mine)} to {max(mine)}, and {min(theirs)} to {max(theirs)}"
    return None


def _seconds(starts: list[float]) -> Iterator[list[int]]:
    """Indices of rows, a second's worth at a time."""
    part: list[int] = []
    for index, start in enumerate(starts):
        if part and start - starts[part[0]] >= 1.0:
            yield part
            part = []
        part.append(index)
    if part:
        yield part
