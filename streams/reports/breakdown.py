"""Where the time of each rank's device went over a profiler's trace: what a recording says, for people and as JSON.

Rule of this file: pure; it shows what was told and derives nothing. Only a trace that holds kernels (or, on CPUs,
operators) can tell it: the phases of a live run do not say when a device was idle.
"""

import msgspec

from paceline.events import RankBreakdown, StepTimings
from paceline.ranges import ranges
from paceline.visible import visible
from paceline.words import seconds

#: Rows, of the ranks of all jobs together.
MOST_ROWS = 2**20
_COLUMNS = ("rank", "steps", "span", "compute", "communication", "copies", "idle", "launch delay")
#: Cluster, job, attempt, rank and device, -1 where a rank has one alone.
_Key = tuple[str, str, int, int, int]
_PARTS = ("compute_s", "exposed_communication_s", "exposed_copy_s", "idle_s")


class BreakdownReport:
    """Takes in events, then shows the last word on each rank."""

    def __init__(self) -> None:
        self.ranks: dict[_Key, RankBreakdown] = {}

    def update(self, event: StepTimings) -> None:
        """Take in what one message says."""
        for told in event.breakdowns:
            key = (event.cluster, event.job, event.attempt, told.rank, -1 if told.device is None else told.device)
            if key in self.ranks or len(self.ranks) < MOST_ROWS:
                self.ranks[key] = told

    def lines(self) -> list[bytes]:
        """A JSON object a rank, by job and rank."""
        return [
            visible(msgspec.json.encode({"job": job, **msgspec.structs.asdict(told)}).decode()).encode()
            for (_, job, *_), told in sorted(self.ranks.items(), key=_key)
        ]

    def page(self) -> str:
        """A table a job."""
        jobs: dict[tuple[str, str, int], list[RankBreakdown]] = {}
        for (*job, _, _), told in sorted(self.ranks.items(), key=_key):
            jobs.setdefault(tuple(job), []).append(told)  # type: ignore[arg-type]
        return "\n".join(line for (_, job, _), ranks in jobs.items() for line in _table(job, ranks))


def _key(item: tuple[_Key, RankBreakdown]) -> _Key:
    return item[0]


def _table(job: str, ranks: list[RankBreakdown]) -> list[str]:
    rows = [_COLUMNS, *(_row(told) for told in ranks)]
    widths = [max(len(row[index]) for row in rows) for index in range(len(_COLUMNS))]
    table = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    head = f"job {visible(job)}: where each rank's device spent its time; what computation covers counts as computation"
    on_host = [str(told.rank) for told in ranks if not told.on_device]
    shown = ", ".join(on_host[:8]) + (", …" if len(on_host) > 8 else "")
    lines = [f"no kernels in the trace of rank {shown}: operators stand for them"] if on_host else []
    lost = {told.rank: told.lost_kernels for told in ranks if told.lost_kernels}
    lines += [f"rank {rank}: {count:,} kernel launches without a kernel in the trace" for rank, count in lost.items()][
        :8
    ]
    apart = sorted({told.rank for told in ranks if not told.whole})
    lines += (
        [f"rank {ranges(apart)}: not to be compared with the others, for its kernels are not all here"] if apart else []
    )
    if len({told.rank for told in ranks}) > 1 and not any(told.exposed_communication_s for told in ranks):
        lines.append("no communication that computation does not cover: it is all hidden, or none was recognised")
    return [head, *table, *lines]


def _row(told: RankBreakdown) -> tuple[str, ...]:
    parts = [getattr(told, name) for name in _PARTS]
    shares = [f"{seconds(part)} {part / told.span_s:4.0%}" if told.span_s > 0 else seconds(part) for part in parts]
    delay = "-" if told.launch_delay_s is None else seconds(told.launch_delay_s)
    rank = str(told.rank) if told.device is None else f"{told.rank}, device {told.device}"
    return (rank, str(told.steps), seconds(told.span_s), *shares, delay)
