"""Several ranks' traces to the events of one job.

Rule of this file: rows of all ranks together; collectives are numbered within their group, by their own number or,
where the trace has none, in the order in which the rank began them.
"""

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from paceline.events import CollectiveTimings
from paceline.timed_event import TimedEvent
from paceline.topics import COLLECTIVE_V1

from .kineto import RankTrace
from .notes import Notes, SourceError
from .op_rows import ImportedJob, Rows, messages


class Traces:
    """Takes in what each trace says, then gives ``messages``."""

    def __init__(self, job: str, notes: Notes) -> None:
        self.job = job
        self.notes = notes
        self.ranks: dict[int, RankTrace] = {}

    def update(self, rank: RankTrace, name: str) -> None:
        """Take in one rank's trace.

        Raises:
            SourceError: there is one of that rank already.
        """
        if rank.rank in self.ranks:
            raise SourceError(f"{name}: rank {rank.rank} is there already; import one run's files at a time")
        self.ranks[rank.rank] = rank

    def messages(self) -> Iterator[TimedEvent]:
        """Everything, by time."""
        world = max(rank.world_size for rank in self.ranks.values())
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
        columns = [np.concatenate(parts) for parts in zip(*(rank.rows for rank in self.ranks.values()), strict=True)]
        everything = [*messages(Rows(*columns), job), *self._collectives(job)]
        yield from sorted(everything, key=lambda message: message.timestamp_ms)

    def _collectives(self, job: ImportedJob) -> Iterator[TimedEvent]:
        for number, rank in sorted(self.ranks.items()):
            counts: dict[str, int] = defaultdict(int)
            starts = [collective.span.start for collective in rank.collectives]
            groups = {collective.group: collective.size for collective in rank.collectives}
            operations = sorted({collective.operation for collective in rank.collectives})
            for sequence, indices in enumerate(_seconds(starts)):
                collectives = [rank.collectives[index] for index in indices]
                numbers = []
                for collective in collectives:
                    numbers.append(counts[collective.group] if collective.sequence is None else collective.sequence)
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
