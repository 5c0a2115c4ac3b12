"""Work and timeline as rows, one column a row kind: what a node's sidecar would send of each rank's step.

Rule of this file: arrays only. NaN is "no such row". The disjoint phases of a step add up to it.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from paceline.events import OPS, STEP

from .dependencies import StepTimes
from .spec import Spec
from .work import Array, Work


class Table(NamedTuple):
    """Rows of S steps and R ranks: ``op``, ``microbatch`` (K,); ``start``, ``duration`` (S, R, K); ``end`` (S, R)."""

    op: NDArray[np.int64]
    microbatch: NDArray[np.int64]
    start: Array
    duration: Array
    end: Array


def build(work: Work, times: StepTimes, base: Array, spec: Spec) -> Table:
    """The rows; ``base``, shape (steps,), is the time that the timeline counts from."""
    end = times.leave[:, None] + work.optimizer
    before = times.start
    columns: list[tuple[str, int, Array, Array]] = []
    for name, values in (("evaluation", work.evaluation), ("checkpoint", work.checkpoint), ("data", work.data)):
        columns.append((name, -1, before, values))
        before = before + values
    for index in range(spec.microbatches):
        number = index if spec.microbatches > 1 else -1
        columns.append(("forward", number, times.forward_start[:, :, index], work.forward[:, :, index].sum(axis=2)))
        columns.append(("backward", number, times.backward_start[:, :, index], work.backward[:, :, index].sum(axis=2)))
    leave = np.broadcast_to(times.leave[:, None], end.shape)
    columns += [
        ("communication", -1, times.wait_start, times.wait),
        ("optimizer", -1, leave, work.optimizer),
        ("gc", -1, times.backward_start[:, :, -1], work.gc),
        ("cpu_wait", -1, times.start, work.cpu_wait),
        (STEP, -1, times.start, end - times.start),
    ]
    columns = [column for column in columns if column[0] not in ("evaluation", "checkpoint", "gc") or column[3].any()]
    duration = np.stack([column[3] for column in columns], axis=2)
    for place, column in enumerate(columns):
        if column[0] in ("evaluation", "checkpoint", "gc"):
            duration[:, :, place][duration[:, :, place] == 0] = np.nan
    start = np.stack([column[2] for column in columns], axis=2) + base[:, None, None]
    return Table(
        np.array([OPS.index(column[0]) for column in columns]),
        np.array([column[1] for column in columns]),
        start,
        duration,
        end + base[:, None],
    )
