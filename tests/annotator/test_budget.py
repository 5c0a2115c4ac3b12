"""What may be written now: the rate, each object's turn, and what follows each outcome."""

from random import Random

import pytest

from annotator.budget import EVERY_S, GONE_S, MOST_CONFLICTS, WAITS_S, Budget
from annotator.kube_objects import Ref
from annotator.plan import Want


def want(uid: str, urgent: bool = False) -> Want:
    return Want(Ref("v1", "Pod", "ml", uid, uid), {"job": "{}"}, urgent)


def names(wants: list[Want]) -> list[str]:
    return [one.ref.uid for one in wants]


def test_findings_go_first_then_who_waits_longest() -> None:
    budget = Budget(10, Random(1))
    budget.done("b", "written", 0.0)
    budget.done("a", "written", 5.0)
    assert names(budget.due([want("a"), want("b"), want("c"), want("d", urgent=True)], 100.0)) == ["d", "c", "b", "a"]


@pytest.mark.parametrize("outcome", [name for name, wait_s in WAITS_S.items() if wait_s is not None])
def test_an_object_waits_after_each_outcome(outcome: str) -> None:
    budget, wait_s = Budget(10, Random(1)), WAITS_S[outcome]  # type: ignore[index]
    assert wait_s is not None
    budget.done("a", outcome, 100.0)  # type: ignore[arg-type]
    assert budget.due([want("a")], 99.9 + wait_s) == []
    assert names(budget.due([want("a")], 100.0 + wait_s)) == ["a"]


def test_what_is_gone_is_not_due_for_ten_minutes() -> None:
    budget = Budget(10, Random(1))
    budget.done("a", "gone", 0.0)
    assert budget.due([want("a")], GONE_S - 1) == []
    assert not budget.waits([want("a")])
    assert budget.due([want("a")], GONE_S + 1)
    budget.done("a", "written", GONE_S + 1)
    assert not budget.is_gone("a")


def test_endless_conflicts_are_slowed_down() -> None:
    budget, now_s = Budget(10, Random(1)), 0.0
    for _ in range(MOST_CONFLICTS):
        budget.done("a", "conflict", now_s)
        now_s += 1.0
    assert budget.due([want("a")], now_s + EVERY_S / 2) == []
    assert budget.due([want("a")], now_s + EVERY_S)


def test_a_busy_api_stops_everything_for_as_long_as_it_asks_within_bounds() -> None:
    budget = Budget(10, Random(1))
    budget.done("a", "busy", 0.0, asked_s=60.0)
    assert not budget.tokens(59.0)
    assert budget.tokens(61.0)
    budget.done("a", "busy", 100.0, asked_s=1e9)
    assert budget.tokens(401.0)


def test_waits_grow_while_it_stays_busy_and_start_anew() -> None:
    budget, waits = Budget(10, Random(1)), []
    for _ in range(10):
        budget.done("a", "busy", 0.0)
        waits.append(budget.paused_s(0.0))
    assert waits[0] < 2
    assert 30 <= waits[-1] <= 90
    budget.done("a", "written", 0.0)
    budget.done("a", "busy", 0.0)
    assert budget.paused_s(0.0) < 2


def test_a_clock_set_back_holds_nothing_up() -> None:
    budget = Budget(10, Random(1))
    budget.done("a", "busy", 1000.0, asked_s=200.0)
    assert names(budget.due([want("a")], 500.0)) == ["a"]
    assert budget.tokens(500.0) or budget.tokens(501.0)


@pytest.mark.long
@pytest.mark.parametrize("rate", [0.1, 0.5, 1.0, 10.0, 33.0])
def test_the_rate_holds_over_time(rate: float) -> None:
    budget, made, now_s = Budget(rate, Random(1)), 0, 0.0
    while now_s < 1000.0:
        if budget.tokens(now_s):
            budget.spend(now_s)
            made += 1
        now_s += 0.02
    assert made == pytest.approx(1000 * rate, rel=0.05, abs=1.5)


def test_one_round_is_over_when_each_was_written_once() -> None:
    """Numbers that move on meanwhile would make it endless; what was refused is not waited for."""
    budget = Budget(10, Random(1))
    assert budget.waits([want("a")])
    for outcome, waits in (("conflict", True), ("busy", True), ("written", False), ("refused", False)):
        budget.done("a", outcome, 0.0)  # type: ignore[arg-type]
        assert budget.waits([want("a")]) == waits
