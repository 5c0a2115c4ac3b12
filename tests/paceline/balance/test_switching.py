"""Switching: ranks come to the same plan for the same first batch, whatever each has fetched ahead and heard."""

import importlib
import math
from typing import Any

import pytest

from paceline.balance.errors import BalanceError

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("pytorch")]


@pytest.fixture(scope="module")
def lockstep() -> Any:
    return importlib.import_module("tests.paceline.balance.lockstep")


def speeds(*seconds_a_sample: float) -> Any:
    """Times of ranks that are as fast as that."""
    return lambda rank, batch: seconds_a_sample[rank] * batch.plan.shares[rank]


def test_all_change_at_the_first_batch_that_none_has_handed_out(lockstep: Any) -> None:
    """One fetches seven batches ahead; its next one is the first that counts."""
    ranks = lockstep.Lockstep([16, 16, 16], ahead=[2, 7, 0])
    trained = [ranks.round(speeds(0.001, 0.001, 0.004)) for _ in range(40)]
    assert len(set(ranks.plans)) == 1
    assert ranks.plans[0].shares == (22, 21, 5)
    versions = [[batch.plan.version for batch in step] for step in trained]
    assert all(len(set(step)) == 1 for step in versions)
    first = next(index for index, step in enumerate(versions) if step[0] > 0)
    assert trained[first][0].number >= 8


def test_equal_ranks_keep_their_plan(lockstep: Any) -> None:
    ranks = lockstep.Lockstep([8, 8])
    for _ in range(60):
        ranks.round(speeds(0.001, 0.001))
    assert [plan.version for plan in ranks.plans] == [0, 0]


@pytest.mark.parametrize("seconds", [math.nan, None, 0.0, -1.0, math.inf])
def test_times_that_are_none_change_nothing(lockstep: Any, seconds: float | None) -> None:
    """Of one rank, or of all."""
    ranks = lockstep.Lockstep([8, 8])
    for _ in range(30):
        ranks.round(lambda rank, batch: seconds)
    assert [plan.version for plan in ranks.plans] == [0, 0]
    for _ in range(30):
        ranks.round(lambda rank, batch: seconds if rank else 0.01)
    assert len(set(ranks.plans)) == 1


def test_a_rank_whose_times_come_later_is_waited_for(lockstep: Any) -> None:
    """As on a device that is behind its host: what is told of an earlier plan counts as not measured."""
    ranks = lockstep.Lockstep([16, 16])
    last: dict[int, Any] = {}

    def late(rank: int, batch: Any) -> float | None:
        mine = speeds(0.001, 0.003)(rank, batch)
        if rank == 0:
            return mine
        before, last[rank] = last.get(rank), mine
        return before

    for _ in range(30):
        ranks.round(late)
    assert len(set(ranks.plans)) == 1
    assert ranks.plans[0].shares == (24, 8)


def test_memory_lowers_a_share_at_once(lockstep: Any) -> None:
    """Also of two ranks in one round; what fits is never exceeded again."""
    ranks = lockstep.Lockstep([16, 16, 16, 16])
    ranks.round(speeds(*[0.001] * 4))
    ranks.round(speeds(*[0.001] * 4), failed=[1, 3])
    assert len(set(ranks.plans)) == 1
    shares = ranks.plans[0].shares
    assert max(shares[1], shares[3]) <= 14
    for _ in range(40):
        ranks.round(speeds(0.004, 0.001, 0.004, 0.001))
    assert max(ranks.plans[0].shares[1], ranks.plans[0].shares[3]) <= 14
    assert sum(ranks.plans[0].shares) == 64
    told = ranks.ranks[0].channel.observed
    assert (told[0].ran_out, told[0].most) == ([], [])
    assert (told[-1].ran_out, told[-1].most) == ([0, 1, 0, 1], [None, 14, None, 14])


def test_no_memory_for_one_sample_ends_all(lockstep: Any) -> None:
    ranks = lockstep.Lockstep([1, 31])
    with pytest.raises(BalanceError, match="rank 0 has no memory for even 1 samples"):
        ranks.round(speeds(0.001, 0.001), failed=[0])


def test_a_plan_from_outside_is_taken_once_all_hold_it(lockstep: Any) -> None:
    ranks = lockstep.Lockstep([8, 8], ahead=[0, 4], source="kafka")
    ranks.round(speeds(0.001, 0.009))
    ranks.ranks[0].channel.plan = lockstep.ProposedPlan(1, (14, 2))
    ranks.round(speeds(0.001, 0.009))
    assert [plan.version for plan in ranks.plans] == [0, 0]
    ranks.ranks[1].channel.plan = lockstep.ProposedPlan(1, (14, 2))
    ranks.round(speeds(0.001, 0.009))
    assert [(plan.version, plan.shares) for plan in ranks.plans] == [(1, (14, 2))] * 2
    assert [plan.first_batch for plan in ranks.plans] == [7, 7]
    assert [plan.made_by for plan in ranks.ranks[0].channel.followed] == ["streams"]
    assert ranks.ranks[1].channel.followed == []


def test_without_a_plan_from_outside_the_last_one_stays(lockstep: Any) -> None:
    """Whatever is measured: in this mode others decide."""
    ranks = lockstep.Lockstep([8, 8], source="kafka")
    for _ in range(40):
        ranks.round(speeds(0.001, 0.009))
    assert [plan.version for plan in ranks.plans] == [0, 0]
    assert len(ranks.ranks[0].channel.observed) > 0
    assert ranks.ranks[1].channel.observed == []


