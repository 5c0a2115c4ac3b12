"""What a rank's host did in a PyTorch profiler trace: its steps, and what it worked on.

Rule of this file: pure, and by the names that PyTorch gives. Steps are ``ProfilerStep#N``, else what lies between the
optimizers of two iterations, else an annotation that comes again and again, else the trace is one step. The data
loader, the optimizer, autograd's functions and everything else that ran on top are data, optimizer, backward and
forward.
"""

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from .intervals import union
from .kineto_collectives import BACKEND
from .kineto_events import TELLS_COLLECTIVE, Events
from .notes import Notes
from .op_rows import Floats, Ints

#: No job takes so many steps that their number has more digits.
_STEP = re.compile(r"ProfilerStep\s*#(\d{1,15})$")
#: A collective on the host, as its backend names it.
COLLECTIVE = re.compile(rf"(?:{BACKEND}|ncclKernel_|ncclDevKernel_)(.*)")
_NOT_WORK = re.compile(rf"{_STEP.pattern}|{COLLECTIVE.pattern}|PyTorch Profiler")
_OPERATORS = ("aten::", "autograd::", "torch::", "c10d::", "prims::")
_DIGITS = re.compile(r"\d+")
#: What a host waits in, or what lies around operators; none of it is an operator.
_AROUND = ("enumerate(DataLoader)", "Optimizer.")
#: Phases of an iteration that its optimizers do not run between each other, on their own thread.
_ITERATES = ("forward", "backward", "data")
#: An annotation marks iterations if it covers so much of the time between its first and its last.
_MARKS_ITERATIONS = 0.5


class Step(NamedTuple):
    """One step on the host, in microseconds of the trace's own time."""

    number: int
    start: float
    end: float


class Work(NamedTuple):
    """The outermost operators of every thread, by start, in microseconds, each with its phase."""

    start: Floats
    end: Floats
    thread: Ints
    phase: list[str]


def steps_of(events: Events, work: Work, notes: Notes) -> list[Step]:
    """The steps, by time."""
    host, names = events.host, events.names
    numbers = {index: int(mark[1]) for index, name in enumerate(names) if (mark := _STEP.match(name))}
    rows = np.flatnonzero(np.isin(host.name, list(numbers))).tolist()
    if rows:
        # The first of a number is the host's own.
        marked = {numbers[int(host.name[row])]: row for row in reversed(rows)}
        steps = [Step(number, float(host.start[row]), float(host.end[row])) for number, row in marked.items()]
        return sorted(steps, key=lambda step: step.start)
    ends = _optimized(events, work)
    if len(ends) >= 2:
        notes.remark("no ProfilerStep marks: a step is what lies between the ends of two optimizer steps")
        return [Step(number, *pair) for number, pair in enumerate(pairwise(ends))]
    columns = (host, events.device, events.launches)
    first = min((float(column.start.min()) for column in columns if column.start.size), default=0.0)
    last = max((float(column.end.max()) for column in columns[:2] if column.start.size), default=first)
    begins = _iterations(events)
    if begins:
        notes.remark("no ProfilerStep marks: a step is what lies between two annotations of the same name")
        return [Step(number, *pair) for number, pair in enumerate(pairwise([*begins, last]))]
    notes.remark("no ProfilerStep marks: the whole trace is taken as one step")
    return [Step(0, first, last)]


def _optimized(events: Events, work: Work) -> list[float]:
    """When an iteration's optimizer has ended: the last of several that run one after another."""
    host = events.host
    optimizers = [index for index, name in enumerate(events.names) if name.startswith("Optimizer.step#")]
    rows = np.isin(host.name, optimizers)
    spans = union(host.start[rows], host.end[rows])
    other = np.array([phase in _ITERATES for phase in work.phase], dtype=bool)
    starts = np.sort(work.start[other & np.isin(work.thread, np.unique(host.thread[rows]))])
    following = np.append(spans.start[1:], np.inf)
    last = np.searchsorted(starts, following) > np.searchsorted(starts, spans.end)
    last[-1:] = True
    # Without operators nothing says which belong together.
    ends: list[float] = (spans.end[last] if starts.size else spans.end).tolist()
    return ends


