"""A job's balancer is told what its ranks measured, and proposes plans that it follows: each version once."""

import msgspec
import pytest

from paceline import topics, wire
from paceline.events import BalanceObserved
from streams.balance.job_balance import PATIENCE, JobBalance
from streams.processor import Processor
from tests.balanced_job import BalancedJob


def run(job, decision, seconds, *, follows=True):
    """The plans of ``seconds``; the ranks follow each a second after it was made."""
    plans, due = [], []
    for _ in range(seconds):
        if due and follows:
            job.follow(due.pop(0))
        made = decision.update(job.observed())
        plans += made
        due += made
    return plans


def test_the_fast_get_more_and_the_step_becomes_as_short_as_foretold():
    """Speeds 1:1:2:4: within a few seconds a step takes little more than the bound."""
    job, decision = BalancedJob(), JobBalance()
    before_s = job.step_s
    plans = run(job, decision, 40)
    assert sum(job.shares) == 256
    assert job.step_s < 0.55 * before_s
    assert plans[-1].predicted_step_s == pytest.approx(job.step_s, rel=0.1)
    assert plans[0].measured_step_s == pytest.approx(before_s, rel=0.1)
    assert [plan.version for plan in plans] == list(range(1, len(plans) + 1))


def test_a_plan_says_where_it_comes_from_and_leaves_its_first_batch_to_the_ranks():
    """Key and attempt of the job, the observation's time, and words for the log."""
    (plan, *_) = run(BalancedJob(job="j"), JobBalance(), 20)
    assert (plan.cluster, plan.job, plan.attempt, plan.made_by) == ("default", "j", 0, "streams")
    assert plan.first_batch is None
    assert plan.reason
    assert plan.time_s > 1_700_000_000.0


def test_a_rank_that_turns_slow_loses_samples_and_gets_them_back():
    """Fail-slow and recovery, each within seconds."""
    job, decision = BalancedJob((100.0,) * 4), JobBalance()
    run(job, decision, 40)
    job.speeds[3] /= 3
    run(job, decision, 20)
    assert job.shares[3] < 0.5 * job.shares[0]
    job.speeds[3] *= 3
    run(job, decision, 40)
    assert job.shares[3] == pytest.approx(job.shares[0], rel=0.15)


def test_equal_ranks_are_left_alone():
    """Noise is no reason."""
    assert len(run(BalancedJob((100.0,) * 8), JobBalance(), 300)) <= 1


@pytest.mark.parametrize(
    "told", [{"source": "inband"}, {"source": "of a later version"}, {"mode": "static"}, {"mode": "uniform"}]
)
def test_who_does_not_ask_gets_no_plan(told):
    """Ranks that decide among themselves, or not at all."""
    assert run(BalancedJob(**({"source": "kafka"} | told)), JobBalance(), 30) == []


def test_no_version_is_proposed_twice():
    """What ranks do not follow is proposed again after a while, under another version: some may hold the first."""
    plans = run(BalancedJob(), JobBalance(), 3 * PATIENCE, follows=False)
    versions = [plan.version for plan in plans]
    assert len(versions) > 1
    assert versions == sorted(set(versions))
    assert len(plans) <= 3


def test_a_plan_of_the_ranks_own_comes_first():
    """A rank ran out of memory: its cap holds, and later versions are beyond theirs."""
    job, decision = BalancedJob((100.0, 100.0, 200.0, 400.0)), JobBalance()
    plans = run(job, decision, 20)
    job.version, job.shares = plans[-1].version + 5, [64, 64, 64, 64]
    most = [None, None, None, 70]
    after = []
    for _ in range(40):
        made = decision.update(job.observed(most=most))
        after += made
        if made:
            job.follow(made[-1])
    assert after[0].version == plans[-1].version + 6
    assert all(plan.shares[3] <= 70 for plan in after)


@pytest.mark.parametrize(
    "strange",
    [
        {"ready_s": [None] * 4},
        {"ready_s": [0.0] * 4},
        {"ready_s": [1e9, 1e-9, 1e9, 1e-9]},
        {"version": 2**53},
        {"shares": [1, 1, 1, 253]},
        {"shares": [2**31] * 4, "global_batch": 0},
        {"shares": [64] * 3, "ready_s": [0.1] * 3},
        {"tile": 7},
        {"tile": 2**20},
        {"most": [1, 1, 1, 1]},
        {"global_batch": 2**40},
        {"flex": 1.0, "conserve": False},
    ],
    ids=str,
)
def test_one_strange_observation_among_good_ones_stops_nothing(strange):
    """It neither raises nor keeps the job from being balanced."""
    job, decision = BalancedJob(), JobBalance()
    run(job, decision, 3)
    decision.update(job.observed(**strange))
    run(job, decision, 60)
    assert sum(job.shares) == 256
    assert job.shares[3] > 1.3 * job.shares[0]


