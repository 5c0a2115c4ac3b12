"""Rows to events: a message a node and second of simulated time, in the order of time.

Rule of this file: what a rank says of a step travels in one message. Where steps have phases, their collectives travel
summed with them; where they have none, one by one, and the links beside them in a message without rows.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paceline.events import CollectiveCalls, Column, Microbatches, StepTimings
from paceline.timed_event import TimedEvent
from paceline.topics import COLLECTIVE, JOB, OP, Topic

from . import raw_columns
from .collectives import EXTRA_EVERY
from .conditions import ConditionReadings, LinkReadings
from .dependencies import StepTimes
from .node import Node
from .node_sums import Meetings, Met, NodeSums
from .spec import Spec
from .table import Table
from .work import Array

Ints = NDArray[np.int64]

#: Rows of a message at most: steps of ranks or collectives of ranks, and micro-batches.
MOST_ROWS, MOST_MICROBATCHES = 4000, 40_000
#: How far a node's clock is from the true time, and how long the collective takes that a logged loss needs.
_CLOCK_S, _EXTRA_S = 0.002, 20e-6
_NONE = raw_columns.whole(np.zeros(0))
_ROWLESS: dict[str, Any] = {"rank": _NONE, "step": _NONE, "start_s": _NONE, "step_s": _NONE, "phases": {}}


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
        self.sums: list[NodeSums] = []
        if spec.phases and self.nodes[0].collectives[0]:
            tables = {node.table.tobytes(): node.table for node in self.nodes}
            meetings = {key: Meetings(table) for key, table in tables.items()}
            for node in self.nodes:
                self.sums.append(NodeSums(node.ranks.start, meetings[node.table.tobytes()], node.words))
        self.condition_readings = ConditionReadings(spec)
        self.link_readings = LinkReadings(spec)
        random = np.random.default_rng([spec.seed, 3])
        #: When in a second each node sends, and how wrong its clock is.
        self.phase: list[float] = random.random(spec.nodes).tolist()
        ahead_s = np.array(spec.clocks_ahead_s or [0.0] * spec.nodes)
        self.clock: list[float] = (spec.began_s + _CLOCK_S * random.standard_normal(spec.nodes) + ahead_s).tolist()
        self.last_sent_s = 0.0
        #: The hang that the job has come to: its step, who is missing, and since when.
        self.hanging: tuple[int, tuple[int, ...], float] | None = None

    def describe(self, time_s: float) -> Iterator[TimedEvent]:
        """What each node says when the job begins."""
        for node in self.nodes:
            yield TimedEvent(self.spec.began_s + time_s, JOB, node.describe(None))

    def end(self, time_s: float) -> Iterator[TimedEvent]:
        """What each node says when the job has ended at ``time_s``: sums that waited for a later step, and goodbye."""
        sent_s = self.spec.began_s + max(time_s, self.last_sent_s)
        for number, (node, clock) in enumerate(zip(self.nodes, self.clock, strict=True)):
            sums = self.sums[number].end() if self.sums else None
            yield TimedEvent(sent_s, OP, self._standing(number, time_s, collectives=sums, ended=True))
            yield TimedEvent(sent_s, JOB, node.describe(clock + time_s))

    def emit(self, first: int, table: Table, times: StepTimes, base: Array) -> Iterator[TimedEvent]:
        """The messages of the steps from step ``first``."""
        steps = table.end.shape[0]
        for node, sums in zip(self.nodes, self.sums, strict=False):
            held = (slice(steps), slice(node.ranks.start, node.ranks.stop))
            sums.add(times.stood[held], times.left[held] - times.issued[held])
        parts = [part for number in range(len(self.nodes)) for part in self._parts(number, first, table)]
        for part in sorted(parts, key=lambda one: one.sent_s):
            self.last_sent_s = max(self.last_sent_s, part.sent_s)
            for topic, event in self._told(part, first, table, times, base):
                yield TimedEvent(self.spec.began_s + part.sent_s, topic, event)

    def _parts(self, number: int, first: int, table: Table) -> Iterator[_Part]:
        """What one node sends, second by second."""
        ranks, phase = self.nodes[number].ranks, self.phase[number]
        second = np.floor(table.end[:, ranks.start : ranks.stop] - phase).astype(np.int64).ravel()
        order = np.argsort(second, kind="stable")
        most = min(MOST_ROWS, MOST_MICROBATCHES // self.spec.microbatches)
        if not self.spec.phases:
            most = MOST_ROWS // max(len(self.nodes[number].collectives[0]), 1)
        for run in np.split(order, np.flatnonzero(np.diff(second[order])) + 1):
            sent_s = float(second[run[0]] + 1 + phase)
            for begin in range(0, run.size, max(most, 1)):
                step, local = np.divmod(run[begin : begin + max(most, 1)], len(ranks))
                steps = range(first + int(step.min()), first + int(step.max()) + 1)
                yield _Part(sent_s, number, step, local, steps)

    def _told(
        self, part: _Part, first: int, table: Table, times: StepTimes, base: Array
    ) -> Iterator[tuple[Topic, CollectiveCalls | StepTimings]]:
        """What one node says of its steps, each event with its topic."""
        node = self.nodes[part.node]
        met = self._met(part, first, times, base) if node.collectives[0] else None
        if self.spec.phases:
            yield OP, self._steps(part, first, table, met)
        elif met is not None:
            yield COLLECTIVE, self._calls(part, met)
            if (links := self.link_readings.read(node.ranks, part.steps)) is not None:
                now_s = self.clock[part.node] + part.sent_s
                yield OP, self._timings(node, now_s, **_ROWLESS, links=links)

    def _met(self, part: _Part, first: int, times: StepTimes, base: Array) -> Met:
        """The collectives that the steps of ``part`` had."""
        cells = (part.step, part.local + self.nodes[part.node].ranks.start)
        since = base[part.step, None] + self.clock[part.node]
        issued, left = times.issued[cells] + since, times.left[cells] + since
        return Met(part.local, part.step + first, issued, left, times.stood[cells])

    def _steps(self, part: _Part, first: int, table: Table, met: Met | None) -> StepTimings:
        """The wide rows of ``part``, and all that goes with them."""
        node, clock = self.nodes[part.node], self.clock[part.node]
        rank, step = part.local + node.ranks.start, part.step + first
        cells = (part.step, rank)
        start = table.start[cells] + clock
        t0_s = round(float(start.min()), 3)
        phases = table.phases[:, part.step, rank].astype("<f4")
        some = (~np.isnan(phases)).any(axis=1).tolist()
        rest: dict[str, Any] = {"microbatches": None, "conditions": None, "collectives": None}
        if self.spec.microbatches > 1:
            rest["microbatches"] = _microbatches(rank, step, table.forward[cells], table.backward[cells])
        if self.spec.conditions:
            read_s = clock + part.sent_s - t0_s
            rest["conditions"] = self.condition_readings.read(node.ranks, read_s, part.steps)
        if met is not None:
            rest["collectives"] = self.sums[part.node].close(met, t0_s)
            rest["links"] = self.link_readings.read(node.ranks, part.steps)
        return self._timings(
            node,
            t0_s,
            rank=raw_columns.whole(rank),
            step=raw_columns.whole(step),
            start_s=raw_columns.offsets(start - t0_s),
            step_s=raw_columns.durations(table.step[cells]),
            phases={
                name: Column("f4", row.tobytes())
                for name, row, has in zip(table.names, phases, some, strict=True)
                if has
            },
            **rest,
        )

    def _timings(self, node: Node, t0_s: float, **rest: Any) -> StepTimings:
        return StepTimings(**node.about, speakers=node.speakers, sequence=node.next(OP), t0_s=t0_s, **rest)

    def _calls(self, part: _Part, met: Met) -> CollectiveCalls:
        """The collectives of ``part`` one by one, in the order of their starts."""
        node = self.nodes[part.node]
        fixed = node.table[part.local]
        seq = met.step[:, None] * fixed[:, :, 3] + fixed[:, :, 4]
        rank = (part.local + node.ranks.start)[:, None] * np.ones_like(seq)
        rows: list[NDArray[Any]] = [rank, seq, fixed[:, :, 0], fixed[:, :, 1], fixed[:, :, 2]]
        rows = _with_extra([*rows, met.issued, met.left - met.issued, met.stood], met.step)
        order = np.argsort(rows[5], kind="stable")
        who, number, group, operation, size, begun, lasted, wait = (column[order] for column in rows)
        t0_s = round(float(begun[0]), 3)
        return CollectiveCalls(
            **node.about,
            **node.words,
            speakers=node.speakers,
            sequence=node.next(COLLECTIVE),
            t0_s=t0_s,
            rank=raw_columns.whole(who),
            step=raw_columns.whole(np.full(who.size, -1)),
            seq=raw_columns.whole(number),
            group=raw_columns.whole(group),
            operation=raw_columns.whole(operation),
            bytes=raw_columns.whole(size),
            start_s=raw_columns.offsets(begun - t0_s),
            duration_s=raw_columns.durations(lasted),
            wait_s=raw_columns.durations(wait),
        )

    def hang(self, step: int, missing: tuple[int, ...], since_s: float, seconds: float) -> Iterator[TimedEvent]:
        """What the nodes go on saying while ``missing`` have not come to the collectives of ``step``."""
        for second in range(1, int(seconds) + 1):
            if second > 2:
                self.hanging = (step, missing, since_s)
            for number in range(len(self.nodes)):
                time_s = since_s + second + self.phase[number]
                yield TimedEvent(self.spec.began_s + time_s, OP, self._standing(number, time_s))

    def _standing(self, number: int, time_s: float, **rest: Any) -> StepTimings:
        """A message without rows: who of the node stands where at ``time_s``."""
        node, now_s = self.nodes[number], self.clock[number] + time_s
        if self.hanging is not None:
            step, missing, since_s = self.hanging
            rest["open"] = node.stuck(step, missing, self.clock[number] + since_s)
        return self._timings(node, now_s, **_ROWLESS, **rest, now_s=now_s)


def _microbatches(rank: Ints, step: Ints, forward: Array, backward: Array) -> Microbatches:
    """A row each of ``forward`` and ``backward``, (n, M)."""
    rows, each = forward.shape
    return Microbatches(
        rank=raw_columns.whole(np.repeat(rank, each)),
        step=raw_columns.whole(np.repeat(step, each)),
        microbatch=raw_columns.whole(np.tile(np.arange(each), rows)),
        forward_s=raw_columns.durations(forward),
        backward_s=raw_columns.durations(backward),
    )


def _with_extra(rows: list[NDArray[Any]], step: Ints) -> list[NDArray[Any]]:
    """The rows with one collective more after the last, in every ``EXTRA_EVERY``-th step; those after it count on."""
    rows[1] = rows[1] - (-step // EXTRA_EVERY)[:, None]
    due = step % EXTRA_EVERY == 0
    last = [row[:, -1:][due] for row in rows]
    last[1] = last[1] + 1
    last[4] = np.full_like(last[4], 4)
    last[5] = last[5] + last[6]
    last[6] = last[7] = np.full(last[6].shape, _EXTRA_S)
    return [np.concatenate([row.ravel(), extra.ravel()]) for row, extra in zip(rows, last, strict=True)]