def _iterations(events: Events) -> list[float]:
    """When each iteration begins, by the annotation that comes again and again and covers most; none without one."""
    host, names = events.host, events.names
    by_name: dict[tuple[str, int], list[int]] = defaultdict(list)
    for row in np.flatnonzero(_annotations(events)).tolist():
        name = names[host.name[row]]
        if not _NOT_WORK.match(name) and _told_phase(name) is None:
            by_name[_DIGITS.sub("#", name), int(host.thread[row])].append(row)
    best, covered = [], 0.0
    for rows in by_name.values():
        start, end = host.start[rows], host.end[rows]
        total = float((end - start).sum())
        apart = len(rows) >= 2 and bool((start[1:] >= end[:-1]).all())
        if apart and total > covered and total >= _MARKS_ITERATIONS * float(end[-1] - start[0]):
            best, covered = start.tolist(), total
    return best


def work_of(events: Events) -> Work:
    """Outermost operators by thread, each with its phase."""
    host = events.host
    told = [_told_phase(name) for name in events.names]
    # What only begins a collective has no kernel but the collective's own; without a device it takes the host's time.
    asked = bool(events.device.start.size)
    work = np.array(
        [not (_NOT_WORK.match(name) or (asked and TELLS_COLLECTIVE.match(name))) for name in events.names], dtype=bool
    )
    telling = np.array([phase is not None for phase in told], dtype=bool)
    if not host.name.size:
        return Work(host.start, host.end, host.thread, [])
    kept = work[host.name]
    # An annotation around whole iterations says nothing of a phase, and must not hide those that it spans.
    starts = host.start[telling[host.name] & kept]
    around = _annotations(events) & ~telling[host.name]
    around &= np.searchsorted(starts, host.end, side="left") > np.searchsorted(starts, host.start, side="left")
    rows = np.flatnonzero(kept & ~around)
    outermost: list[int] = []
    reach: dict[int, float] = {}
    for row, thread, start, end in zip(
        rows.tolist(), host.thread[rows].tolist(), host.start[rows].tolist(), host.end[rows].tolist(), strict=True
    ):
        if start >= reach.get(thread, -np.inf):
            reach[thread] = end
            outermost.append(row)
    start, end, thread = host.start[outermost], host.end[outermost], host.thread[outermost]
    phases = _by_thread([told[name] for name in host.name[outermost].tolist()], thread.tolist())
    return Work(start, end, thread, _settled(start.tolist(), end.tolist(), phases, events.links))


def _annotations(events: Events) -> "np.ndarray[Any, np.dtype[np.bool_]]":
    """Which host events are the user's own marks. Before 2022 they had the category of operators."""
    annotation = events.host.annotation == 1
    plain = np.array([name.startswith(_OPERATORS) for name in events.names], dtype=bool)
    return annotation if annotation.any() else ~plain[events.host.name]


def _by_thread(told: list[str | None], threads: list[int]) -> list[str]:
    """The phase of each operator, by what it tells or, where it tells nothing, by its thread: on one that is autograd's
    own, for a device, hooks and the like belong to the backward."""
    counts = Counter(zip(threads, told, strict=True))
    own = {
        thread
        for thread in set(threads)
        if counts[thread, "backward"] > counts[thread, None]
        and not counts[thread, "optimizer"] + counts[thread, "data"]
    }
    return [phase or ("backward" if thread in own else "forward") for thread, phase in zip(threads, told, strict=True)]


def is_operator(name: str) -> bool:
    """Whether an event of this name computes: neither a mark, nor the loader, nor what begins a collective."""
    return not (_NOT_WORK.match(name) or TELLS_COLLECTIVE.match(name) or name.startswith(_AROUND))


def _told_phase(name: str) -> str | None:
    """The phase that a name tells; None where it tells none, which is forward if anything."""
    if name.startswith("enumerate(DataLoader)"):
        return "data"
    if name.startswith("Optimizer."):
        return "optimizer"
    small = name.lower()
    if name.startswith("autograd::engine") or ("distributed" in name and "reducer" in name):
        return "backward"
    return "backward" if "backward" in small and "forward" not in small else None


def _settled(start: list[float], end: list[float], phases: list[str], links: Floats) -> list[str]:
    """Operators among a backward's functions belong to it, unless a forward that has a backward begins with them."""
    if not links.size:
        return phases
    linked = links.tolist()
    out = list(phases)
    run: list[int] = []
    inside = False
    for index, phase in enumerate(phases):
        if phase == "forward" and inside:
            run.append(index)
            if bisect_left(linked, end[index]) > bisect_left(linked, start[index]):
                run, inside = [], False
            continue
        for one in run:
            out[one] = "backward" if phase == "backward" else "other"
        run = []
        inside = phase == "backward" or (inside and phase != "optimizer")
    for one in run:
        out[one] = "other"
    return out