def test_what_a_spool_held_back_changes_nothing():
    """A dead sidecar's last messages come after those of its successor."""
    job, decision = BalancedJob(), JobBalance()
    held = job.observed(producer="dead")
    run(job, decision, 30)
    before = decision.run.controller.snapshot()
    assert decision.update(msgspec.structs.replace(held, sequence=9)) == []
    assert decision.run.controller.snapshot() == before


def test_a_job_that_starts_again_is_measured_anew():
    """The same attempt from an earlier checkpoint: versions and batches go back, time does not."""
    job, decision = BalancedJob(), JobBalance()
    run(job, decision, 30)
    again = BalancedJob(job="balanced")
    again.second = 100
    plans = []
    for at in range(20):
        told = msgspec.structs.replace(again.observed(), producer="another", sequence=at, batch=at)
        made = decision.update(told)
        plans += made
        if made:
            again.follow(made[-1])
    assert plans[0].shares != [64] * 4
    assert again.shares[3] > 1.3 * again.shares[0]


def test_a_plan_names_the_run_that_it_was_made_for():
    """The same attempt, started again in the same second: no plan of the run before is for it."""
    decision, job = JobBalance(), BalancedJob(run=5)
    assert {plan.run for plan in run(job, decision, 30)} == {5}
    again = BalancedJob(run=6)
    again.second = job.second
    plans = run(again, decision, 30)
    assert {plan.run for plan in plans} == {6}
    assert [plan.version for plan in plans] == list(range(1, len(plans) + 1))
    late = msgspec.structs.replace(job.observed(), t0_s=again.at_s - 5, producer="dead", sequence=1)
    before = decision.snapshot()
    assert decision.update(late) == []
    assert decision.run.setup == JobBalance.restore(before).run.setup


def test_one_observation_of_the_far_future_does_not_end_balancing():
    """It looks newer than all that follow; after a while these are believed."""
    job, decision = BalancedJob(), JobBalance()
    decision.update(job.observed(t0_s=1e11, batch=2**53))
    assert run(job, decision, PATIENCE - 1) == []
    assert run(job, decision, PATIENCE)
    assert job.shares[3] > 1.3 * job.shares[0]


def test_no_version_is_proposed_that_no_reader_can_decode():
    """Ranks that say they follow the highest one."""
    job, decision = BalancedJob(), JobBalance()
    job.version = 2**53
    assert run(job, decision, 30) == []
    job.version = 2**53 - 1
    plans = run(job, decision, 30)
    assert {plan.version for plan in plans} == {2**53}
    for plan in plans:
        assert wire.decode(topics.PLAN, wire.encode(plan)) == plan


@pytest.mark.long
def test_a_thousand_ranks_are_judged():
    """One observation of 1,024 ranks, and a plan for all of them."""
    speeds = (*(100.0 + rank % 7 for rank in range(1023)), 30.0)
    job, decision = BalancedJob(speeds, total=64 * 1024), JobBalance()
    plans = run(job, decision, 12)
    assert len(plans[-1].shares) == 1024
    assert sum(plans[-1].shares) == 64 * 1024
    assert plans[-1].shares[-1] < 32
    assert isinstance(JobBalance.restore(decision.snapshot()), JobBalance)


def test_a_world_of_one_has_nothing_to_share():
    """Nor does it raise."""
    assert run(BalancedJob((100.0,), total=64), JobBalance(), 20) == []


def test_an_event_from_bytes_is_what_it_was():
    """What the bus holds is what was told."""
    event = BalancedJob().observed()
    assert msgspec.json.decode(msgspec.json.encode(event), type=BalanceObserved) == event


def test_a_job_that_has_ended_is_forgotten():
    """An hour of other jobs' time after its last word nothing of it is held."""
    processor, ended, other = Processor(), BalancedJob(job="ended"), BalancedJob(job="other")
    processor.update(topics.BALANCE, ended.observed())
    for second in range(370):
        at_s = 1_700_000_000.0 + 10 * second
        processor.update(topics.BALANCE, msgspec.structs.replace(other.observed(), t0_s=at_s))
    assert [key.name for key in processor.states] == ["other"]
    assert [key.name for key in processor.take_forgotten()] == ["ended"]
