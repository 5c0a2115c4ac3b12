"""Plans: one of another run, or with numbers that are none, is refused before anything follows it."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.balance.plan import MOST_AHEAD, MOST_NUMBER, Plan, PlanError, Standing, check, refusal
from paceline.training.balance_messages import ProposedPlan

NOW = Standing(world=2, run=7, version=4, total=64, flex=0.04, tile=2, most=[48, None])


def test_a_plan_for_this_run_passes() -> None:
    check(Plan(0, 0, (3, 5)), 2)
    check(Plan(MOST_NUMBER, MOST_NUMBER, (8, 16)), 2, total=24, tile=8)
    check(Plan(1, 1, (1,)), 1, total=1)


@pytest.mark.parametrize("world", [1, 3, 0])
def test_a_plan_for_another_world_is_refused(world: int) -> None:
    with pytest.raises(PlanError, match=f"plan 7 is for 2 ranks and this run has {world}: it belongs to another run"):
        check(Plan(7, 0, (3, 5)), world)


@pytest.mark.parametrize("share", [0, -1, 2**41, 1.0, math.nan, True, None, "8"])
def test_what_is_no_share_is_refused_by_rank(share: object) -> None:
    with pytest.raises(PlanError, match="gives rank 1"):
        check(Plan(1, 0, (3, share)), 2)  # type: ignore[arg-type]


@pytest.mark.parametrize("number", [-1, 2**60, 1.5, math.inf, False, None])
def test_what_is_no_version_and_no_batch_is_refused(number: object) -> None:
    with pytest.raises(PlanError, match="version"):
        check(Plan(number, 0, (1,)), 1)  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="first batch"):
        check(Plan(0, number, (1,)), 1)  # type: ignore[arg-type]


def test_a_share_between_two_tiles_is_refused() -> None:
    with pytest.raises(PlanError, match="rank 0 12 samples: a share is a multiple of 8"):
        check(Plan(1, 0, (12, 8)), 2, tile=8)


def test_a_plan_for_another_batch_is_refused() -> None:
    for total in (7, 9):
        with pytest.raises(PlanError, match=f"shares out 8 samples and the global batch is {total}"):
            check(Plan(1, 0, (3, 5)), 2, total=total)


def test_a_plan_may_leave_out_what_the_batch_may_lose() -> None:
    check(Plan(1, 0, (31, 31)), 2, total=64, flex=0.04)
    with pytest.raises(PlanError, match="shares out 60"):
        check(Plan(1, 0, (30, 30)), 2, total=64, flex=0.04)


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        (ProposedPlan(5, (32, 32), 7), None),
        (ProposedPlan(5, (48, 14), 7), None),
        (ProposedPlan(4 + MOST_AHEAD, (2, 62), 7), None),
        (ProposedPlan(5, (32, 32), 6), "another run"),
        (ProposedPlan(5, (32, 32)), "another run"),
        (ProposedPlan(4, (32, 32), 7), "not newer than version 4"),
        (ProposedPlan(5 + MOST_AHEAD, (32, 32), 7), "ahead of version 4"),
        (ProposedPlan(2**53, (32, 32), 7), "ahead of version 4"),
        (ProposedPlan(2**60, (32, 32), 7), "a plan's version is"),
        (ProposedPlan(5, (20, 22, 22), 7), "for 3 ranks and this run has 2"),
        (ProposedPlan(5, (), 7), "for 0 ranks"),
        (ProposedPlan(5, (31, 33), 7), "multiple of 2"),
        (ProposedPlan(5, (0, 64), 7), "rank 0 0 samples"),
        (ProposedPlan(5, (30, 30), 7), "shares out 60"),
        (ProposedPlan(5, (32, 34), 7), "shares out 66"),
        (ProposedPlan(5, (50, 14), 7), "gives rank 0 50 samples, and 48 fit into its memory"),
    ],
    ids=str,
)
def test_one_function_says_whether_a_plan_from_outside_may_be_taken_now(plan: ProposedPlan, reason: str | None) -> None:
    """Run, version, ranks, batch, tiles and memory."""
    found = refusal(NOW, *plan)
    assert found is None if reason is None else reason in (found or "")


def test_what_is_not_known_refuses_nothing() -> None:
    """A sidecar knows the number of ranks; a checkpoint is of another run."""
    assert refusal(Standing(world=2), 2**53, (1, 2**31), 3) is None
    assert refusal(NOW._replace(run=None, version=None), 0, (48, 16)) is None


@pytest.mark.long
@given(st.integers(-1, 2**64), st.lists(st.integers(-1, 2**64), max_size=4), st.integers(0, 2**53))
def test_no_numbers_make_it_raise(version: int, shares: list[int], run: int) -> None:
    """What it lets pass, ranks can follow, and have versions left after it."""
    if refusal(NOW, version, shares, run) is None:
        check(Plan(version, 0, tuple(shares)), 2, total=64, flex=0.04, tile=2)
        assert version + 2**40 < MOST_NUMBER
        assert shares[0] <= 48


@pytest.mark.long
@given(st.integers(1, 2**53), st.lists(st.integers(1, 2**31), min_size=1, max_size=4), st.integers(0, 2**53))
def test_a_digest_says_that_there_is_a_plan_and_travels_as_a_float(version: int, shares: list[int], run: int) -> None:
    digest = ProposedPlan(version, tuple(shares), run).digest
    assert 1 <= digest < 2**48
    assert int(float(4 * digest + 3)) == 4 * digest + 3
