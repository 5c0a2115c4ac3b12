"""One trace's steps on the host: work and collectives of a rank, cut into phases that do not overlap.

Rule of this file: pure arithmetic on stretches of time. A step's time goes to the phase whose operators span it, to
communication where only a collective was under way, and what is left to ``prepare`` and ``other``.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

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
    stood = [0.0] * len(collectives)
    for place, (number, span) in enumerate(steps):
        mine = [work[index] for index in np.flatnonzero(of_work == place).tolist()]
        in_step = np.flatnonzero(of_collectives == place).tolist()
        idle = _gaps([busy for busy, _ in mine], span)
        for index in in_step:
            stood[index] = _overlap(collectives[index].span, idle)
        together = _merged([collectives[index].span for index in in_step])
        waited = np.array(sorted(_shared(together, idle)), dtype=np.float64).reshape(-1, 2)
        rows = _step_rows(number, span, mine, waited)
        if together:
            seconds = float((waited[:, 1] - waited[:, 0]).sum())
            rows.append((number, "communication", -1, together[0].start, seconds))
        made.append(_wide(number, span, rows))
    numbers = [steps[place][0] if place >= 0 else -1 for place in of_collectives.tolist()]
    return made, numbers, stood


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


def _step_rows(number: int, span: Span, work: list[tuple[Span, str]], waited: Floats) -> list[_Row]:
    """One row a phase, forward and backward by micro-batch; a run of operators counts from its first to its last.

    The host's time between two operators of a phase belongs to it, unless it was ``waited``; what several threads do at
    once, to what began first.
    """
    runs: list[tuple[str, list[Span]]] = []
    for busy, phase in work:
        if not runs or runs[-1][0] != phase:
            runs.append((phase, []))
        runs[-1][1].append(busy)
    sums: dict[tuple[str, int], list[float]] = {}
    hulls: list[Span] = []
    reach = span.start
    for key, (_, spans) in zip(passes([phase for phase, _ in runs]), runs, strict=True):
        total = sums.setdefault(key, [spans[0].start, 0.0])
        hull = Span(max(spans[0].start, reach), max(min(max(one.end for one in spans), span.end), reach))
        if hull.end > hull.start:
            total[1] += hull.end - hull.start - _overlap(hull, waited)
            hulls.append(hull)
            reach = hull.end
    rows = [(number, phase, batch, start, spent) for (phase, batch), (start, spent) in sums.items()]
    return rows + _unseen(number, span, rows, hulls, waited)


def _unseen(number: int, span: Span, rows: list[_Row], hulls: list[Span], waited: Floats) -> list[_Row]:
    """The host's time outside of operators: before the first forward it prepares it, elsewhere it is other."""
    begin = min((start for _, phase, _, start, _ in rows if phase == "forward"), default=span.start)
    before = [Span(hull.start, min(hull.end, begin)) for hull in hulls if hull.start < begin]
    worked = sum(hull.end - hull.start - _overlap(hull, waited) for hull in before)
    prepare = max(begin - span.start - worked - _overlap(Span(span.start, begin), waited), 0.0)
    rest = span.end - span.start - prepare - sum(row[4] for row in rows) - _overlap(span, waited)
    return [(number, "prepare", -1, span.start, prepare), (number, "other", -1, span.start, max(rest, 0.0))]


def _merged(spans: list[Span]) -> list[Span]:
    out: list[Span] = []
    for one in sorted(spans):
        if out and one.start <= out[-1].end:
            out[-1] = Span(out[-1].start, max(out[-1].end, one.end))
        else:
            out.append(one)
    return out


def _gaps(busy: list[Span], step: Span) -> Floats:
    """The times of ``step`` in which nothing of ``busy`` ran, (gaps, 2)."""
    out, last = [], step.start
    for one in _merged(busy):
        if one.start > last:
            out.append((last, one.start))
        last = max(last, one.end)
    if last < step.end:
        out.append((last, step.end))
    return np.array(out, dtype=np.float64).reshape(-1, 2)


def _overlap(span: Span, others: Floats) -> float:
    """Seconds that ``span`` shares with ``others``, (n, 2)."""
    shared = np.minimum(others[:, 1], span.end) - np.maximum(others[:, 0], span.start)
    return float(shared.clip(min=0.0).sum())


def _shared(spans: list[Span], others: Floats) -> Iterator[tuple[float, float]]:
    """The stretches that ``spans`` share with ``others``."""
    for span in spans:
        begins, ends = np.maximum(others[:, 0], span.start), np.minimum(others[:, 1], span.end)
        some = ends > begins
        yield from zip(begins[some].tolist(), ends[some].tolist(), strict=True)
