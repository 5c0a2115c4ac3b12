"""Where the time of a rank's device went in a PyTorch profiler trace: by step and phase, and over all of it.

Rule of this file: pure arithmetic on kernels. A kernel belongs to the step and phase that launched it, whenever it ran.
The time from the first kernel's start to the last one's end is shared out so that every moment counts once: to the
computation kernel that runs, of several to the one that started first; where none runs to the collective's; then to the
copy's; and where nothing runs to the step of the kernel that comes next. What of this idle time the host spent in the
data loader is data, the rest is idle. So phases are disjoint and add up to the step, and the steps, if all kernels are
theirs, to the whole: a step lasts from the end of the last kernel of the one before to the end of its own, unless their
kernels interleave. The first begins with its first kernel, for what the device did before is not in the trace. Times
are microseconds.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from paceline.events import PHASES, RankBreakdown

from .intervals import Union, new_time, union
from .kineto_collectives import CollectiveArgs, Told, is_collective_operator, told
from .kineto_events import COPY, KERNEL, DeviceEvents, Events
from .kineto_host import Step, Work
from .kineto_lost import Lost, lost_kernels
from .kineto_phases import Collective, Span, StepRow, passes
from .notes import Notes
from .op_rows import Floats, Ints

_AT = {phase: index for index, phase in enumerate(PHASES)}
_PASSES = (_AT["forward"], _AT["backward"])
Flags = NDArray[np.bool_]
#: Operators that lie around each other at a launch, at most.
_MOST_AROUND = 32


class Launched(NamedTuple):
    """Where each kernel comes from: when and on which thread it was launched (NaN and -1: not known), the place of its
    step (-1: of none), and its phase and micro-batch (-1: none)."""

    when: Floats
    thread: Ints
    step: Ints
    phase: Ints
    microbatch: Ints


class Shares(NamedTuple):
    """What each kernel takes of the device's time: ``own``, in which it runs and no other has the time; ``idle``, the
    idle time before it; and ``data``, what of this the host waited for data. ``begin`` is where all of it begins."""

    begin: Floats
    own: Floats
    idle: Floats
    data: Floats


class DeviceTimes(NamedTuple):
    """A rank's steps on its devices that have all of their kernels, its collectives, of each the step and the seconds
    that no computation of its device covers, the whole by device, and what the profiler lost."""

    rows: list[StepRow]
    collectives: list[Collective]
    steps: list[int]
    stood: list[float]
    breakdowns: list[RankBreakdown]
    lost: Lost


def device_times(rank: int, events: Events, steps: list[Step], work: Work, notes: Notes) -> DeviceTimes:
    """Where the time of the device went; there must be a kernel."""
    device = events.device
    launched = _launched(events, steps, work)
    collective = _meetings(events, launched)
    named_copy = np.array([name.startswith(("Memcpy", "Memset")) for name in events.names], dtype=bool)
    copy = ~collective & ((device.kind == COPY) | named_copy[device.name])
    computing = union(*_of(device.start, device.end, ~collective & ~copy))
    data = np.array([phase == "data" for phase in work.phase], dtype=bool)
    shares = _shares(events, collective, copy, computing, union(*_of(work.start, work.end, data)))
    notes.drop("kernels launched outside of every step", int((launched.step < 0).sum()))
    phase = np.where(collective, _AT["communication"], launched.phase)
    lost = lost_kernels(events, steps, work, launched.step)
    rows = _rows(events, steps, launched._replace(phase=phase), shares)
    apart = {steps[place].number for place in lost.steps}
    # Without some of them the collectives of a rank are not those of its peers with the same number.
    places = np.flatnonzero(collective) if not lost.steps else np.zeros(0, dtype=np.int64)
    stood = (device.end - device.start)[places] - _covered(device, ~collective & ~copy)[places]
    numbers = [steps[place].number if place >= 0 else -1 for place in launched.step[places].tolist()]
    return DeviceTimes(
        [row for row in rows if row.step not in apart],
        _collectives(events, launched, places),
        numbers,
        (stood / 1e6).tolist(),
        _breakdowns(rank, events, launched, (collective, copy), lost),
        lost,
    )


def _meetings(events: Events, launched: Launched) -> Flags:
    """Which events of the device are collectives: by themselves, else by the innermost operator around their launch."""
    found = np.zeros(events.device.start.size, dtype=bool)
    found[list(events.device_told)] = True
    host = events.host
    named = np.array([is_collective_operator(name) for name in events.names], dtype=bool)
    operators = np.flatnonzero(named[host.name]) if host.name.size else np.zeros(0, dtype=np.int64)
    for thread in np.unique(host.thread[operators]).tolist():
        mine = operators[host.thread[operators] == thread]
        inside = union(host.start[mine], host.end[mine]).holds(launched.when)
        asked = np.flatnonzero(inside & (launched.thread == thread) & ~found & (events.device.kind == KERNEL))
        rows = np.flatnonzero(host.thread == thread)
        ends, latest = host.end[rows], np.searchsorted(host.start[rows], launched.when[asked], side="right")
        for place, after in zip(asked.tolist(), latest.tolist(), strict=True):
            first = max(after - _MOST_AROUND, 0)
            around = np.flatnonzero(ends[first:after] >= launched.when[place])
            found[place] = bool(around.size) and bool(named[host.name[rows[first + around[-1]]]])
    return found


def _covered(device: DeviceEvents, computes: Flags) -> Floats:
    """Of each event the time in which its own device computes."""
    covered = np.zeros(device.start.size)
    for one in np.unique(device.device).tolist():
        mine = device.device == one
        computing = union(*_of(device.start, device.end, computes & mine))
        covered[mine] = computing.within(*_of(device.start, device.end, mine))
    return covered


def _breakdowns(
    rank: int, events: Events, launched: Launched, kinds: tuple[Flags, Flags], lost: Lost
) -> list[RankBreakdown]:
    """The whole of each device that ran kernels; its number is told where there are several."""
    device, nothing = events.device, union([], [])
    numbers = np.unique(device.device[device.kind == KERNEL]).tolist() or np.unique(device.device).tolist()
    made = []
    for number in numbers:
        mine = device.device == number if len(numbers) > 1 else np.ones(device.device.size, dtype=bool)
        part = events._replace(device=DeviceEvents(*(column[mine] for column in device)))
        collective, copy = (kind[mine] for kind in kinds)
        computing = union(*_of(part.device.start, part.device.end, ~collective & ~copy))
        shares = _shares(part, collective, copy, computing, nothing)
        own = Launched(*(column[mine] for column in launched))
        told = _breakdown(rank, part, own, shares, collective, copy)
        made.append(
            replace(
                told,
                device=number if len(numbers) > 1 else None,
                lost_kernels=lost.kernels,
                whole=not lost.steps,
            )
        )
    return made


def _of(start: Floats, end: Floats, which: Flags) -> tuple[Floats, Floats]:
    return start[which], end[which]


def _shares(events: Events, collective: Flags, copy: Flags, computing: Union, data: Union) -> Shares:
    start, end = events.device.start, events.device.end
    busier = union(*_of(start, end, ~copy))
    begin, own = np.empty_like(start), np.empty_like(start)
    for which, above in ((~collective & ~copy, None), (collective, computing), (copy, busier)):
        begin[which] = new_time(start[which], end[which])
        own[which] = end[which] - begin[which]
        if above is not None:
            own[which] -= above.within(begin[which], end[which])
    # Before a kernel the device was idle from the end of all that started earlier.
    reach = np.concatenate([start[:1], np.maximum.accumulate(end)[:-1]])
    idle = np.maximum(start - reach, 0.0)
    return Shares(
        np.where(idle > 0, reach, begin), own.clip(min=0.0), idle, np.minimum(data.within(reach, start), idle)
    )


def _launched(events: Events, steps: list[Step], work: Work) -> Launched:
    when, thread = _launches(events)
    known = ~np.isnan(when)
    # Kernels run in the order of their launches: one whose own is not known follows the one before it. Those before the
    # first that is known were launched before the trace began.
    last = np.maximum.accumulate(np.where(known, np.arange(when.size), -1))
    asked = np.where(last >= 0, when[last], -np.inf if known.any() else events.device.start)
    of_thread = np.where(last >= 0, thread[last], -1)
    starts = np.array([step.start for step in steps])
    # The host is between two marks only for a moment.
    ends = [later.start if later.number == step.number + 1 else step.end for step, later in pairwise(steps)]
    place = np.searchsorted(starts, asked, side="right") - 1
    inside = (place >= 0) & (asked <= np.array([*ends, steps[-1].end])[np.maximum(place, 0)])
    phases, microbatches = _labels(steps, work)
    operator = _operators(work, asked, of_thread)
    found = operator >= 0
    return Launched(
        when,
        thread,
        np.where(inside, place, -1),
        np.where(found, phases[operator], _AT["other"]),
        np.where(found, microbatches[operator], -1),
    )


def _launches(events: Events) -> tuple[Floats, Ints]:
    """When and on which thread each kernel was launched: by its correlation, else by the operator that it names."""
    device, launches, host = events.device, events.launches, events.host
    when, thread = np.full(device.start.size, np.nan), np.full(device.start.size, -1)
    for of_kernel, key, start, threads in (
        (device.external, host.external, host.start, host.thread),
        (device.correlation, launches.correlation, launches.start, launches.thread),
    ):
        usable = np.flatnonzero(key >= 0)
        numbers, first, count = np.unique(key[usable], return_index=True, return_counts=True)
        once = (numbers > 0) | (count == 1)  # 0 is no number where many have it
        numbers, rows = numbers[once], usable[first[once]]
        if not numbers.size:
            continue
        at = np.minimum(np.searchsorted(numbers, of_kernel), numbers.size - 1)
        hit = numbers[at] == of_kernel
        when[hit], thread[hit] = start[rows[at[hit]]], threads[rows[at[hit]]]
    return when, thread


def _labels(steps: list[Step], work: Work) -> tuple[Ints, Ints]:
    """Phase and micro-batch of every operator, with one more at the end for none."""
    phases = np.array([*(_AT[phase] for phase in work.phase), _AT["other"]], dtype=np.int64)
    microbatches = np.full(phases.size, -1)
    begins = np.searchsorted(work.start, [step.start for step in steps]).tolist()
    ends = np.minimum(
        np.searchsorted(work.start, [step.end for step in steps]), [*begins[1:], work.start.size]
    ).tolist()
    for begin, end in zip(begins, ends, strict=True):
        for index, (phase, microbatch) in enumerate(passes(work.phase[begin:end]), begin):
            phases[index], microbatches[index] = _AT[phase], microbatch
    return phases, microbatches


def _operators(work: Work, when: Floats, thread: Ints) -> Ints:
    """The outermost operator around each launch on its own thread, else the last that began anywhere; -1 for none."""
    latest = np.searchsorted(work.start, when, side="right") - 1
    for one in np.unique(thread[thread >= 0]).tolist():
        rows = np.flatnonzero(work.thread == one)
        asked = np.flatnonzero(thread == one)
        at = np.searchsorted(work.start[rows], when[asked], side="right") - 1
        spans = (at >= 0) & (work.end[rows[at]] >= when[asked]) if rows.size else np.zeros(asked.size, dtype=bool)
        latest[asked[spans]] = rows[at[spans]]
    return latest


def _rows(events: Events, steps: list[Step], launched: Launched, shares: Shares) -> list[StepRow]:
    """Every step that has a kernel."""
    mine = np.flatnonzero(launched.step >= 0)
    step, phase = launched.step[mine], launched.phase[mine]
    own, idle, data = shares.own[mine], shares.idle[mine], shares.data[mine]
    parts = ((phase, own), (np.full_like(phase, _AT["idle"]), idle - data), (np.full_like(phase, _AT["data"]), data))
    cells = np.concatenate([step * len(PHASES) + which for which, _ in parts])
    spent = np.concatenate([values for _, values in parts])
    seconds = np.bincount(cells, weights=spent, minlength=len(steps) * len(PHASES)).reshape(-1, len(PHASES)) / 1e6
    begin = np.full(len(steps), np.inf)
    np.minimum.at(begin, step, shares.begin[mine])
    passes_of = _passes(step, launched.microbatch[mine], phase, own)
    words = {"communication", "idle", *(name for name, index in _AT.items() if bool(seconds[:, index].any()))}
    return [
        StepRow(
            steps[place].number,
            events.base_s + float(begin[place]) / 1e6,
            float(seconds[place].sum()),
            {name: float(seconds[place, index]) for name, index in _AT.items() if name in words},
            passes_of.get(place, {}),
        )
        for place in np.unique(step).tolist()
    ]


def _passes(step: Ints, microbatch: Ints, phase: Ints, own: Floats) -> dict[int, dict[int, tuple[float, float]]]:
    """By step and micro-batch the seconds in forward and backward, where there are several."""
    split = (microbatch >= 0) & np.isin(phase, _PASSES)
    cells, place = np.unique(np.stack([step[split], microbatch[split]]), axis=1, return_inverse=True)
    backward = phase[split] == _AT["backward"]
    spent = [np.where(which, own[split], 0.0) for which in (~backward, backward)]
    both = [(np.bincount(place.ravel(), weights=one, minlength=cells.shape[1]) / 1e6).tolist() for one in spent]
    out: dict[int, dict[int, tuple[float, float]]] = {}
    for (number, batch), *pair in zip(cells.T.tolist(), *both, strict=True):
        out.setdefault(number, {})[batch] = (pair[0], pair[1])
    return out


def _breakdown(
    rank: int, events: Events, launched: Launched, shares: Shares, collective: Flags, copy: Flags
) -> RankBreakdown:
    device = events.device
    delay = (device.start - launched.when)[~np.isnan(launched.when)]
    return RankBreakdown(
        rank=rank,
        steps=np.unique(launched.step[launched.step >= 0]).size,
        span_s=float(device.end.max() - device.start.min()) / 1e6,
        compute_s=float(shares.own[~collective & ~copy].sum()) / 1e6,
        exposed_communication_s=float(shares.own[collective].sum()) / 1e6,
        exposed_copy_s=float(shares.own[copy].sum()) / 1e6,
        idle_s=float(shares.idle.sum()) / 1e6,
        launch_delay_s=max(float(np.median(delay)), 0.0) / 1e6 if delay.size else None,
    )


def _collectives(events: Events, launched: Launched, places: Ints) -> list[Collective]:
    device, made = events.device, []
    world = (events.about.world_size if events.about else None) or 0
    around = _Around(events)
    for place in places.tolist():
        when = float(launched.when[place])
        about: Told = told(
            events.names[device.name[place]],
            events.device_told.get(place),
            around.at(when, int(launched.thread[place])),
        )
        span = Span(events.base_s + float(device.start[place]) / 1e6, events.base_s + float(device.end[place]) / 1e6)
        made.append(Collective(span, *about._replace(size=about.size or world)))
    return made


class _Around:
    """The host's events that tell of collectives, by thread."""

    def __init__(self, events: Events) -> None:
        self.events = events
        rows = np.array(sorted(events.host_told), dtype=np.int64)
        threads = events.host.thread[rows]
        self.rows = {one: rows[threads == one] for one in np.unique(threads).tolist()}
        self.starts = {one: events.host.start[mine] for one, mine in self.rows.items()}

    def at(self, when: float, thread: int) -> Iterator[tuple[str, CollectiveArgs]]:
        """Those that span ``when`` on ``thread``, innermost first."""
        if thread not in self.rows:
            return
        place = int(np.searchsorted(self.starts[thread], when, side="right"))
        for row in reversed(self.rows[thread][max(place - _MOST_AROUND, 0) : place].tolist()):
            if self.events.host.end[row] >= when:
                yield self.events.names[self.events.host.name[row]], self.events.host_told[row]