@pytest.mark.parametrize("shares", [(5, 5, 6), (8, 7), (16, 0), (2**60, 3), (9, 9)])
def test_a_plan_of_another_run_is_passed_over_and_told_once(lockstep: Any, shares: tuple[int, ...]) -> None:
    ranks = lockstep.Lockstep([8, 8], source="kafka")
    for rank in ranks.ranks:
        rank.channel.plan = lockstep.ProposedPlan(1, shares)
    with pytest.warns(RuntimeWarning, match="a plan from outside is passed over"):
        ranks.round(speeds(0.001, 0.001))
    ranks.round(speeds(0.001, 0.001))
    assert [plan.version for plan in ranks.plans] == [0, 0]


def test_unlike_plans_under_one_version_are_never_followed(lockstep: Any) -> None:
    """Whatever the bus brought to whom: training goes on with the plan that all have."""
    ranks = lockstep.Lockstep([8, 8], source="kafka")
    ranks.ranks[0].channel.plan = lockstep.ProposedPlan(1, (10, 6))
    ranks.ranks[1].channel.plan = lockstep.ProposedPlan(1, (6, 10))
    ranks.round(speeds(0.001, 0.001))
    assert [plan.version for plan in ranks.plans] == [0, 0]
    for rank in ranks.ranks:
        rank.channel.plan = lockstep.ProposedPlan(2, (6, 10))
    ranks.round(speeds(0.001, 0.001))
    assert [(plan.version, plan.shares) for plan in ranks.plans] == [(2, (6, 10))] * 2


def test_what_is_measured_and_followed_is_told_by_rank_0(lockstep: Any) -> None:
    ranks = lockstep.Lockstep([16, 16])
    for _ in range(20):
        ranks.round(speeds(0.001, 0.003))
    told = ranks.ranks[0].channel
    assert told.observed[0].ready_s == pytest.approx([0.016, 0.048])
    assert told.observed[0].global_batch == 32
    assert (told.observed[0].version, told.observed[0].shares, told.observed[0].source) == (0, [16, 16], "inband")
    assert told.followed[-1].shares == list(ranks.plans[0].shares)
    assert told.followed[0].made_by == "inband"
    assert told.followed[0].predicted_s < told.followed[0].measured_s


def test_it_exchanges_less_often_where_steps_are_short(lockstep: Any) -> None:
    """Here a step is nothing but the exchange, so that this is as seldom as it may be."""
    ranks = lockstep.Lockstep([8, 8])
    for _ in range(300):
        ranks.round(speeds(0.001, 0.001))
    assert ranks.meeting.exchanges < 150


def background(lockstep: Any, shares: list[int]) -> Any:
    """Ranks that wait for one another every fiftieth round alone."""
    ranks = lockstep.Lockstep(shares)
    for rank in ranks.ranks:
        rank.switching._cadence.every = 50
    return ranks


def test_between_exchanges_ranks_tell_one_another_in_the_background(lockstep: Any) -> None:
    """What a round took is known at the end of the next, and a plan counts from the one after."""
    ranks = background(lockstep, [16, 16])
    trained = [ranks.round(speeds(0.001, 0.003)) for _ in range(12)]
    versions = [[batch.plan.version for batch in step] for step in trained]
    assert all(len(set(step)) == 1 for step in versions)
    assert [step[0] for step in versions[:4]] == [0, 0, 0, 1]


def test_memory_that_ran_out_between_exchanges_is_known_a_round_later(lockstep: Any) -> None:
    """That step cannot be skipped by all; the share is lowered."""
    ranks = background(lockstep, [16, 16])
    ranks.round(speeds(0.001, 0.001), failed=[1])
    assert [plan.shares for plan in ranks.plans] == [(16, 16)] * 2
    ranks.round(speeds(0.001, 0.001))
    assert [plan.shares for plan in ranks.plans] == [(18, 14)] * 2
    assert [rank.switching.ran_out for rank in ranks.ranks] == [[0, 1]] * 2


def test_a_plan_from_outside_is_followed_between_exchanges(lockstep: Any) -> None:
    """By what all held when they told it, not by what has come to some since."""
    ranks = lockstep.Lockstep([16, 16], source="kafka")
    for rank in ranks.ranks:
        rank.switching._cadence.every = 50
        rank.channel.plan = lockstep.ProposedPlan(3, (20, 12))
    ranks.round(speeds(0.001, 0.001))
    ranks.ranks[0].channel.plan = lockstep.ProposedPlan(4, (8, 24))
    ranks.round(speeds(0.001, 0.001))
    assert [(plan.version, plan.shares) for plan in ranks.plans] == [(3, (20, 12))] * 2


@pytest.mark.parametrize("version", [0, 7])
def test_after_a_checkpoint_was_loaded_plans_go_on(lockstep: Any, version: int) -> None:
    """Also one of an earlier plan than the one in force, and with shares that are not this run's."""
    ranks = lockstep.Lockstep([16, 16])
    for _ in range(20):
        ranks.round(speeds(0.001, 0.003))
    assert ranks.plans[0].shares == (24, 8)
    for shares in ((16, 16), (5, 5)):
        for rank in ranks.ranks:
            rank.resume(4, version, shares)
        while ranks.plans[0].shares != (8, 24):
            ranks.round(speeds(0.003, 0.001))
        assert len(set(ranks.plans)) == 1
        assert ranks.plans[0].version > version
