"""Plans: one of another run, or with numbers that are none, is refused before anything follows it."""

import math

import pytest

from paceline.balance.plan import MOST_NUMBER, Plan, PlanError, check


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
