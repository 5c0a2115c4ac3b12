"""What is read off a run: how near the oracle it came, and how soon after a change.

Rule of this file: pure functions on runs.
"""

import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np

from .job import Run, Scenario

#: A worker's change counts from this factor on.
CHANGE = 1.1
#: A plan has adapted where its step takes at most so many times the oracle's, without noise.
ADAPTED = 1.1


def changes(scenario: Scenario) -> list[int]:
    """Steps at which a worker became slower or faster, and the first."""
    ratio = scenario.slowness[1:] / scenario.slowness[:-1]
    moved = (np.maximum(ratio, 1 / ratio) >= CHANGE).any(axis=1)
    return [0, *(np.flatnonzero(moved) + 1).tolist()]


def adaptation(scenario: Scenario, run: Run, oracle: Run) -> list[int | None]:
    """Steps from the first batch not yet handed out at each change until the plan had adapted; None: not until the end.

    The end is that of the run, or the next change; a change that reaches no batch before it is left out. With 0 the
    first batch that could be changed was right.
    """
    begins = changes(scenario)
    steps: list[int | None] = []
    for begin, end in zip(begins, [*begins[1:], scenario.steps], strict=True):
        first = begin + 1 + scenario.prefetch
        if first < end:
            near = run.expected_s[first:end] <= ADAPTED * oracle.expected_s[first:end]
            steps.append(int(np.argmax(near)) if near.any() else None)
    return steps


def spread(values: Sequence[float]) -> dict[str, float]:
    """Mean, tenth of a hundred from below, and the worst, which is the lowest."""
    return {
        "mean": statistics.fmean(values),
        "p10": float(np.quantile(values, 0.1)),
        "worst": min(values),
    }


def summary(scenario: Scenario, run: Run, oracle: Run, behind: Run, uniform: Run) -> dict[str, Any]:
    """One policy in one scenario.

    ``oracle`` knows the step that comes; ``behind`` what was true when the batch was handed out.
    """
    return {
        "scenario": scenario.name,
        "of_oracle": oracle.total_s / run.total_s,
        "of_oracle_behind_prefetch": behind.total_s / run.total_s,
        "of_uniform_time": run.total_s / uniform.total_s,
        "plans": len(run.plans) - 1,
        "adaptation_steps": adaptation(scenario, run, oracle),
    }
