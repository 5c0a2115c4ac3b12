"""What some steps of a job amount to: per rank, and for the median and the worst rank. Never an average over ranks.

Rule of this file: arithmetic on arrays; it knows no clock and keeps nothing.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from paceline.events import JobWindow, RankWindow

from ..quantile import quantile
from ..robust import nanmedian
from .collective_tables import CollectiveTables, Line, merged, told
from .open_steps import COLUMNS, Floats, OpenSteps, Whole

_WAIT = COLUMNS.index("communication")
#: At most so many rank windows a job and second of window: the worst ones of a larger job.
MOST_RANK_WINDOWS = 100


@dataclass
class Part:
    """The steps ``first_step`` to ``last_step``, by slot: additive sums, and medians of the parts it was made of.

    ``left_out`` steps of them were told by no rank, on purpose.
    """

    first_step: int
    last_step: int
    count: Whole
    step_sum_s: Floats
    phase_sum_s: Floats
    medians_s: list[Floats]
    per_step_s: Floats
    collectives: list[Line] = field(default_factory=list)
    left_out: int = 0

    def snapshot(self) -> dict[str, Any]:
        """The state as plain data and arrays."""
        return dict(vars(self))


def part(open_steps: OpenSteps, steps: int, collectives: CollectiveTables) -> Part:
    """The first ``steps`` open steps of ``open_steps``, and what is known of the collectives before their last."""
    step_s, phase_s, last_step = open_steps.step_s[:steps], open_steps.phase_s[:steps], open_steps.last_of(steps)
    present = ~np.isnan(step_s)
    told_s = step_s
    if np.count_nonzero(present) < present.size:
        told_s, phase_s = np.where(present, step_s, 0.0), phase_s * present[:, :, None]
    return Part(
        first_step=int(open_steps.numbers[0]),
        last_step=last_step,
        count=np.add.reduce(present, axis=0, dtype=np.int64),
        step_sum_s=np.add.reduce(told_s, axis=0),
        phase_sum_s=np.add.reduce(phase_s, axis=0),
        medians_s=[median(step_s, axis=0)],
        per_step_s=median(step_s, axis=1),
        collectives=collectives.take(last_step - 1),
        left_out=open_steps.left_out_after(steps),
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


def windows(sums: Part, open_steps: OpenSteps, common: dict[str, Any]) -> list[RankWindow | JobWindow]:
    """The windows that say what ``sums`` holds. ``common`` has their cluster, job, attempt, start and length."""
    speaking = np.flatnonzero(sums.count)
    if not speaking.size:
        return []
    count = sums.count[speaking]
    mean_s = sums.phase_sum_s[speaking] / count[:, None]
    step_s = sums.step_sum_s[speaking] / count
    own_s = step_s - mean_s[:, _WAIT]
    seen = open_steps.first_told[speaking] <= sums.last_step
    ranks = open_steps.rank_of[speaking]
    worst = int(ranks[own_s == own_s.max()].min())
    job = _job_window(sums, common, ranks, mean_s, step_s, own_s, seen, worst)
    chosen = np.argsort(ranks)
    if ranks.size > (most := int(MOST_RANK_WINDOWS * common["length_s"])):
        chosen = np.lexsort((ranks, -own_s))[:most]
        chosen = chosen[np.argsort(ranks[chosen])]
    return [*_rank_windows(sums, open_steps, common, speaking[chosen], mean_s[chosen]), job]


def _job_window(
    sums: Part,
    common: dict[str, Any],
    ranks: Whole,
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
    sums: Part, open_steps: OpenSteps, common: dict[str, Any], slots: Whole, mean_s: Floats
) -> list[RankWindow | JobWindow]:
    ranks = open_steps.ranks
    width = sums.count.size
    padded = [
        one if one.size == width else np.pad(one, (0, width - one.size), constant_values=np.nan)
        for one in sums.medians_s
    ]
    medians_s = padded[0][slots] if len(padded) == 1 else median(np.stack(padded)[:, slots], axis=0)
    medians = medians_s.round(6).tolist()
    seen = open_steps.first_told[slots] <= sums.last_step
    counts = sums.count[slots].tolist()
    means = _phase_means(mean_s.round(6), seen)
    return [
        RankWindow(
            **common,
            node=open_steps.nodes[slot],
            rank=ranks[slot],
            steps=counts[row],
            first_step=sums.first_step,
            last_step=sums.last_step,
            step_median_s=medians[row],
            phase_mean_s=means[row],
        )
        for row, slot in enumerate(slots.tolist())
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
