"""Rows: what one rank measured since its last report, until the next report takes them along.

Rule of this file: pure. Times come in as integer nanoseconds of the rank's clock and leave as Unix seconds.
"""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from paceline.events import OP_INDEX, OPS, STEP
from paceline.sidecar.probe_windows import ProbeWindow
from paceline.training.messages import Issued, LinkReport

GC, CPU_WAIT, HOST_BOUND, WHOLE = (OP_INDEX[op] for op in ("gc", "cpu_wait", "host_bound", STEP))
_BACKWARD = OP_INDEX["backward"]
#: The phases and overlays of ``StepRow.seconds``, in its order.
PARTS = OPS[:WHOLE]
_NO_PARTS = (math.nan,) * len(PARTS)


class Microbatch(NamedTuple):
    """One of several micro-batches of a step; NaN where it had no such pass."""

    microbatch: int
    forward_s: float
    backward_s: float


class StepRow(NamedTuple):
    """One step, in Unix time: its whole duration, and its seconds in each of ``PARTS``, NaN where it had none.

    ``left_out`` steps right after it are not told, on purpose.
    """

    step: int
    start_s: float
    step_s: float
    seconds: tuple[float, ...]
    microbatches: tuple[Microbatch, ...] = ()
    left_out: int = 0


class CollectiveRow(NamedTuple):
    """One collective, with its words and in Unix time."""

    step: int
    seq: int
    group: str
    group_size: int
    operation: str
    bytes: int
    start_s: float
    duration_s: float
    wait_s: float


class Report(NamedTuple):
    """What a rank measured since its last report. ``lost`` counts marks that never arrived; ``again`` are collectives
    that a sidecar before us told, but perhaps not the sums of their step. ``windows`` are those in which the probe was
    on or off, where its cost is measured."""

    steps: list[StepRow]
    collectives: list[CollectiveRow]
    link: LinkReport | None = None
    lost: int = 0
    again: Sequence[CollectiveRow] = ()
    windows: Sequence[ProbeWindow] = ()


class Phase(NamedTuple):
    """A part of a step: phase or overlay, micro-batch or -1, and its nanoseconds."""

    op: int
    microbatch: int
    duration: int


class Collective:
    """A collective on its way from issue to result."""

    __slots__ = ("bytes", "group", "operation", "origin", "seq", "size", "start", "step", "wait")

    def __init__(self, step: int, start: int, payload: Issued) -> None:
        self.step, self.start, self.wait = step, start, 0
        self.group, self.size, self.seq, self.operation, self.bytes, self.origin = payload


class RankRows:
    """Collects one rank's finished rows; ``drain`` gives away what there is. Steps before ``told`` were told before."""

    def __init__(self, told: int = 0) -> None:
        #: Makes the rank's clock Unix time.
        self.offset_ns = 0
        self._told = told
        self._again: list[CollectiveRow] = []
        self._steps: list[StepRow] = []
        self._collectives: list[CollectiveRow] = []

    def append_step(self, step: int, start: int, end: int, phases: Iterable[Phase], left_out: int = 0) -> None:
        """A step that is over."""
        if step < self._told:
            return
        seconds = list(_NO_PARTS)
        split: dict[int, tuple[float, float]] = {}
        for op, microbatch, duration in phases:
            took_s, before_s = duration / 1e9, seconds[op]
            seconds[op] = took_s if before_s != before_s else before_s + took_s
            if microbatch >= 0:
                forward_s, backward_s = split.get(microbatch, (math.nan, math.nan))
                split[microbatch] = (forward_s, took_s) if op == _BACKWARD else (took_s, backward_s)
        microbatches = tuple(Microbatch(number, *split[number]) for number in sorted(split)) if split else ()
        start_s, step_s = (start + self.offset_ns) / 1e9, (end - start) / 1e9
        for op in (GC, CPU_WAIT, HOST_BOUND):
            seconds[op] = min(seconds[op], step_s)  # They lie inside the step's phases; NaN stays.
        self._steps.append(StepRow(step, start_s, step_s, tuple(seconds), microbatches, left_out))

    def append_collective(self, done: Collective, duration: int) -> None:
        """A collective whose result is there."""
        start_s = (done.start + self.offset_ns) / 1e9
        words = (done.group, done.size, done.operation, done.bytes)
        self._collectives.append(CollectiveRow(done.step, done.seq, *words, start_s, duration / 1e9, done.wait / 1e9))

    def repeat_collectives(self, summed_before: int) -> None:
        """The collectives that wait were reported before, and so were the sums of steps before ``summed_before``."""
        self._again += [row for row in self._collectives if row.step >= summed_before]
        self._collectives = []

    def drain(
        self, link: LinkReport | None = None, lost: int = 0, windows: Sequence[ProbeWindow] = ()
    ) -> Report | None:
        """What there is; None where there is nothing to say."""
        report = Report(self._steps, self._collectives, link, lost, self._again, windows)
        self._steps, self._collectives, self._again = [], [], []
        rows = report.steps or report.collectives or report.again
        return report if rows or link is not None or lost or windows else None
