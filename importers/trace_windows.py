"""Files to ranks: several files of one rank are windows of one run, and a file may contradict its own name.

Rule of this file: pure. A process has one profile at a time, so two files of a rank that overlap are two processes':
where their names tell ranks that do not clash these are taken, else they are refused. Windows whose steps begin anew
are numbered on, the same on every rank.
"""

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from msgspec.structs import replace

from paceline.events import RankBreakdown
from paceline.ranges import ranges

from .kineto import RankTrace
from .kineto_lost import Lost
from .kineto_phases import Span
from .notes import Notes, SourceError

#: A trace and the file that it came from.
Named = tuple[RankTrace, str]
#: Traces of one run are taken within this time of each other. Earlier than ``UNIX_S`` no time is Unix time: it counts
#: from a start of the machine, and says nothing of another's.
ONE_RUN_S, UNIX_S = 3600.0, 1e9
_SHOWN = 4


def by_rank(files: list[Named], notes: Notes) -> dict[int, list[Named]]:
    """The windows of each rank, by time.

    Raises:
        SourceError: two files of a rank are not windows of one run.
    """
    odd = [name for trace, name in files if trace.named not in (None, trace.rank)]
    ranks = _windows(files)
    clash = next(_clashes(ranks), None)
    if odd and clash is not None:
        renamed = [(_renamed(trace), name) for trace, name in files if trace.named is not None]
        if len(renamed) == len(files) and next(_clashes(_windows(renamed)), None) is None:
            notes.remark(f"{_some(odd)}: another rank in the file than in its name; the names are taken")
            return _windows(renamed)
    if clash is not None:
        raise SourceError(clash)
    for trace, name in files:
        if name in odd:
            notes.remark(
                f"{name}: rank {trace.rank} by what is in it, rank {trace.named} by its name; {trace.rank} is taken"
            )
    return ranks


def _some(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def _windows(files: list[Named]) -> dict[int, list[Named]]:
    ranks: dict[int, list[Named]] = defaultdict(list)
    for file in sorted(files, key=lambda file: (file[0].span.start, min(file[0].marked, default=0))):
        ranks[file[0].rank].append(file)
    return dict(sorted(ranks.items()))


def _renamed(trace: RankTrace) -> RankTrace:
    """As of the rank that its name tells; what it says of the world is as wrong as its rank."""
    rank = trace.rank if trace.named is None else trace.named
    return trace._replace(rank=rank, world_size=0, breakdowns=[replace(one, rank=rank) for one in trace.breakdowns])


def _clashes(ranks: dict[int, list[Named]]) -> Iterator[str]:
    """Why files of one rank cannot be windows of one run."""
    for rank, files in ranks.items():
        for (one, first), (other, second) in pairwise(files):
            shared = one.marked & other.marked
            gap_s = other.span.start - one.span.end
            if gap_s >= 0 and (not shared or gap_s <= ONE_RUN_S):
                continue
            if not shared and max(one.span.start, other.span.start) <= UNIX_S:
                continue  # times that restart
            why = "at the same time" if gap_s < 0 else f"{gap_s / 3600:,.0f} hours apart with the same steps"
            yield (
                f"{second}: rank {rank} is already in {first}, {why}; import one run's files at a time, and "
                "call files that all say one rank …rank3… for rank 3"
            )


def numbered_on(ranks: dict[int, list[Named]], notes: Notes) -> dict[int, list[Named]]:
    """The windows with steps that grow with time: where they do not, each window's begin after the one before it.

    Raises:
        SourceError: they do not, and ranks have different numbers of windows.
    """
    if all(
        max(a.marked, default=-1) < min(b.marked, default=0) for w in ranks.values() for (a, _), (b, _) in pairwise(w)
    ):
        return ranks
    counts = {len(windows) for windows in ranks.values()}
    if len(counts) > 1:
        names = _some([windows[0][1] for windows in ranks.values()])
        raise SourceError(
            f"{names}: steps restart in every file, and ranks have {min(counts)} to {max(counts)} files: import as "
            "many of each rank"
        )
    notes.remark("steps restart in every file of a rank: they are numbered on, file by file")
    out: dict[int, list[Named]] = {rank: [] for rank in ranks}
    first = 0
    for window in range(counts.pop()):
        there = {rank: windows[window] for rank, windows in ranks.items()}
        least = min((min(trace.marked) for trace, _ in there.values() if trace.marked), default=0)
        most = max((max(trace.marked) for trace, _ in there.values() if trace.marked), default=0)
        for rank, (trace, name) in there.items():
            out[rank].append((_moved(trace, first - least), name))
        first += most - least + 1
    return out


def _moved(trace: RankTrace, by: int) -> RankTrace:
    return trace._replace(
        rows=[row._replace(step=row.step + by) for row in trace.rows],
        steps=[step + by if step >= 0 else step for step in trace.steps],
        marked=frozenset(step + by for step in trace.marked),
        apart=frozenset(step + by for step in trace.apart),
    )


def joined(windows: list[Named]) -> RankTrace:
    """One rank's windows as one trace."""
    traces = [trace for trace, _ in windows]
    first = traces[0]
    return first._replace(
        world_size=max(trace.world_size for trace in traces),
        rows=[row for trace in traces for row in trace.rows],
        collectives=[one for trace in traces for one in trace.collectives],
        steps=[step for trace in traces for step in trace.steps],
        stood=[seconds for trace in traces for seconds in trace.stood],
        breakdowns=_added([one for trace in traces for one in trace.breakdowns]),
        lost=Lost(
            sum(t.lost.launches for t in traces),
            sum(t.lost.kernels for t in traces),
            sum(t.lost.lengths for t in traces),
            sum(t.lost.times for t in traces),
            set(),
        ),
        span=Span(first.span.start, max(trace.span.end for trace in traces)),
        marked=frozenset().union(*(trace.marked for trace in traces)),
        apart=frozenset().union(*(trace.apart for trace in traces)),
        members={group: ranks for trace in traces for group, ranks in trace.members.items()},
    )


def _added(breakdowns: list[RankBreakdown]) -> list[RankBreakdown]:
    """One for each device, its times added up; of launch delays the mean, by steps."""
    devices: dict[int | None, RankBreakdown] = {}
    for one in breakdowns:
        if (so_far := devices.get(one.device)) is None:
            devices[one.device] = one
            continue
        names = ("steps", "span_s", "compute_s", "exposed_communication_s", "exposed_copy_s", "idle_s", "lost_kernels")
        sums = {name: getattr(so_far, name) + getattr(one, name) for name in names}
        delays = [(part.launch_delay_s, part.steps or 1) for part in (so_far, one) if part.launch_delay_s is not None]
        weight = sum(steps for _, steps in delays)
        devices[one.device] = replace(
            so_far,
            **sums,
            on_device=so_far.on_device and one.on_device,
            whole=so_far.whole and one.whole and so_far.on_device == one.on_device,
            launch_delay_s=sum(delay * steps for delay, steps in delays) / weight if delays else None,
        )
    return list(devices.values())


def windows_told(ranks: dict[int, list[Named]], notes: Notes) -> None:
    """Say where ranks have several windows, and where not all have as many."""
    counts = {rank: len(windows) for rank, windows in ranks.items()}
    if max(counts.values(), default=0) > 1:
        notes.remark(f"{sum(counts.values())} files of {len(ranks)} ranks: those of a rank are windows of one run")
    fewer = [rank for rank, count in counts.items() if count < max(counts.values())]
    if fewer:
        notes.remark(f"rank {ranges(fewer)}: fewer files than other ranks")
