"""Rows to events: a message a node and second of simulated time, in the order of time.

Rule of this file: what a step of a rank says travels in one message, its closing row last, as from a real sidecar.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paceline.events import OPS, CollectiveTimings, OpTimings
from paceline.timed_event import TimedEvent
from paceline.topics import COLLECTIVE, JOB, OP

from .collectives import EXTRA_EVERY
from .conditions import ConditionReadings, LinkReadings
from .dependencies import StepTimes
from .node import Node
from .spec import Spec
from .table import Table
from .work import Array

Ints = NDArray[np.int64]

MOST_ROWS = 4000
#: How far a node's clock is from the true time, and how long the collective takes that a logged loss needs.
_CLOCK_S, _EXTRA_S = 0.002, 20e-6


class _Part(NamedTuple):
    """What goes into one message of a node: cells of steps (from 0 in this run of steps) and local ranks."""

    sent_s: float
    node: int
    step: Ints
    local: Ints
    steps: range


class NodeMessages:
    """What the nodes of one job say."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.nodes = [Node(number, spec) for number in range(spec.nodes)]
        self.condition_readings = ConditionReadings(spec)
        self.link_readings = LinkReadings(spec)
        random = np.random.default_rng([spec.seed, 3])
        #: When in a second each node sends, and how wrong its clock is.
        self.phase: list[float] = random.random(spec.nodes).tolist()
        ahead_s = np.array(spec.clocks_ahead_s or [0.0] * spec.nodes)
        self.clock: list[float] = (spec.began_s + _CLOCK_S * random.standard_normal(spec.nodes) + ahead_s).tolist()

    def describe(self, time_s: float, *, ended: bool) -> Iterator[TimedEvent]:
        """What each node says when the job begins, and again when it has ended."""
        for node, clock in zip(self.nodes, self.clock, strict=True):
            yield TimedEvent(self.spec.began_s + time_s, JOB, node.describe(clock + time_s if ended else None))

    def emit(self, first: int, table: Table, times: StepTimes, base: Array) -> Iterator[TimedEvent]:
        """The messages of the steps from step ``first``."""
        parts = [part for number in range(len(self.nodes)) for part in self._parts(number, first, table)]
        for part in sorted(parts, key=lambda one: one.sent_s):
            if self.spec.phases:
                yield TimedEvent(self.spec.began_s + part.sent_s, OP, self._ops(part, first, table))
            if self.nodes[part.node].collectives[0]:
                event = self._collectives(part, first, times, base)
                yield TimedEvent(self.spec.began_s + part.sent_s, COLLECTIVE, event)

    def _parts(self, number: int, first: int, table: Table) -> Iterator[_Part]:
        """What one node sends, second by second."""
        ranks, phase = self.nodes[number].ranks, self.phase[number]
        second = np.floor(table.end[:, ranks.start : ranks.stop] - phase).astype(np.int64).ravel()
        order = np.argsort(second, kind="stable")
        most = max(MOST_ROWS // max(len(table.op), len(self.nodes[number].collectives[0])), 1)
        for run in np.split(order, np.flatnonzero(np.diff(second[order])) + 1):
            sent_s = float(second[run[0]] + 1 + phase)
            for begin in range(0, run.size, most):
                step, local = np.divmod(run[begin : begin + most], len(ranks))
                steps = range(first + int(step.min()), first + int(step.max()) + 1)
                yield _Part(sent_s, number, step, local, steps)

    def _ops(self, part: _Part, first: int, table: Table) -> OpTimings:
        node, clock = self.nodes[part.node], self.clock[part.node]
        rank = part.local + node.ranks.start
        duration = table.duration[part.step, rank]
        keep = ~np.isnan(duration)
        start = table.start[part.step, rank][keep] + clock
        t0_s = round(float(start.min()), 3)
        cell, column = np.nonzero(keep)
        conditions = []
        if self.spec.conditions:
            conditions = self.condition_readings.read(node.ranks, clock + part.sent_s, part.steps)
        return OpTimings(
            **node.about,
            **node.speaks,
            **node.places,
            devices=node.devices,
            sequence=node.next(OP),
            t0_s=t0_s,
            ops=list(OPS),
            rank=rank[cell].tolist(),
            step=(part.step[cell] + first).tolist(),
            op=table.op[column].tolist(),
            microbatch=table.microbatch[column].tolist(),
            start_s=np.round(start - t0_s, 6).tolist(),
            duration_s=np.round(duration[keep], 6).tolist(),
            conditions=conditions,
        )

    def _collectives(self, part: _Part, first: int, times: StepTimes, base: Array) -> CollectiveTimings:
        node, clock = self.nodes[part.node], self.clock[part.node]
        rank, step = part.local + node.ranks.start, part.step + first
        fixed = node.table[part.local]
        seq = step[:, None] * fixed[:, :, 3] + fixed[:, :, 4]
        start = times.issued[part.step, rank] + base[part.step, None]
        duration = times.left[part.step, rank] - times.issued[part.step, rank]
        wide = np.ones_like(seq)
        rows: list[NDArray[Any]] = [rank[:, None] * wide, step[:, None] * wide, seq]
        rows += [fixed[:, :, 0], fixed[:, :, 1], fixed[:, :, 2], start, duration, times.stood[part.step, rank]]
        if not self.spec.phases:
            rows = _with_extra(rows, step)
        flat = [row.ravel() for row in rows]
        order = np.argsort(flat[6], kind="stable")
        who, when, number, group, operation, size, begun, lasted, wait = (column[order] for column in flat)
        begun = begun + clock
        t0_s = round(float(begun.min()), 3)
        return CollectiveTimings(
            **node.about,
            **node.speaks,
            **node.words,
            sequence=node.next(COLLECTIVE),
            t0_s=t0_s,
            rank=who.tolist(),
            step=when.tolist() if self.spec.phases else [-1] * when.size,
            seq=number.tolist(),
            group=group.tolist(),
            operation=operation.tolist(),
            bytes=size.tolist(),
            start_s=np.round(begun - t0_s, 6).tolist(),
            duration_s=np.round(lasted, 6).tolist(),
            wait_s=np.round(wait, 6).tolist(),
            links=self.link_readings.read(node.ranks, part.steps),
        )

    def hang(self, step: int, missing: tuple[int, ...], since_s: float, seconds: float) -> Iterator[TimedEvent]:
        """What the nodes go on saying while ``missing`` have not come to the collectives of ``step``."""
        names = ("rank", "step", "seq", "group", "operation", "bytes", "start_s", "duration_s", "wait_s")
        columns: dict[str, Any] = {name: [] for name in names}
        for second in range(1, int(seconds) + 1):
            for number, node in enumerate(self.nodes):
                time_s = since_s + second + self.phase[number]
                now_s = self.clock[number] + time_s
                event = CollectiveTimings(
                    **node.about,
                    **node.speaks,
                    **node.words,
                    **columns,
                    sequence=node.next(COLLECTIVE),
                    t0_s=now_s,
                    open=node.stuck(step, missing, self.clock[number] + since_s) if second > 2 else [],
                    now_s=now_s,
                )
                yield TimedEvent(self.spec.began_s + time_s, COLLECTIVE, event)


def _with_extra(rows: list[NDArray[Any]], step: Ints) -> list[NDArray[Any]]:
    """The rows with one collective more after the last, in every ``EXTRA_EVERY``-th step; those after it count on."""
    rows[2] = rows[2] - (-step // EXTRA_EVERY)[:, None]
    due = step % EXTRA_EVERY == 0
    last = [row[:, -1:][due] for row in rows]
    last[2] = last[2] + 1
    last[5] = np.full_like(last[5], 4)
    last[6] = last[6] + last[7]
    last[7] = last[8] = np.full(last[7].shape, _EXTRA_S)
    return [np.concatenate([row.ravel(), extra.ravel()]) for row, extra in zip(rows, last, strict=True)]
