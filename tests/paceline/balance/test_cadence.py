"""Cadence: exchanges cost a quarter of a per cent of a step at most, and come in the same rounds on every rank."""

import pytest

from paceline.balance.cadence import MOST_COST, MOST_ROUNDS, Cadence, rounds_between


@pytest.mark.parametrize(("cost_s", "step_s"), [(0.0003, 0.06), (0.0003, 0.006), (0.001, 0.01), (1e-9, 10.0)])
def test_it_costs_half_a_per_cent_at_most(cost_s: float, step_s: float) -> None:
    every = rounds_between([cost_s, 5 * cost_s], [step_s, step_s])
    assert cost_s / (every * step_s) <= MOST_COST
    assert every == 1 or cost_s / ((every - 1) * step_s) > MOST_COST


@pytest.mark.parametrize(("cost_s", "step_s"), [(1.0, 1e-9), (1e9, 1e-9)])
def test_changes_are_noticed_whatever_it_costs(cost_s: float, step_s: float) -> None:
    assert rounds_between([cost_s], [step_s]) == MOST_ROUNDS


@pytest.mark.parametrize("numbers", [(0.0, 0.1), (0.1, 0.0), (float("nan"), 0.1), (0.1, float("nan")), (-1.0, 0.1)])
def test_what_was_not_measured_leaves_it_at_each_step(numbers: tuple[float, float]) -> None:
    assert rounds_between([numbers[0]], [numbers[1]]) == 1


def test_rounds_are_counted_from_the_last_exchange() -> None:
    cadence = Cadence()
    assert [cadence.due() for _ in range(3)] == [True] * 3
    cadence.settle([0.0005], [0.1])
    assert [cadence.due() for _ in range(6)] == [False, True] * 3


def test_it_settles_again_soon_after_the_first_time() -> None:
    """What the background costs is not known before; after that it is asked seldom."""
    cadence = Cadence()
    settled = []
    for number in range(1, 400):
        if cadence.due() and cadence.settling():
            settled.append(number)
            cadence.settle([1.0], [1.0])
    assert settled == [8, 16]


def test_it_tells_medians() -> None:
    """One slow step or exchange is none."""
    cadence = Cadence()
    assert cadence.told() == (0.0, 0.0)
    for seconds in (0.001, 0.002, 9.0):
        cadence.cost(seconds)
        cadence.step(10 * seconds)
    assert cadence.told() == (0.002, 0.02)
