"""A synchronous job, step by step: every worker computes its share, and the slowest of them ends the step.

Rule of this file: no chance and no clock; a scenario brings its noise with it, so that all policies see the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from paceline.balance.split import Worker, split

Floats = NDArray[np.float64]
Shares = Sequence[int]


@dataclass(frozen=True)
class Scenario:
    """What happens to whom.

    Args:
        name: for the report.
        total: samples of the global batch.
        fixed_s: seconds a step of each worker that no share changes, shape (workers,).
        sample_s: seconds a sample of each worker, shape (workers,).
        slowness: by which factor each worker is slower in each step, shape (steps, workers).
        noise: what each worker's time is multiplied by in each step, shape (steps, workers); around 1.
        exchange_s: what a step takes beside the slowest worker's computing.
        prefetch: batches that are handed out beyond the one in work.
        reshape: the part by which a worker's first step with another share is slower.
    """

    name: str
    total: int
    fixed_s: Floats
    sample_s: Floats
    slowness: Floats
    noise: Floats
    exchange_s: float = 0.0
    prefetch: int = 0
    reshape: float = 0.0

    @property
    def workers(self) -> int:
        return len(self.sample_s)

    @property
    def steps(self) -> int:
        return len(self.slowness)

    def expected_s(self, step: int, shares: Shares) -> Floats:
        """Seconds of every worker without noise, shape (workers,)."""
        return np.asarray(self.slowness[step] * (self.fixed_s + self.sample_s * np.asarray(shares, dtype=float)))

    def best(self, step: int) -> list[int]:
        """The shares with which ``step`` is shortest, by the true costs; every worker takes one sample at least."""
        slow = self.slowness[step]
        costs = zip((slow * self.fixed_s).tolist(), (slow * self.sample_s).tolist(), strict=True)
        return split([Worker(fixed, sample, least=1) for fixed, sample in costs], self.total)

    def uniform(self) -> list[int]:
        """As equal as whole samples can be."""
        each, more = divmod(self.total, self.workers)
        return [each + (rank < more) for rank in range(self.workers)]


class Observation(NamedTuple):
    """What a policy is told after a step: the batch's plan and how long each worker computed."""

    step: int
    version: int
    shares: Shares
    times_s: Floats


class Policy(Protocol):
    """Says after a step which shares batches should have that are not handed out yet; None: as before."""

    def observe(self, seen: Observation) -> Shares | None: ...

    def adopted(self, version: int, first_batch: int, shares: Shares) -> None: ...


class Plan(NamedTuple):
    version: int
    first_batch: int
    shares: Shares


class Run(NamedTuple):
    """What came of it.

    Args:
        step_s: shape (steps,), with noise.
        expected_s: shape (steps,), without noise and without what new shapes cost.
        plans: the first one is what the run began with.
    """

    step_s: Floats
    expected_s: Floats
    plans: list[Plan]

    @property
    def total_s(self) -> float:
        return float(self.step_s.sum())


def run(scenario: Scenario, policy: Policy, first: Shares, every: int = 1) -> Run:
    """The job under a policy that is told the times of every so-many-th step."""
    plans = [Plan(0, 0, list(first))]
    step_s, expected_s = np.empty(scenario.steps), np.empty(scenario.steps)
    before: Shares = first
    for step in range(scenario.steps):
        plan = next(plan for plan in reversed(plans) if plan.first_batch <= step)
        expected = scenario.expected_s(step, plan.shares)
        times_s = expected * scenario.noise[step]
        if plan.shares is not before:
            times_s = times_s * np.where(np.asarray(plan.shares) != np.asarray(before), 1 + scenario.reshape, 1.0)
            before = plan.shares
        step_s[step] = times_s.max() + scenario.exchange_s
        expected_s[step] = expected.max() + scenario.exchange_s
        if (step + 1) % every:
            continue
        wanted = policy.observe(Observation(step, plan.version, plan.shares, times_s))
        if wanted is not None and list(wanted) != list(plans[-1].shares):
            plans.append(Plan(plans[-1].version + 1, step + 1 + scenario.prefetch, list(wanted)))
            policy.adopted(*plans[-1])
    return Run(step_s, expected_s, plans)


def oracle(scenario: Scenario, ahead: int = 0) -> Run:
    """The job under one who knows every worker's true cost ``ahead`` steps before and changes shares for nothing.

    With 0 it knows the step that comes; with the scenario's prefetch, what was true when the batch was handed out.
    """
    step_s, expected_s = np.empty(scenario.steps), np.empty(scenario.steps)
    plans: list[Plan] = []
    known: Floats | None = None
    for step in range(scenario.steps):
        then = max(step - ahead, 0)
        if known is None or not np.array_equal(scenario.slowness[then], known):
            known = scenario.slowness[then]
            plans.append(Plan(len(plans), step, scenario.best(then)))
        expected = scenario.expected_s(step, plans[-1].shares)
        step_s[step] = (expected * scenario.noise[step]).max() + scenario.exchange_s
        expected_s[step] = expected.max() + scenario.exchange_s
    return Run(step_s, expected_s, plans)
