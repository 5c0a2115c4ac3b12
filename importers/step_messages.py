"""Steps of ranks to the messages of ``paceline.op.v2``: a wide row a rank and step.

Rule of this file: all ranks' rows of a step come before the next step's, whatever their clocks say; a message has the
steps of one node, some second's worth.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from paceline.columns import durations, offsets, whole
from paceline.events import PHASES, Microbatches, RankBreakdown, RankFacts, StepTimings
from paceline.timed_event import TimedEvent
from paceline.topics import OP

from .kineto_phases import StepRow
from .op_rows import MOST_ROWS, MOST_S, ROWLESS, ImportedJob, speakers

#: A rank, and one of its steps.
_RankRow = tuple[int, StepRow]


def step_messages(
    rows: Mapping[int, Sequence[StepRow]],
    breakdowns: Sequence[RankBreakdown],
    versions: Mapping[int, str],
    job: ImportedJob,
) -> Iterator[TimedEvent]:
    """The rows of every rank, by step, and at the end a message a node with its ranks' ``breakdowns``, and their
    ``versions`` of NCCL, "" where not told."""
    everything = sorted(((rank, row) for rank, mine in rows.items() for row in mine), key=lambda one: _order(*one))
    sequences: dict[str, int] = {}
    clock_s = 0.0
    for part in _parts(everything):
        clock_s = max(clock_s, *(row.start_s + row.step_s for _, row in part))
        for node, mine in _by_node(part, job):
            yield TimedEvent(clock_s, OP, _steps(mine, job, node, _next(sequences, node)))
    for node, told in _by_node([(one.rank, one) for one in breakdowns], job):
        about = job.about(node, _next(sequences, node))
        who = speakers((rank for rank, _ in told), len(job.ranks))
        whole_job = [breakdown for _, breakdown in told]
        event = StepTimings(
            **about,
            t0_s=round(clock_s, 3),
            speakers=who,
            **ROWLESS,
            breakdowns=whole_job,
            facts=_facts([rank for rank, _ in told], versions),
        )
        yield TimedEvent(clock_s, OP, event)


def _facts(ranks: list[int], versions: Mapping[int, str]) -> RankFacts | None:
    words = [versions.get(rank, "") for rank in ranks]
    return RankFacts(ranks=ranks, words={"nccl_version": words}) if any(words) else None


def _order(rank: int, row: StepRow) -> tuple[int, int]:
    return row.step, rank


def _next(sequences: dict[str, int], node: str) -> int:
    sequences[node] = sequences.get(node, -1) + 1
    return sequences[node]


def _parts(rows: Sequence[_RankRow]) -> Iterator[list[_RankRow]]:
    """Whole steps, some second's worth, never too many rows."""
    part: list[_RankRow] = []
    for rank, row in rows:
        new_step = bool(part) and row.step != part[-1][1].step
        if len(part) >= MOST_ROWS or (new_step and row.start_s - part[0][1].start_s >= MOST_S):
            yield part
            part = []
        part.append((rank, row))
    if part:
        yield part


def _by_node(told: Sequence[tuple[int, Any]], job: ImportedJob) -> Iterator[tuple[str, list[tuple[int, Any]]]]:
    nodes: dict[str, list[tuple[int, Any]]] = {}
    for rank, one in told:
        nodes.setdefault(job.nodes.get(rank, job.node), []).append((rank, one))
    yield from sorted(nodes.items())


def _steps(rows: list[_RankRow], job: ImportedJob, node: str, sequence: int) -> StepTimings:
    t0_s = round(min(row.start_s for _, row in rows), 3)
    words = [phase for phase in PHASES if any(phase in row.phases for _, row in rows)]
    passes = [(rank, row.step, batch, *pair) for rank, row in rows for batch, pair in sorted(row.microbatches.items())]
    return StepTimings(
        **job.about(node, sequence),
        t0_s=t0_s,
        speakers=speakers((rank for rank, _ in rows), len(job.ranks)),
        rank=whole([rank for rank, _ in rows]),
        step=whole([row.step for _, row in rows]),
        start_s=offsets([row.start_s - t0_s for _, row in rows]),
        step_s=durations([row.step_s for _, row in rows]),
        phases={word: durations([row.phases.get(word, math.nan) for _, row in rows]) for word in words},
        microbatches=_microbatches(passes) if passes else None,
    )


def _microbatches(passes: Sequence[tuple[int, int, int, float, float]]) -> Microbatches:
    rank, step, batch, forward, backward = zip(*passes, strict=True)
    return Microbatches(
        rank=whole(rank),
        step=whole(step),
        microbatch=whole(batch),
        forward_s=durations(forward),
        backward_s=durations(backward),
    )
