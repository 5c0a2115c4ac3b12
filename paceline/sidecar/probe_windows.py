"""Windows of steps with the probe on and off: what one rank tells of them, and what its node's ranks tell together.

Rule of this file: pure. Times come in as integer nanoseconds of Unix time, one at the end of each step. What a window
costs is the mean of its steps, so that everything counts that the probe does now and then, and not with every step;
but steps that took ``LONG`` times the usual (evaluations, checkpoints, an epoch's begin) count in neither window of a
pair.
"""

import statistics
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from paceline.events import ProbeCost
from paceline.paired import LEAST_PAIRS, median_interval
from paceline.training import marks

#: The first steps of a window do not count: caches settle, and the marks of the window before are sent.
SETTLE = 5  # one in so many
#: Counted steps of a window must last this long together: several turns of the thread that sends marks.
LEAST_S = 0.5
LONG = 3.0
#: More steps than the longest window has: marks were lost, or are no rank's.
MOST_STEPS = 4096
#: Windows of a rank that are kept; a run has fewer.
MOST_WINDOWS = 512


class ProbeWindow(NamedTuple):
    """One window of one rank: after how many steps it began, when, and how long each step took."""

    on: bool
    step: int
    start_ns: int
    steps_ns: Sequence[int]


class ProbeWindows:
    """One rank's marks in, whole windows out."""

    def __init__(self) -> None:
        self._open: tuple[bool, int, int] | None = None
        self._ends: list[int] = []
        self._windows: list[ProbeWindow] = []

    def feed(self, t: int, kind: int, payload: Any) -> None:
        """Take a mark that begins a window, with how many steps have ended before, or one that ends a step."""
        if kind == marks.STEPPED:
            if self._open is not None and len(self._ends) <= MOST_STEPS:
                self._ends.append(t)
            return
        self._close(payload)
        self._open, self._ends = (kind == marks.WINDOW_ON, payload, t), []

    def _close(self, steps: int) -> None:
        if self._open is None:
            return
        on, begun, start = self._open
        if 0 < len(self._ends) == steps - begun:
            lengths = [end - before for before, end in zip([start, *self._ends], self._ends, strict=False)]
            self._windows.append(ProbeWindow(on, begun, start, lengths))

    def drain(self) -> list[ProbeWindow]:
        """The windows that are over since the last call."""
        windows, self._windows = self._windows, []
        return windows


class Pair(NamedTuple):
    """Two windows in a row: of how many steps each, seconds a step in either, and how long the shorter one counts."""

    steps: int
    off_s: float
    on_s: float
    shorter_s: float


class NodeWindows:
    """The windows of a node's ranks, and what they come to."""

    def __init__(self) -> None:
        #: By the step that a window begins after: each rank's.
        self._windows: dict[int, dict[int, ProbeWindow]] = {}

    def update(self, rank: int, windows: Sequence[ProbeWindow]) -> None:
        """Take in what ``rank`` tells."""
        for window in windows:
            if window.step in self._windows or len(self._windows) < MOST_WINDOWS:
                self._windows.setdefault(window.step, {})[rank] = window

    def cost(self, ranks: Collection[int]) -> ProbeCost:
        """What the probe costs a step of the job that ``ranks`` are this node's part of."""
        told = [self._windows[step] for step in sorted(self._windows)]
        everyones = [[windows[rank] for rank in ranks] for windows in told if windows.keys() >= set(ranks)]
        alike = [windows for windows in everyones if _alike(windows)]
        found = list(_neighbours(alike))
        joint = [both for both in found if all(map(_together, both))]
        pairs = [_pair(*both) for both in joint]
        fit = [pair for pair in pairs if pair.shorter_s >= LEAST_S]
        differences = [pair.on_s - pair.off_s for pair in fit]
        added = median_interval(differences) if len(fit) >= LEAST_PAIRS else None
        return ProbeCost(
            pairs=len(fit),
            short_pairs=len(pairs) - len(fit),
            apart_pairs=len(found) - len(joint) + (len(told) - len(alike)) // 2,
            least_steps=min((pair.steps for pair in fit), default=0),
            most_steps=max((pair.steps for pair in fit), default=0),
            needed_steps=needed_steps(statistics.median(pair.off_s for pair in pairs) if pairs else LEAST_S),
            off_steps=sum(_off_steps(windows.values()) for windows in told),
            step_s=statistics.median(pair.off_s for pair in fit) if fit else None,
            added_s=added.middle if added else None,
            added_low_s=added.low if added else None,
            added_high_s=added.high if added else None,
        )


def needed_steps(step_s: float) -> int:
    """Steps of ``step_s`` until enough pairs of windows lasted long enough; 0 where no window would.

    >>> needed_steps(0.5), needed_steps(0.02), needed_steps(0.0005)
    (140, 900, 0)
    """
    begun = marks.WARM_UP
    for steps in marks.SIZES:
        if (steps - steps // SETTLE) * step_s >= LEAST_S:
            return begun + 2 * LEAST_PAIRS * steps
        begun += 2 * marks.PAIRS * steps
    return 0


def _off_steps(windows: Iterable[ProbeWindow]) -> int:
    return max((len(one.steps_ns) for one in windows if not one.on), default=0)


def _alike(windows: list[ProbeWindow]) -> bool:
    """Whether all ranks tell the same window."""
    return len({(one.on, len(one.steps_ns)) for one in windows}) == 1


def _neighbours(windows: list[list[ProbeWindow]]) -> Iterator[tuple[list[ProbeWindow], list[ProbeWindow]]]:
    """Pairs, each window in one at most: two in a row of the same length, of which one is on. Off comes first here."""
    before: list[ProbeWindow] | None = None
    for now in windows:
        if before is None or before[0].on == now[0].on or _after(before[0]) != now[0].step:
            before = now
        elif len(before[0].steps_ns) == len(now[0].steps_ns):
            yield (now, before) if before[0].on else (before, now)
            before = None
        else:
            before = now


def _after(window: ProbeWindow) -> int:
    return window.step + len(window.steps_ns)


def _together(windows: list[ProbeWindow]) -> bool:
    """Whether all ranks began this window at the same time, to within the steps of it that do not count."""
    starts = [one.start_ns for one in windows]
    steps_ns = windows[0].steps_ns
    return max(starts) - min(starts) <= sum(steps_ns[: len(steps_ns) // SETTLE])


def _pair(off: list[ProbeWindow], on: list[ProbeWindow]) -> Pair:
    """Means over the ranks: they differ little, for all wait for the slowest."""
    ranks = [_of_rank(*both) for both in zip(off, on, strict=True)]
    means = [statistics.fmean(values) for values in zip(*ranks, strict=True)]
    return Pair(len(off[0].steps_ns), *means)


def _of_rank(off: ProbeWindow, on: ProbeWindow) -> tuple[float, float, float]:
    settled = [one.steps_ns[len(one.steps_ns) // SETTLE :] for one in (off, on)]
    most = LONG * statistics.median([*settled[0], *settled[1]])
    kept = [[length for length in lengths if length <= most] for lengths in settled]
    if not all(kept):
        return 0.0, 0.0, 0.0
    off_s, on_s = (statistics.fmean(lengths) / 1e9 for lengths in kept)
    return off_s, on_s, min(map(sum, kept)) / 1e9
