"""Which kernels a profiler lost, whole, their length or their time, and the steps that are not whole without them.

Rule of this file: pure. A launch and its kernel have one correlation number. Launches that are captured into a graph,
and host functions, have no kernel; a call inside of another that has one is that one's. A graph may be empty, and is
lost where more of the graphs of a step like it had kernels.
"""

from typing import NamedTuple

import numpy as np

from .kineto_events import BEGIN_CAPTURE, END_CAPTURE, FEW, GRAPH_CALL, KERNEL, KERNEL_CALL, Events
from .kineto_host import Step, Work
from .op_rows import Ints

#: In a trace of whole microseconds a kernel of length 0 may have been rounded, but where all others of its name last so
#: many of them.
_LASTS_US = 2.0


class Lost(NamedTuple):
    """How many launches there are, how many have no kernel, how many kernels have lost their length, how many events
    their time, and the places of the steps that are not to be compared: those without all of their kernels, and those
    right after them, whose idle time is not known."""

    launches: int
    kernels: int
    lengths: int
    times: int
    steps: set[int]


def lost_kernels(events: Events, steps: list[Step], work: Work, of_step: Ints) -> Lost:
    """What was lost; ``of_step`` has for each event of the device the place of its step, -1 for none."""
    launched, lost = _launches(events)
    few = lost.size * FEW <= launched.size
    places = _places(events.launches.start[lost[: 0 if few else lost.size]], steps)
    # A graph stands for many kernels: one is not few.
    graphs, lost_graphs = _graphs(events, steps)
    empty = _without_length(events)
    shown = empty.size * FEW > int((events.device.kind == KERNEL).sum())
    # A step in which the host worked and nothing ran, in a trace with kernels, has lost the calls, too.
    with_kernels = set(of_step[events.device.kind == KERNEL].tolist())
    broken = {*places.tolist(), *np.flatnonzero(lost_graphs).tolist()}
    if launched.size:
        broken |= _busy(steps, work, with_kernels)
    if shown:
        broken |= set(of_step[empty].tolist())
    broken |= {place for place, step in enumerate(steps) if step.end > events.untimed_from}
    broken -= {-1}
    after = {place + 1 for place in broken if place + 1 < len(steps)}
    kernels = lost.size + int(lost_graphs.sum())
    return Lost(launched.size + graphs, kernels, empty.size if shown else 0, events.untimed, broken | after)


def _graphs(events: Events, steps: list[Step]) -> tuple[int, Ints]:
    """How many graphs that are not empty were launched in steps, and by step how many of them have no kernels: a step
    with fewer that have some than another with as many launches has lost the difference."""
    launches, device = events.launches, events.device
    rows = np.flatnonzero((launches.call == GRAPH_CALL) & (launches.correlation > 0) & ~_captured(events))
    ran = np.isin(launches.correlation[rows], device.correlation[device.correlation > 0])
    place = _places(launches.start[rows], steps) + 1
    launched, whole = (np.bincount(of, minlength=len(steps) + 1)[1:] for of in (place, place[ran]))
    most = np.zeros(int(launched.max(initial=0)) + 1, dtype=np.int64)
    np.maximum.at(most, launched, whole)
    expected: Ints = most[launched]
    return int(expected.sum()), expected - whole


def _without_length(events: Events) -> Ints:
    """The rows of kernels of length 0, but for those that whole microseconds may have rounded to it."""
    device = events.device
    lengths = device.end - device.start
    kernels = device.kind == KERNEL
    empty = np.flatnonzero(kernels & (lengths <= 0))
    if not empty.size or bool(((device.start[kernels] % 1.0 > 0) | (lengths[kernels] % 1.0 > 0)).any()):
        return empty
    shortest = np.full(len(events.names), np.inf)
    timed = kernels & (lengths > 0)
    np.minimum.at(shortest, device.name[timed], lengths[timed])
    like = shortest[device.name[empty]]
    found: Ints = empty[(like >= _LASTS_US) & np.isfinite(like)]
    return found


def _busy(steps: list[Step], work: Work, with_kernels: set[int]) -> set[int]:
    """The places of steps without kernels in which the host did half as much as in those with them, or more."""
    worked = np.array([phase != "data" for phase in work.phase], dtype=bool)
    counts = np.bincount(_places(work.start[worked], steps) + 1, minlength=len(steps) + 1)[1:]
    known = sorted(with_kernels - {-1})
    if not known:
        return set()
    return set(np.flatnonzero(2 * counts >= max(float(np.median(counts[known])), 1.0)).tolist()) - with_kernels


def _places(when: "np.ndarray[tuple[int], np.dtype[np.float64]]", steps: list[Step]) -> Ints:
    """The place of the last step that began before each moment, -1 before all of them."""
    return np.searchsorted([step.start for step in steps], when, side="right") - 1


def _launches(events: Events) -> tuple[Ints, Ints]:
    """The rows of all launches of one kernel, and of those without it."""
    launches, device = events.launches, events.device
    kernels = device.kind == KERNEL
    none = not kernels.any()
    asked = np.isin(launches.call, (KERNEL_CALL, GRAPH_CALL) if none else (KERNEL_CALL,))
    rows = np.flatnonzero(asked & ~_captured(events))
    if none:
        return rows, rows
    numbers = device.correlation[device.correlation > 0]
    numbered = launches.correlation[rows] > 0
    if not numbers.size:  # kernels that tell no launch
        return rows, rows[:0]
    with_kernel = np.isin(launches.correlation[rows], numbers)
    lost = rows[numbered & ~with_kernel]
    return rows, lost[~_inside(events, lost, rows[with_kernel])]


def _captured(events: Events) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    """Which calls are captured into a graph: those between a capture's begin and end on their thread."""
    launches = events.launches
    change = (launches.call == BEGIN_CAPTURE).astype(np.int64) - (launches.call == END_CAPTURE)
    depth = np.zeros(change.size, dtype=np.int64)
    for thread in np.unique(launches.thread[change != 0]).tolist():
        mine = launches.thread == thread
        depth[mine] = np.cumsum(change[mine])
    return depth > 0


def _inside(events: Events, rows: Ints, others: Ints) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    """Which of the calls ``rows`` lie in one of ``others`` on their thread, or around one."""
    launches, found = events.launches, np.zeros(rows.size, dtype=bool)
    for thread in np.unique(launches.thread[rows]).tolist():
        mine = np.flatnonzero(launches.thread[rows] == thread)
        theirs = others[launches.thread[others] == thread]
        if not theirs.size:
            continue
        start, end = launches.start[rows[mine]], launches.end[rows[mine]]
        before = np.searchsorted(launches.start[theirs], start, side="right") - 1
        after = np.minimum(before + 1, theirs.size - 1)
        within = (before >= 0) & (launches.end[theirs[before]] >= end)
        around = (launches.start[theirs[after]] >= start) & (launches.end[theirs[after]] <= end)
        found[mine] = within | around
    return found
