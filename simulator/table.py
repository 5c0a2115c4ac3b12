"""Work and timeline as wide rows, one a rank and step: what a node's sidecar would send of each rank's step.

Rule of this file: arrays only. NaN is "no such phase in this step". The disjoint phases of a step add up to it.
"""

from typing import NamedTuple

import numpy as np

from .dependencies import StepTimes
from .work import Array, Work

#: Phases that not every step, or job, has.
_SELDOM = ("evaluation", "checkpoint", "gc", "host_bound")


class Table(NamedTuple):
    """S steps of R ranks, in seconds: ``start``, ``step`` and ``end`` (S, R), ``phases`` (P, S, R) in the order of
    ``names``; ``forward`` and ``backward`` of every micro-batch (S, R, M)."""

    start: Array
    step: Array
    end: Array
    names: list[str]
    phases: Array
    forward: Array
    backward: Array


def build(work: Work, times: StepTimes, base: Array) -> Table:
    """The rows; ``base``, shape (steps,), is the time that the timeline counts from."""
    end = times.leave[:, None] + work.optimizer
    forward, backward = work.forward.sum(axis=3), work.backward.sum(axis=3)
    phases = {
        "data": work.data,
        "forward": forward.sum(axis=2),
        "backward": backward.sum(axis=2),
        "optimizer": work.optimizer,
        "communication": times.wait,
        "evaluation": work.evaluation,
        "checkpoint": work.checkpoint,
        "gc": work.gc,
        "cpu_wait": work.cpu_wait,
        "host_bound": work.host_bound,
    }
    for name in _SELDOM:
        seconds = phases.pop(name)
        if seconds.any():
            phases[name] = np.where(seconds == 0, np.nan, seconds)
    since = base[:, None]
    rows = np.stack(list(phases.values()))
    return Table(times.start + since, end - times.start, end + since, list(phases), rows, forward, backward)
