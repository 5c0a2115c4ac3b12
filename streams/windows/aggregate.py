"""What some steps of a job amount to: per rank, and for the median and the worst rank. Never an average over ranks.

Rule of this file: arithmetic on arrays; it knows no clock and keeps nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from paceline.events import OPS, OVERLAYS, PHASES, JobWindow, RankWindow

from ..ingest.step_rows import TOTAL
from ..ingest.steps import Step
from ..quantile import quantile
from ..raw_columns import Floats, Ints
from ..robust import nanmedian
from .collective_tables import Line, merged, told

#: The phases of a summary: the words of a step's seconds but the last, which is the whole step.
COLUMNS = PHASES + OVERLAYS
_WAIT = COLUMNS.index("communication")
#: At most so many rank windows a job and second of window: the worst ones of a larger job.
MOST_RANK_WINDOWS = 100


@dataclass
class Part:
    """The steps ``first_step`` to ``last_step``, by rank: additive sums, and medians of the parts it was made of.

    ``phase_sum_s`` has shape (ranks, phases). ``left_out`` steps of them were told by no rank, on purpose.
    """

    first_step: int
    last_step: int
    count: Ints
    step_sum_s: Floats
    phase_sum_s: Floats
    medians_s: list[Floats]
    per_step_s: Floats
    collectives: list[Line] = field(default_factory=list)
    left_out: int = 0


def part(steps: Sequence[Step], nodes: Mapping[int, str]) -> Part:
    """What ``steps`` amount to, of equally many ranks or more from one to the next; of ranks that have a node."""
    width = steps[-1].starts_s.size
    seconds = np.full((len(steps), len(OPS), width), np.nan)
    for row, step in zip(seconds, steps, strict=True):
        row[:, : step.starts_s.size] = step.seconds
    if unplaced := [rank for rank in range(width) if rank not in nodes]:
        seconds[:, :, unplaced] = np.nan
    step_s = seconds[:, TOTAL]
    present = ~np.isnan(step_s)
    told_s = seconds if np.count_nonzero(present) == present.size else np.where(present[:, None], seconds, 0.0)
    sums = np.add.reduce(told_s, axis=0)
    return Part(
        first_step=steps[0].step,
        last_step=steps[-1].step,
        count=np.add.reduce(present, axis=0, dtype=np.int64),
        step_sum_s=sums[TOTAL],
        phase_sum_s=sums[: len(COLUMNS)].T,
        medians_s=[median(step_s, axis=0)],
        per_step_s=median(step_s, axis=1),
        left_out=sum(step.by_all for step in steps),
    )


def merge(left: Part, right: Part) -> Part:
    """Both parts as one; ``right`` is the later and may know more ranks."""
    if more := right.count.size - left.count.size:
        left = replace(
            left,
            count=np.pad(left.count, (0, more)),
            step_sum_s=np.pad(left.step_sum_s, (0, more)),
            phase_sum_s=np.pad(left.phase_sum_s, ((0, more), (0, 0))),
        )
    return Part(
        first_step=left.first_step,
        last_step=right.last_step,
        count=left.count + right.count,
        step_sum_s=left.step_sum_s + right.step_sum_s,
        phase_sum_s=left.phase_sum_s + right.phase_sum_s,
        medians_s=left.medians_s + right.medians_s,
        per_step_s=np.concatenate([left.per_step_s, right.per_step_s]),
        collectives=merged(left.collectives, right.collectives),
        left_out=left.left_out + right.left_out,
    )


def median(values: Floats, axis: int) -> Floats:
    """The median along ``axis`` of those measured; NaN where none was."""
    unknown = np.isnan(values)
    if values.size and not np.count_nonzero(unknown):
        return _middle(values, axis)
    some = ~unknown.all(axis=axis)
    if values.size and some.all():
        return np.asarray(nanmedian(values, axis), dtype=np.float64)
    medians = np.full(values.shape[1 - axis], np.nan)
    kept = values[:, some] if axis == 0 else values[some]
    if kept.size:
        medians[some] = nanmedian(kept, axis)
    return medians


def _middle(values: Floats, axis: int = 0) -> Floats:
    """The median along ``axis`` of what is all known."""
    ordered, count = np.sort(values, axis=axis), values.shape[axis]
    low, high = ((ordered[:, at] if axis else ordered[at]) for at in ((count - 1) // 2, count // 2))
    return np.asarray((low + high) / 2)


def windows(
    sums: Part, first_told: Ints, nodes: Mapping[int, str], common: dict[str, Any]
) -> list[RankWindow | JobWindow]:
    """The windows that say what ``sums`` holds.

    Args:
        sums: what some steps amount to.
        first_told: by op and rank, the first step in which it was reported.
        nodes: the node of each rank.
        common: their cluster, job, attempt, start and length.
    """
    ranks = np.flatnonzero(sums.count)
    if not ranks.size:
        return []
    count = sums.count[ranks]
    mean_s = sums.phase_sum_s[ranks] / count[:, None]
    step_s = sums.step_sum_s[ranks] / count
    own_s = step_s - mean_s[:, _WAIT]
    seen = sums.last_step >= first_told[: len(COLUMNS), ranks].T
    worst = int(ranks[own_s == own_s.max()].min())
    job = _job_window(sums, common, ranks, mean_s, step_s, own_s, seen, worst)
    if ranks.size > (most := int(MOST_RANK_WINDOWS * common["length_s"])):
        chosen = np.sort(np.lexsort((ranks, -own_s))[:most])
        ranks, mean_s, seen = ranks[chosen], mean_s[chosen], seen[chosen]
    return [*_rank_windows(sums, nodes, common, ranks, mean_s, seen), job]


def _job_window(
    sums: Part,
    common: dict[str, Any],
    ranks: Ints,
    mean_s: Floats,
    step_s: Floats,
    own_s: Floats,
    seen: np.ndarray[Any, np.dtype[np.bool_]],
    worst: int,
) -> JobWindow:
    per_step = sums.per_step_s[~np.isnan(sums.per_step_s)]
    waits = (mean_s[:, _WAIT] / np.maximum(step_s, 1e-12))[seen[:, _WAIT]]
    return JobWindow(
        **common,
        ranks=len(ranks),
        steps=int(per_step.size) + sums.left_out,
        first_step=sums.first_step,
        last_step=sums.last_step,
        step_median_s=_micro(float(_middle(per_step))),
        step_p95_s=_micro(quantile(per_step, 0.95)),
        own_median_s=_micro(float(_middle(own_s))),
        own_worst_s=_micro(float(own_s.max())),
        worst_rank=worst,
        wait_ratio=_micro(float(_middle(waits))) if waits.size else None,
        phase_median_s=_phase_medians(mean_s, seen),
        collectives=told(sums.collectives),
    )


def _phase_medians(mean_s: Floats, seen: np.ndarray[Any, np.dtype[np.bool_]]) -> dict[str, float]:
    """The median over the ranks that have told of a phase."""
    by = np.add.reduce(seen, axis=0, dtype=np.int64)
    columns = np.flatnonzero(by)
    by = by[columns]
    ordered = np.sort(np.where(seen, mean_s, np.inf)[:, columns], axis=0)
    at = np.arange(columns.size)
    medians = ((ordered[(by - 1) // 2, at] + ordered[by // 2, at]) / 2).tolist()
    return {COLUMNS[column]: _micro(one) for column, one in zip(columns.tolist(), medians, strict=True)}


def _rank_windows(
    sums: Part,
    nodes: Mapping[int, str],
    common: dict[str, Any],
    ranks: Ints,
    mean_s: Floats,
    seen: np.ndarray[Any, np.dtype[np.bool_]],
) -> list[RankWindow | JobWindow]:
    width = sums.count.size
    padded = [
        one if one.size == width else np.pad(one, (0, width - one.size), constant_values=np.nan)
        for one in sums.medians_s
    ]
    medians_s = padded[0][ranks] if len(padded) == 1 else median(np.stack(padded)[:, ranks], axis=0)
    medians = medians_s.round(6).tolist()
    counts = sums.count[ranks].tolist()
    means = _phase_means(mean_s.round(6), seen)
    return [
        RankWindow(
            **common,
            node=nodes[rank],
            rank=rank,
            steps=counts[row],
            first_step=sums.first_step,
            last_step=sums.last_step,
            step_median_s=medians[row],
            phase_mean_s=means[row],
        )
        for row, rank in enumerate(ranks.tolist())
    ]


def _phase_means(mean_s: Floats, seen: np.ndarray[Any, np.dtype[np.bool_]]) -> list[dict[str, float]]:
    """Of each rank the phases that it has told of."""
    if np.count_nonzero(seen == seen[0]) == seen.size:
        columns = np.flatnonzero(seen[0])
        names = [COLUMNS[column] for column in columns.tolist()]
        return [dict(zip(names, row, strict=True)) for row in mean_s[:, columns].tolist()]
    return [
        {name: one for name, one, told_of in zip(COLUMNS, row, told_in, strict=True) if told_of}
        for row, told_in in zip(mean_s.tolist(), seen.tolist(), strict=True)
    ]


def _micro(value: float) -> float:
    return round(value, 6)
