"""Switching: ranks come to the same plan for the same first batch, whatever each has fetched ahead and heard."""

import importlib
import itertools
import math
import warnings
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
    ranks.ranks[0].channel.plan = lockstep.proposal(1, (14, 2))
    ranks.round(speeds(0.001, 0.009))
    assert [plan.version for plan in ranks.plans] == [0, 0]
    ranks.ranks[1].channel.plan = lockstep.proposal(1, (14, 2))
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
def test_a_plan_of_another_run_is_not_followed_and_said_once(
    lockstep: Any, shares: tuple[int, ...], capfd: pytest.CaptureFixture[str]
) -> None:
    """By rank 0, as a line: a warning would end a script that makes errors of those."""
    ranks = lockstep.Lockstep([8, 8], source="kafka")
    for rank in ranks.ranks:
        rank.channel.plan = lockstep.proposal(1, shares)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            ranks.round(speeds(0.001, 0.001))
    assert capfd.readouterr().err.count("a plan from outside is not followed") == 1
    assert [plan.version for plan in ranks.plans] == [0, 0]


def test_unlike_plans_under_one_version_are_never_followed(lockstep: Any) -> None:
    """Whatever the bus brought to whom: training goes on with the plan that all have."""
    ranks = lockstep.Lockstep([8, 8], source="kafka")
    ranks.ranks[0].channel.plan = lockstep.proposal(1, (10, 6))
    ranks.ranks[1].channel.plan = lockstep.proposal(1, (6, 10))
    ranks.round(speeds(0.001, 0.001))
    assert [plan.version for plan in ranks.plans] == [0, 0]
    for rank in ranks.ranks:
        rank.channel.plan = lockstep.proposal(2, (6, 10))
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
        rank.channel.plan = lockstep.proposal(3, (20, 12))
    ranks.round(speeds(0.001, 0.001))
    ranks.ranks[0].channel.plan = lockstep.proposal(4, (8, 24))
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


def hold(ranks: Any, *plans: Any) -> None:
    """Each rank's sidecar has passed on a plan: the same for all, or one a rank."""
    for rank, plan in zip(ranks.ranks, itertools.cycle(plans)):
        rank.channel.plan = plan


def followed(ranks: Any) -> tuple[int, tuple[int, ...]]:
    """The plan of all ranks."""
    (plan,) = set(ranks.plans)
    return plan.version, plan.shares


def test_the_highest_version_of_the_wire_leaves_the_run_its_own(lockstep: Any) -> None:
    """It is not followed, memory that runs out is answered, and the next good plan is."""
    ranks = lockstep.Lockstep([8, 8], source="kafka")
    hold(ranks, lockstep.proposal(2**53, (9, 7)))
    ranks.round(speeds(0.001, 0.001))
    assert followed(ranks) == (0, (8, 8))
    ranks.round(speeds(0.001, 0.001), failed=[0])
    assert followed(ranks) == (1, (7, 9))
    hold(ranks, lockstep.proposal(2, (6, 10)))
    ranks.round(speeds(0.001, 0.001))
    assert followed(ranks) == (2, (6, 10))


def test_a_bad_plan_does_not_keep_out_the_good_ones_after_it(lockstep: Any) -> None:
    """Whatever its version; one after another."""
    ranks = lockstep.Lockstep([8, 8], source="kafka")
    for version, bad in enumerate([2**53, 2**52, 2**20 + 1, 2**20], start=1):
        hold(ranks, lockstep.proposal(bad, (9, 8)))
        ranks.round(speeds(0.001, 0.001))
        hold(ranks, lockstep.proposal(version, (8 + version, 8 - version)))
        ranks.round(speeds(0.001, 0.001))
        assert followed(ranks) == (version, (8 + version, 8 - version))


def test_a_plan_beyond_what_fits_into_memory_is_not_followed(lockstep: Any) -> None:
    """Also where that became known in the very exchange in which all hold it."""
    ranks = lockstep.Lockstep([8, 8, 8], source="kafka", most=[8, None, None])
    hold(ranks, lockstep.proposal(5, (15, 1, 8)))
    ranks.round(speeds(*[0.001] * 3))
    assert followed(ranks) == (0, (8, 8, 8))
    hold(ranks, lockstep.proposal(6, (7, 9, 8)))
    ranks.round(speeds(*[0.001] * 3), failed=[1])
    assert followed(ranks) == (1, (8, 7, 9))


def test_a_plan_of_an_earlier_run_is_never_followed(lockstep: Any) -> None:
    """Nor one that names none, as an earlier version makes them."""
    ranks = lockstep.Lockstep([8, 8], source="kafka")
    for run in (lockstep.RUN - 1, 0):
        hold(ranks, lockstep.proposal(3, (9, 7), run))
        ranks.round(speeds(0.001, 0.001))
        assert followed(ranks) == (0, (8, 8))


@pytest.mark.parametrize("version", [1, 2, 2**53])
def test_a_plan_in_the_exchange_of_a_micro_batch_change_does_not_end_the_run(lockstep: Any, version: int) -> None:
    """Ranks settle on micro-batches of 4 in the eighth exchange; the plan was made before and is for single samples."""
    ranks = lockstep.Lockstep([32, 32], source="kafka")
    for rank in ranks.ranks:
        rank.switching.micro_batch = 4
    for _ in range(7):
        ranks.round(speeds(0.001, 0.001))
    hold(ranks, lockstep.proposal(version, (33, 31)))
    ranks.round(speeds(0.001, 0.001))
    assert ranks.ranks[0].switching.controller.config.tile == 4
    assert followed(ranks) == (1, (32, 32))


