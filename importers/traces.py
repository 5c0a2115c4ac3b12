"""Several ranks' traces to the events of one job.

Rule of this file: traces that cannot be of one run are refused, and so is a rank that comes twice; collectives are
numbered within their group, by their own numbers where every one has one of its own, else in the order in which each
rank began them.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator

from paceline.events import CollectiveTimings
from paceline.timed_event import TimedEvent
from paceline.topics import COLLECTIVE_V1

from .kineto import RankTrace
from .notes import Notes, SourceError
from .op_rows import ImportedJob
from .step_messages import step_messages

#: Traces of one run are taken within this time of each other. Earlier than ``_UNIX_S`` no time is Unix time: it counts
#: from a start of the machine, and says nothing of another's.
_ONE_RUN_S, _UNIX_S = 3600.0, 1e9


class Traces:
    """Takes in what each trace says, then gives ``messages``."""

    def __init__(self, job: str, notes: Notes) -> None:
        self.job = job
        self.notes = notes
        self.ranks: dict[int, RankTrace] = {}
        self._names: dict[int, str] = {}

    def update(self, rank: RankTrace, name: str) -> None:
        """Take in one rank's trace.

        Raises:
            SourceError: there is one of that rank already, or one that cannot be of the same run.
        """
        if rank.rank in self.ranks:
            raise SourceError(f"{name}: rank {rank.rank} is there already; import one run's files at a time")
        for number, other in self.ranks.items():
            if (why := _apart(rank, other)) is not None:
                raise SourceError(
                    f"{name} and {self._names[number]} are not of one run: {why}; import one run's files at a time"
                )
        self.ranks[rank.rank], self._names[rank.rank] = rank, name

    def messages(self) -> Iterator[TimedEvent]:
        """Everything, by time."""
        if not self.ranks:
            return
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
        breakdowns = [rank.breakdown for _, rank in sorted(self.ranks.items())]
        versions = {number: rank.nccl_version for number, rank in self.ranks.items()}
        everything = [*step_messages(rows, breakdowns, versions, job), *self._collectives(job)]
        yield from sorted(everything, key=lambda message: message.timestamp_ms)

    def _collectives(self, job: ImportedJob) -> Iterator[TimedEvent]:
        numbered = self._numbered()
        for number, rank in sorted(self.ranks.items()):
            counts: dict[str, int] = defaultdict(int)
            starts = [collective.span.start for collective in rank.collectives]
            groups = {collective.group: collective.size for collective in rank.collectives}
            operations = sorted({collective.operation for collective in rank.collectives})
            for sequence, indices in enumerate(_seconds(starts)):
                collectives = [rank.collectives[index] for index in indices]
                numbers = []
                for collective in collectives:
                    own = collective.sequence if collective.group in numbered else None
                    numbers.append(counts[collective.group] if own is None else own)
                    counts[collective.group] += 1
                t0_s = round(collectives[0].span.start, 3)
                about = job.about(rank.host, sequence) | {"producer": f"import-{job.name}-rank-{number}"}
                event = CollectiveTimings(
                    **about,
                    backend=rank.backend,
                    phases=True,
                    t0_s=t0_s,
                    ranks=[number],
                    world_sizes=[len(job.ranks)],
                    groups=list(groups),
                    group_sizes=list(groups.values()),
                    operations=operations,
                    rank=[number] * len(collectives),
                    step=[rank.steps[index] for index in indices],
                    seq=numbers,
                    group=[list(groups).index(collective.group) for collective in collectives],
                    operation=[operations.index(collective.operation) for collective in collectives],
                    bytes=[collective.bytes for collective in collectives],
                    start_s=[round(collective.span.start - t0_s, 6) for collective in collectives],
                    duration_s=[round(collective.span.end - collective.span.start, 6) for collective in collectives],
                    wait_s=[round(rank.stood[index], 6) for index in indices],
                )
                yield TimedEvent(max(collective.span.end for collective in collectives), COLLECTIVE_V1, event)

    def _numbered(self) -> set[str]:
        """The groups whose collectives have numbers of their own on every rank, each once."""
        groups: set[str] = set()
        broken: set[str] = set()
        for rank in self.ranks.values():
            seen = Counter((collective.group, collective.sequence) for collective in rank.collectives)
            groups |= {group for group, _ in seen}
            broken |= {group for (group, number), count in seen.items() if number is None or count > 1}
        return groups - broken


def _apart(one: RankTrace, other: RankTrace) -> str | None:
    """Why two traces cannot be of one run, if they cannot."""
    if one.world_size and other.world_size and one.world_size != other.world_size:
        return f"one of {one.world_size} ranks, one of {other.world_size}"
    gap_s = max(one.span.start - other.span.end, other.span.start - one.span.end)
    if min(one.span.start, other.span.start) > _UNIX_S and gap_s > _ONE_RUN_S:
        return f"{gap_s / 3600:,.0f} hours apart"
    mine, theirs = {row.step for row in one.rows}, {row.step for row in other.rows}
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
