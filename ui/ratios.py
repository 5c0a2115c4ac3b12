"""Own time against the median rank of a cohort, and fewer columns than steps.

Rule of this file: pure. In synchronous training every rank's step takes equally long, because the fast wait for the
slow; what differs is **own time**, the step less the time spent waiting for other ranks.
"""

import numpy as np
import numpy.typing as npt

from .step_ring import Floats, Ints

#: Columns that a browser draws without effort; more steps are gathered into fewer columns.
COLUMNS = 600
#: The difference from 1 with the strongest colour: at least, at most, and in terms of the median difference.
LEAST_REACH, MOST_REACH, _USUALS = 0.5, 1.0, 5.0


def own_time(step_s: Floats, waiting_s: Floats) -> Floats:
    """Seconds at work, ranks x steps: NaN where the step itself was not measured."""
    own: Floats = np.maximum(step_s - np.nan_to_num(waiting_s), np.float32(0))
    return own


def against_median(own_s: Floats, stages: Ints | None = None) -> Floats:
    """Each rank's own time over the median rank's of its cohort, step by step, as the verdict compares it.

    A cohort is a pipeline stage: another stage has other work. NaN where fewer than half of a cohort were heard. A rank
    that is alone in its stage is compared with itself, over these steps.

    Args:
        own_s: seconds, ranks x steps.
        stages: the stage of each rank, -1 where it is not known; None where none is.
    """
    ratio = np.full(own_s.shape, np.nan, np.float32)
    of = np.full(own_s.shape[0], -1) if stages is None else stages
    for stage in np.unique(of):
        mine = np.flatnonzero(of == stage)
        alone = mine.size == 1 and own_s.shape[0] > 1
        ratio[mine] = _over_median(own_s[mine].T).T if alone else _over_median(own_s[mine])
    return ratio


def _over_median(own_s: Floats) -> Floats:
    """Each row over the median row, column by column."""
    median = quiet_median(own_s, axis=0)
    heard = np.isfinite(own_s).sum(axis=0)
    usable = (heard * 2 > own_s.shape[0]) & (median > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio: Floats = np.where(usable, own_s / median, np.float32(np.nan)).astype(np.float32)
    return ratio


def quiet_median(values: Floats, axis: int) -> Floats:
    """The median along ``axis`` over what was measured; NaN where nothing was.

    By sorting, which puts NaN last: 15 times as fast as numpy's own on 14 phases x 1,024 ranks x 256 steps.
    """
    if values.shape[axis] == 0:
        return np.full(np.delete(values.shape, axis), np.nan, np.float32)
    ordered = np.sort(values, axis=axis)
    count = np.expand_dims(np.isfinite(values).sum(axis=axis), axis)
    low, high = (np.take_along_axis(ordered, np.maximum(at, 0), axis) for at in ((count - 1) // 2, count // 2))
    medians: Floats = np.where(count > 0, (low + np.minimum(high, np.inf)) / 2, np.nan).squeeze(axis)
    return medians.astype(values.dtype)


def reach_of(ratio: Floats) -> float:
    """By how much a ratio differs from 1 to get the strongest colour: more where that is what steps usually do.

    A job of short steps on a busy machine has steps of half and of twice the median rank's time on every rank: in the
    colours of a quiet job it would look sick.
    """
    off = np.abs(ratio[np.isfinite(ratio)] - 1.0)
    usual = float(np.median(off)) if off.size else 0.0
    return float(np.clip(np.ceil(usual * _USUALS * 10.0) / 10.0, LEAST_REACH, MOST_REACH))


def thin(steps: Ints, values: Floats, columns: int = COLUMNS) -> tuple[Ints, Floats, int]:
    """At most ``columns`` columns: (first step of each, median of its steps, steps a column)."""
    if steps.size <= columns:
        return steps, values, 1
    width = -(-steps.size // columns)
    pad = -steps.size % width
    padded = np.pad(values, ((0, 0), (pad, 0)), constant_values=np.nan)
    blocks = padded.reshape(values.shape[0], -1, width)
    firsts = np.maximum(np.arange(blocks.shape[1]) * width - pad + steps[0], steps[0])
    return firsts.astype(np.int64), quiet_median(blocks, axis=2), width


def slowest_first(ratio: Floats, recent: int = 100) -> npt.NDArray[np.intp]:
    """Ranks ordered by their median ratio over the ``recent`` steps, slowest first, the unheard last."""
    score = quiet_median(ratio[:, -recent:], axis=1)
    return np.argsort(-np.nan_to_num(score, nan=-1.0), kind="stable")
