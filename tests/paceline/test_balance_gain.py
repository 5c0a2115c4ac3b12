"""What balancing brought, from plans and times as they come."""

from paceline.balance_gain import BalanceGain, reacted
from paceline.events import BalancePlan
from tests.balanced_job import BalancedJob


def plan(version: int, before_s: float | None, after_s: float | None, first_batch: int | None = 1) -> BalancePlan:
    return BalancePlan(
        cluster="default", job="balanced", attempt=0, time_s=float(version), version=version, first_batch=first_batch,
        shares=[64] * 4, made_by="inband", measured_step_s=before_s, predicted_step_s=after_s,
    )  # fmt: skip


def test_the_time_before_is_that_between_fault_and_plan() -> None:
    """Neither the warm-up, which was fast, nor what was balanced already, in whatever order they come."""
    plans = [plan(1, 0.114, 0.112), plan(2, 0.206, 0.180), plan(3, 0.184, 0.182)]
    for order in (plans, plans[::-1]):
        assert reacted(order) == plans[1]


def test_a_plan_that_nobody_follows_or_that_measured_nothing_tells_nothing() -> None:
    assert reacted([plan(1, 0.9, 0.1, first_batch=None), plan(2, None, 0.1)]) is None
    assert reacted([plan(1, 0.3, None), plan(2, 0.4, None)]) == plan(1, 0.3, None)


def test_both_times_are_told_once_both_are_known() -> None:
    """From the first time that was measured under that plan on; times of older plans say nothing of now."""
    gain, job = BalanceGain(), BalancedJob(noise=0.0)
    gain.update(job.observed())
    assert gain.in_words() is None
    slow = plan(1, job.step_s, 0.3)
    gain.update(slow)
    assert gain.in_words() is None
    before_s = job.step_s
    job.version, job.shares = 1, [32, 32, 64, 128]
    gain.update(job.observed())
    gain.update(job.observed(version=0, ready_s=[9.0] * 4))
    gain.update(job.observed(ready_s=[None] * 4))
    said = f"balanced: the slowest rank computes {job.step_s * 1e3:.0f} ms a step now, {before_s * 1e3:.0f} ms before"
    assert gain.in_words() == said
