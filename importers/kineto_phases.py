"""One trace's steps on the host: work and collectives of a rank, cut into phases that do not overlap.

Rule of this file: pure arithmetic on stretches of time. A step's time goes to the phase whose operators span it, to
communication where only a collective was under way, and what is left to ``prepare`` and ``other``.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .intervals import Union, union
from .notes import Notes
from .op_rows import Floats, Ints

#: Step, phase, micro-batch, start, seconds.
_Row = tuple[int, str, int, float, float]


class Span(NamedTuple):
    """A stretch of time, in seconds of Unix time."""

    start: float
    end: float


class Collective(NamedTuple):
    """One collective."""

    span: Span
    operation: str
    group: str
    size: int
    bytes: int
    sequence: int | None


class StepRow(NamedTuple):
    """One step of a rank: its start in Unix time, its length, its seconds by phase; by micro-batch those in forward and
    backward, where there are several."""

    step: int
    start_s: float
    step_s: float
    phases: dict[str, float]
    microbatches: dict[int, tuple[float, float]]


def rows_of(
    steps: list[tuple[int, Span]],
    work: list[tuple[Span, str]],
    collectives: list[Collective],
    notes: Notes,
) -> tuple[list[StepRow], list[int], list[float]]:
    """Every step; for each collective the step it began in (-1 none) and the seconds that it was stood for."""
    begins = np.array([span.start for _, span in steps])
    ends = np.array([span.end for _, span in steps])
    made: list[StepRow] = []
    of_work = _within([span for span, _ in work], begins, ends)
    of_collectives = _within([collective.span for collective in collectives], begins, ends)
    notes.drop("operators outside of every step", int((of_work < 0).sum()))
    stood = np.zeros(len(collectives))
    for place, (number, span) in enumerate(steps):
        mine = [work[index] for index in np.flatnonzero(of_work == place).tolist()]
        in_step = np.flatnonzero(of_collectives == place)
        busy = union(*_edges([one for one, _ in mine], span))
        begin, end = _edges([collectives[index].span for index in in_step.tolist()], span)
        stood[in_step] = np.maximum(end - begin - busy.within(begin, end), 0.0)
        waited = union(begin, end).without(busy)
        rows = _step_rows(number, span, mine, waited)
        if in_step.size:
            rows.append((number, "communication", -1, collectives[int(in_step[0])].span.start, waited.length))
        made.append(_wide(number, span, rows))
    numbers = [steps[place][0] if place >= 0 else -1 for place in of_collectives.tolist()]
    return made, numbers, stood.tolist()


def _edges(spans: list[Span], step: Span) -> tuple[Floats, Floats]:
    """Where ``spans`` begin and end, in seconds since the begin of ``step``, and not beyond its end."""
    both = np.array(spans, dtype=np.float64).reshape(-1, 2).clip(step.start, step.end) - step.start
    return both[:, 0], both[:, 1]


def _wide(number: int, span: Span, rows: list[_Row]) -> StepRow:
    phases: dict[str, float] = {}
    microbatches: dict[int, tuple[float, float]] = {}
    for _, phase, batch, _, seconds in rows:
        phases[phase] = phases.get(phase, 0.0) + seconds
        if batch >= 0:
            forward, backward = microbatches.get(batch, (np.nan, np.nan))
            microbatches[batch] = (seconds, backward) if phase == "forward" else (forward, seconds)
    return StepRow(number, span.start, span.end - span.start, phases, microbatches)


def _within(spans: list[Span], begins: Any, ends: Any) -> Ints:
    """The place of the step in which each span begins, -1 for none."""
    starts = np.array([span.start for span in spans])
    if not len(begins):
        return np.full(len(spans), -1)
    place = np.searchsorted(begins, starts, side="right") - 1
    return np.where((place >= 0) & (starts < ends[np.maximum(place, 0)]), place, -1)


def passes(phases: Sequence[str]) -> list[tuple[str, int]]:
    """The phase and micro-batch of each stretch of work of one step, by what comes before and after it.

    A forward after a backward begins the next micro-batch; with one alone, and outside of forward and backward, it is
    -1. What runs after the last backward (clipping, say) is no forward.

    >>> passes(["forward", "backward", "forward", "backward", "forward"])
    [('forward', 0), ('backward', 0), ('forward', 1), ('backward', 1), ('other', -1)]
    """
    last_backward = max((index for index, phase in enumerate(phases) if phase == "backward"), default=len(phases))
    out: list[tuple[str, int]] = []
    microbatch, forward_next = 0, False
    for index, phase in enumerate(phases):
        if phase == "forward":
            phase = "other" if index > last_backward else phase
            microbatch += phase == "forward" and forward_next
            forward_next = False if phase == "forward" else forward_next
        elif phase == "backward":
            forward_next = True
        out.append((phase, microbatch if phase in ("forward", "backward") else -1))
    return out if microbatch else [(phase, -1) for phase, _ in out]


def _step_rows(number: int, span: Span, work: list[tuple[Span, str]], waited: Union) -> list[_Row]:
    """One row a phase, forward and backward by micro-batch; a run of operators counts from its first to its last.

    The host's time between two operators of a phase belongs to it, unless it was ``waited``; what several threads do at
    once, to what began first.
    """
    phases = [phase for _, phase in work]
    first = [index for index, phase in enumerate(phases) if not index or phase != phases[index - 1]]
    start, end = _edges([one for one, _ in work], span)
    begins = start[first]
    ends = np.maximum.accumulate(np.maximum.reduceat(end, first)) if first else begins
    # Each run has the time that those before it leave.
    begins = np.maximum(begins, np.concatenate([[0.0], ends[:-1]])) if first else begins
    spent = np.maximum(ends - begins, 0.0) - waited.within(begins, ends)
    sums: dict[tuple[str, int], list[float]] = {}
    for key, place, took in zip(passes([phases[index] for index in first]), first, spent.tolist(), strict=True):
        sums.setdefault(key, [work[place][0].start, 0.0])[1] += took
    rows = [(number, phase, batch, begin, took) for (phase, batch), (begin, took) in sums.items()]
    return rows + _unseen(number, span, rows, (begins, ends), waited)


def _unseen(number: int, span: Span, rows: list[_Row], hulls: tuple[Floats, Floats], waited: Union) -> list[_Row]:
    """The host's time outside of operators: before the first forward it prepares it, elsewhere it is other."""
    begin = min((start for _, phase, _, start, _ in rows if phase == "forward"), default=span.start) - span.start
    begins, ends = np.minimum(hulls[0], begin), np.minimum(hulls[1], begin)
    worked = float((np.maximum(ends - begins, 0.0) - waited.within(begins, ends)).sum())
    prepare = max(begin - worked - float(waited.until(np.array(begin))), 0.0)
    rest = span.end - span.start - prepare - sum(row[4] for row in rows) - waited.length
    return [(number, "prepare", -1, span.start, prepare), (number, "other", -1, span.start, max(rest, 0.0))]
