"""One simulated job from its first message to its last, and then the truth about it.

Rule of this file: runs of steps small enough to hold, one after the other; the same spec gives the same messages.
"""

import math
from collections.abc import Generator, Iterable, Iterator
from heapq import merge
from itertools import chain
from operator import attrgetter

import numpy as np

from paceline.timed_event import TimedEvent

from .dependencies import run
from .fault import EXPECTED, Fault
from .inject import inject
from .node_messages import NodeMessages
from .spec import Spec
from .table import build
from .truth import FaultTruth, Truth
from .work import Array, Draws

#: Numbers held at a time.
CELLS = 2_000_000


class Job:
    """A job to run once: ``messages``, then ``truth``.

    No step ends later than ``until_s`` seconds after the job began. ``cells``: numbers held at a time.
    """

    def __init__(self, spec: Spec, until_s: float = math.inf, cells: int = CELLS) -> None:
        self.spec = spec
        self.until_s = until_s
        self.cells = cells
        self.node_messages = NodeMessages(spec)
        #: When all left each step, with the faults and without, seconds since the job began.
        self.left: Array = np.zeros(0)
        self.left_healthy: Array = np.zeros(0)
        self.ended_s = 0.0

    def messages(self) -> Iterator[TimedEvent]:
        """All messages, in the order of time."""
        spec = self.spec
        hang = min((fault for fault in spec.faults if fault.kind == "hang"), key=lambda one: one.first, default=None)
        steps = spec.steps if hang is None else min(hang.first, spec.steps)
        yield from self.node_messages.describe(0.0)
        late: list[TimedEvent] = []
        for messages in self._steps(steps):
            # What the next steps send comes after this step's end, but maybe before the last of these messages.
            self.ended_s = float(self.left[-1])
            late = yield from self._heard(spec.began_s + self.ended_s, late, messages)
        hanging: Iterator[TimedEvent] = iter(())
        if hang is not None and hang.first < spec.steps:
            hanging = self.node_messages.hang(steps, hang.ranks, self.ended_s + spec.step_s, hang.seconds)
            self.ended_s += spec.step_s + hang.seconds
        ended = self.node_messages.end(self.ended_s + 2.0)
        yield from self._heard(math.inf, late, chain(hanging, ended))

    def _heard(
        self, time_s: float, late: list[TimedEvent], messages: Iterable[TimedEvent]
    ) -> Generator[TimedEvent, None, list[TimedEvent]]:
        """``_until`` without what nodes that are silent would say."""
        silences = [fault for fault in self.spec.faults if fault.kind == "silent"]
        merging = _until(time_s, late, messages)
        while True:
            try:
                message = next(merging)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            if not any(self._silences(fault, message) for fault in silences):
                yield message

    def _silences(self, fault: Fault, message: TimedEvent) -> bool:
        """Whether ``message`` is one that its node does not send."""
        if message.event.node not in {self.spec.node_name(number) for number in fault.nodes}:
            return False
        left = np.concatenate([[0.0], self.left])
        since_s = message.time_s - self.spec.began_s
        begun = left.size > fault.first and left[fault.first] <= since_s
        return bool(begun and not (left.size > fault.last + 1 and left[fault.last + 1] <= since_s))

    def _steps(self, steps: int) -> Iterator[Iterator[TimedEvent]]:
        """The messages of the steps, a run of them at a time."""
        spec, draws = self.spec, Draws(self.spec)
        run_length = spec.steps_within(self.cells)
        before = healthy_before = np.zeros(spec.ranks)
        for first in range(0, steps, run_length):
            count = min(run_length, steps - first)
            work = draws.draw(first, count)
            healthy = run(work, spec, healthy_before)
            self.left_healthy = _extend(self.left_healthy, healthy.leave)
            healthy_before = work.optimizer[-1].copy()
            for fault in spec.faults:
                inject(work, fault, first, spec)
            times = run(work, spec, before) if spec.faults else healthy
            before = work.optimizer[-1]
            self.left = _extend(self.left, times.leave)
            base = np.concatenate([[0.0], self.left])[first : first + count]
            table = build(work, times, base)
            kept = int(np.searchsorted(self.left, self.until_s, side="right"))
            if kept < self.left.size:
                self.left, self.left_healthy = self.left[:kept], self.left_healthy[:kept]
                table = table._replace(end=table.end[: kept - first])
            if kept > first:
                yield self.node_messages.emit(first, table, times, base)
            if kept < first + count:
                return

    def truth(self) -> Truth:
        """What is true of the messages given."""
        spec = self.spec
        also = ["stage_imbalance"] if any(factor != 1 for factor in spec.stage_skew.values()) else []
        also += ["data_imbalance"] if spec.uneven or spec.early_exits else []
        # A slow link lengthens every rank's transfers alike: to the phases it is the whole job that has turned slow.
        also += ["slowdown"] if any(fault.kind == "link" for fault in spec.faults) else []
        return Truth(
            job=spec.job,
            attempt=spec.attempt,
            ranks=spec.ranks,
            dp=spec.dp,
            tp=spec.tp,
            pp=spec.pp,
            fsdp=spec.fsdp,
            steps=int(self.left.size),
            step_s=round(float(np.median(np.diff(self.left_healthy, prepend=0.0))), 6) if self.left.size else 0.0,
            seed=spec.seed,
            uneven=spec.uneven,
            stage_skew=spec.stage_skew,
            elapsed_s=round(self.ended_s, 6),
            elapsed_without_faults_s=round(float(self.left_healthy[-1]), 6) if self.left.size else 0.0,
            faults=[self._fault(fault) for fault in spec.faults if fault.first < spec.steps],
            also=also,
        )

    def _fault(self, fault: Fault) -> FaultTruth:
        kind, cause = EXPECTED[fault.kind]
        last = min(fault.last, self.spec.steps - 1)
        with_it, without = (np.concatenate([[0.0], left]) for left in (self.left, self.left_healthy))
        begin, end = min(fault.first, self.left.size), min(last + 1, self.left.size)
        lost_s = (with_it[end] - with_it[begin]) - (without[end] - without[begin])
        hangs = fault.kind == "hang"
        return FaultTruth(
            fault=fault.kind,
            size=fault.size,
            every=fault.every,
            ranks=list(fault.ranks),
            nodes=sorted({self.spec.node_name(rank // self.spec.ranks_a_node) for rank in fault.ranks}),
            first_step=fault.first,
            last_step=fault.first if hangs else last,
            began_s=round(self.spec.began_s + float(with_it[begin]), 6),
            ended_s=round(self.spec.began_s + (self.ended_s if hangs else float(with_it[end])), 6),
            lost_s=round(fault.seconds if hangs else float(lost_s), 6),
            kind=kind,
            cause=cause,
        )


def _until(
    time_s: float, late: list[TimedEvent], messages: Iterable[TimedEvent]
) -> Generator[TimedEvent, None, list[TimedEvent]]:
    """Give those up to ``time_s``, in the order of time; those that are later are returned."""
    later = []
    for message in merge(late, messages, key=attrgetter("time_s")):
        if message.time_s <= time_s:
            yield message
        else:
            later.append(message)
    return later


def _extend(left: Array, leave: Array) -> Array:
    """``left`` with the steps that took ``leave`` each after it."""
    return np.concatenate([left, (left[-1] if left.size else 0.0) + np.cumsum(leave)])