def test_a_checkpoint_of_the_highest_version_goes_on(lockstep: Any) -> None:
    """With its shares; memory that runs out and plans from outside are answered after it."""
    for version in (2**53 + 1, 2**53, 2**52 + 1, 2**52):
        ranks = lockstep.Lockstep([8, 8], source="kafka")
        for rank in ranks.ranks:
            rank.resume(4, version, (9, 7))
        ranks.round(speeds(0.001, 0.001))
        at, shares = followed(ranks)
        assert shares == (9, 7)
        ranks.round(speeds(0.001, 0.001), failed=[0])
        assert followed(ranks) == (at + 1, (8, 8))
        hold(ranks, lockstep.proposal(at + 2, (6, 10)))
        ranks.round(speeds(0.001, 0.001))
        assert followed(ranks) == (at + 2, (6, 10))


def test_a_checkpoint_whose_shares_do_not_fit_into_memory_is_replaced(lockstep: Any) -> None:
    ranks = lockstep.Lockstep([8, 8], source="kafka", most=[8, None])
    for rank in ranks.ranks:
        rank.resume(4, 3, (12, 4))
    ranks.round(speeds(0.001, 0.001))
    assert followed(ranks)[1] == (8, 8)


def test_plans_made_to_look_alike_are_not_followed(lockstep: Any) -> None:
    """Two with one digest, some ranks with the one and some with the other: training goes on with what all have."""
    total, seen = 2**19, dict[int, Any]()
    for first in range(1, total):
        plan = lockstep.proposal(1, (first, (first * 7919) % (total - first) or 1, 0))
        plan = plan._replace(shares=(*plan.shares[:2], total - sum(plan.shares[:2])))
        if plan.digest in seen:
            break
        if plan.shares[2] > 0:
            seen[plan.digest] = plan
    other = seen[plan.digest]
    assert plan.shares != other.shares
    ranks = lockstep.Lockstep([2**17, 2**17, 2**18], source="kafka")
    hold(ranks, plan, other)
    ranks.round(speeds(*[1e-9] * 3))
    assert followed(ranks)[0] == 0
    hold(ranks, other)
    ranks.round(speeds(*[1e-9] * 3))
    assert followed(ranks) == (1, other.shares)


def test_a_pause_of_half_an_hour_changes_nothing(lockstep: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One rank is busy with a checkpoint; the others wait for it in the exchange, on a clock that a test sets."""
    now = [0.0]
    monkeypatch.setattr("paceline.balance.switching.perf_counter", lambda: now[0])
    ranks = lockstep.Lockstep([8, 8])
    for step in range(40):
        now[0] += 1800.0 if step in (3, 20) else 0.1
        ranks.round(speeds(0.001, 0.001))
    assert [plan.version for plan in ranks.plans] == [0, 0]
    assert [rank.switching._cadence.every for rank in ranks.ranks] == [1, 1]


SHARES = st.one_of(
    st.tuples(st.integers(1, 64), st.integers(1, 64)).map(lambda two: (two[0], two[1], 96 - sum(two))),
    st.lists(st.integers(1, 2**31), min_size=1, max_size=4).map(tuple),
)
PLANS = st.tuples(
    st.one_of(st.integers(1, 12), st.integers(1, 2**53), st.sampled_from([2**20, 2**52, 2**53])),
    SHARES,
    st.sampled_from([7, 7, 7, 7, 0, 6]),
)
#: What happens in a round: a plan comes (to all ranks or to some), memory runs out, a checkpoint is loaded.
ROUNDS = st.tuples(
    st.one_of(st.none(), PLANS),
    st.sampled_from([(0, 1, 2), (0, 1, 2), (0,), (1, 2)]),
    st.integers(0, 9).map(lambda number: number == 0),
    st.one_of(st.none(), st.none(), st.none(), st.tuples(st.integers(0, 2**53), SHARES)),
)


@settings(max_examples=60)
@given(st.lists(ROUNDS, min_size=4, max_size=14), st.booleans(), st.sampled_from([0, 4]))
def test_no_plan_from_outside_at_any_moment_raises_or_changes_a_batch(
    lockstep: Any, rounds: list[Any], background: bool, micro_batch: int
) -> None:
    """Within the wire's bounds: each sample of each batch stays on one rank, and no rank gets more than fits."""
    ranks = lockstep.Lockstep([32, 32, 32], ahead=[0, 2, 1], source="kafka", most=[None, 60, None])
    for rank in ranks.ranks:
        rank.switching.micro_batch = micro_batch
        rank.switching._cadence.every = 50 if background else 1
    for plan, to, fails, checkpoint in rounds:
        for number in to if plan is not None else ():
            ranks.ranks[number].channel.plan = lockstep.proposal(*plan)
        if checkpoint is not None and len(checkpoint[1]) == 3 and sum(checkpoint[1]) == 96:
            for rank in ranks.ranks:
                rank.resume(5, *checkpoint)
        trained = ranks.round(speeds(*[0.001] * 3), failed=[0] if fails and ranks.plans[0].shares[0] >= 32 else [])
        assert len(set(ranks.plans)) == 1
        assert sum(ranks.plans[0].shares) == 96
        assert all(share % ranks.ranks[0].switching.controller.config.tile == 0 for share in ranks.plans[0].shares)
        most = ranks.ranks[0].switching.most
        assert all(cap is None or share <= cap for share, cap in zip(ranks.plans[0].shares, most, strict=True))
        ends = [*[batch.part.first for batch in trained][1:], trained[0].part.end]
        assert [batch.part.last for batch in trained] == ends
        assert trained[0].part.end - trained[0].part.start == 96
        assert len({batch.plan for batch in trained}) == 1
