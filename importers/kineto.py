"""A PyTorch profiler (Kineto) trace, one file a rank, to steps with their phases, to collectives and to a breakdown.

Rule of this file: what the trace says, no more. Where kernels are in it, time is the device's (``kineto_device``);
without any it is the host's: operators stand for kernels, and communication is the time in which a collective was under
way and nothing else ran.
"""

from typing import IO, NamedTuple

import numpy as np
from msgspec.structs import replace

from paceline.events import RankBreakdown

from .intervals import union
from .kineto_collectives import Told, members, told
from .kineto_device import device_times
from .kineto_events import Events, read_events
from .kineto_host import COLLECTIVE, Step, Work, is_operator, steps_of, work_of
from .kineto_lost import Lost, lost_kernels
from .kineto_phases import Collective, Span, StepRow, rows_of
from .kineto_ranks import rank_in
from .notes import Notes, SourceError
from .op_rows import Ints

_MOST_WORD = 64


class RankTrace(NamedTuple):
    """What one trace says: whose it is, its steps, its collectives, of each the step (-1 none) and the seconds that it
    was stood for, and where the time went, by device. ``world_size`` is 0 where the trace does not tell it; ``span`` is
    when it begins and ends, in Unix time if it has such a one; ``nccl_version`` is "" where it is not told; ``named``
    is the rank that the file's name tells. ``lost`` says which kernels the profiler lost, ``marked`` has the numbers of
    all steps in it, ``apart`` of those that are left out because they lack kernels. ``members`` are those of groups."""

    rank: int
    world_size: int
    host: str
    rows: list[StepRow]
    collectives: list[Collective]
    steps: list[int]
    stood: list[float]
    breakdowns: list[RankBreakdown]
    lost: Lost
    span: Span
    nccl_version: str
    named: int | None
    marked: frozenset[int]
    apart: frozenset[int]
    members: dict[str, tuple[int, ...]]


def read(stream: IO[bytes], name: str, notes: Notes, *, alone: bool = False) -> RankTrace:
    """The trace in ``stream``. ``name`` is its path; ``alone`` says that it is the only one, and so rank 0 if nothing
    tells another.

    Raises:
        SourceError: it is no such trace, or does not say which rank it is of.
    """
    events = read_events(stream, name, notes)
    rank = _rank(events, name, alone=alone)
    world = (events.about.world_size if events.about else None) or 0
    if world and rank >= world:
        raise SourceError(f"{name}: rank {rank} in a world of {world}; import a trace whose distributedInfo is whole")
    if not events.device.start.size and not events.host.start.size:
        raise SourceError(f"{name}: no PyTorch profiler trace: neither operators nor kernels in it")
    work = work_of(events)
    steps = steps_of(events, work, notes)
    if events.device.start.size:
        made = device_times(rank, events, steps, work, notes)
        parts = (made.rows, made.collectives, made.steps, made.stood, made.breakdowns, made.lost)
    else:
        parts = _on_host(rank, events, steps, work, notes)
    named = events.about.nccl_version if events.about else None
    version = named[:_MOST_WORD] if isinstance(named, str) else ""
    marked = frozenset(step.number for step in steps)
    apart = frozenset(steps[place].number for place in parts[-1].steps)
    node = events.host_name or "imported"
    groups = members([*events.host_told.values(), *events.device_told.values()])
    return RankTrace(rank, world, node, *parts, _span(events), version, rank_in(name), marked, apart, groups)


def _rank(events: Events, name: str, *, alone: bool) -> int:
    if events.about is not None and events.about.rank is not None:
        return events.about.rank
    named = rank_in(name)
    if named is None and not alone:
        raise SourceError(f"{name}: no distributedInfo in it that tells its rank; call the file …rank3… for rank 3")
    return named or 0


def _span(events: Events) -> Span:
    columns = [column for column in (events.device, events.host) if column.start.size]
    begin = min(float(column.start.min()) for column in columns)
    end = max(float(column.end.max()) for column in columns)
    return Span(events.base_s + begin / 1e6, events.base_s + end / 1e6)


def _on_host(
    rank: int, events: Events, steps: list[Step], work: Work, notes: Notes
) -> tuple[list[StepRow], list[Collective], list[int], list[float], list[RankBreakdown], Lost]:
    """Steps by what ran on the host; none where it launched kernels that are not in the trace."""
    lost = lost_kernels(events, steps, work, np.zeros(0, dtype=np.int64))
    if lost.kernels:
        return [], [], [], [], [_breakdown(rank, events, 0, lost.kernels)], lost
    base_s = events.base_s
    whole = [step for place, step in enumerate(steps) if place not in lost.steps]
    spans = [(step.number, Span(base_s + step.start / 1e6, base_s + step.end / 1e6)) for step in whole]
    starts, ends = (base_s + work.start / 1e6).tolist(), (base_s + work.end / 1e6).tolist()
    busy = [(Span(start, end), phase) for start, end, phase in zip(starts, ends, work.phase, strict=True)]
    # Without some of them the collectives of a rank are not those of its peers with the same number.
    collectives = [] if lost.steps else sorted(_collectives(events))
    rows, numbers, stood = rows_of(spans, sorted(busy), collectives, notes)
    told_of = _breakdown(rank, events, len(whole))
    return rows, collectives, numbers, stood, [replace(told_of, whole=not lost.steps)], lost


def _collectives(events: Events) -> list[Collective]:
    """The backend's own spans: gloo's, say."""
    host, world = events.host, (events.about.world_size if events.about else None) or 0
    made = []
    for row in _backend_spans(events).tolist():
        about: Told = told(events.names[host.name[row]], events.host_told.get(row), ())
        span = Span(events.base_s + float(host.start[row]) / 1e6, events.base_s + float(host.end[row]) / 1e6)
        made.append(Collective(span, *about._replace(size=about.size or world)))
    return made


def _backend_spans(events: Events) -> Ints:
    """The rows of the host's events that are collectives."""
    named = [index for index, name in enumerate(events.names) if COLLECTIVE.match(name)]
    return np.flatnonzero(np.isin(events.host.name, named))


def _breakdown(rank: int, events: Events, steps: int, lost: int = 0) -> RankBreakdown:
    """Operators in place of kernels, those that only begin a collective left out."""
    host = events.host
    work = np.array([is_operator(name) for name in events.names], dtype=bool)
    operators = np.flatnonzero((host.annotation == 0) & work[host.name])
    waits = _backend_spans(events)
    computing = union(host.start[operators], host.end[operators])
    waiting = union(host.start[waits], host.end[waits])
    both = union(np.concatenate([computing.start, waiting.start]), np.concatenate([computing.end, waiting.end]))
    span = float(both.end[-1] - both.start[0]) if both.start.size else 0.0
    return RankBreakdown(
        rank=rank,
        steps=steps,
        span_s=span / 1e6,
        compute_s=computing.length / 1e6,
        exposed_communication_s=max(both.length - computing.length, 0.0) / 1e6,
        exposed_copy_s=0.0,
        idle_s=max(span - both.length, 0.0) / 1e6,
        on_device=False,
        lost_kernels=lost,
        whole=not lost,
    )
