"""How published quantiles did: each value beside what was said of it, and what the counts make of it."""

import numpy as np
import pytest

from forecaster.calibration import COUNTED, LEVELS, STEPS, Calibration, Compared, below

#: The 80 % interval is from 0 to 1.
PUBLISHED = np.tile([-0.1, 0.0, 0.3, 0.5, 0.7, 1.0, 1.1], (60, 1))
SHARES = np.array(LEVELS)


def told(values: np.ndarray, quantiles: np.ndarray = PUBLISHED, first: int = 1000) -> Calibration:
    """A state after ``values``, one a place, with the same quantiles published after each."""
    state = Calibration()
    state.publish(first, quantiles)
    for place, value in enumerate(values, first + 1):
        list(state.compare(place, float(value)))
        state.publish(place, quantiles)
    return state


def test_each_value_is_scored_by_how_far_ahead_it_was_forecast() -> None:
    """Once a step ahead; what was not measured is not, and a fifth lay outside."""
    at = np.arange(1, 201)
    state = told(np.where(at == 7, np.nan, np.where(at % 5 == 0, 9.0, 0.5)))
    assert {one.steps: one.values for one in state.scored()} == {1: 199, 3: 197, 10: 191, 40: 161}
    assert all(abs(one.inside_80_ratio - 0.8) < 0.02 for one in state.scored())
    assert Calibration().scored() == []


@pytest.mark.parametrize("step", STEPS)
def test_a_value_is_compared_with_what_was_published_for_it_and_with_nothing_else(step: int) -> None:
    """Each place said something else of each step."""
    state = Calibration()
    for place in range(200, 300):
        for one in state.compare(place, 0.0):
            assert one == Compared(
                one.step, place - one.step + one.step / 100.0, place - one.step + one.step / 100.0, False
            )
        state.publish(place, np.tile(place + np.arange(1, 61)[:, None] / 100.0, len(LEVELS)))
    assert [one.step for one in state.compare(300, 0.0)] == list(STEPS)
    assert [one.step for one in state.compare(299 + step, 0.0)] == [one for one in STEPS if one >= step]


def test_true_forecasts_lie_on_the_diagonal_narrow_and_shifted_ones_do_not() -> None:
    """Values of a normal distribution, beside its own quantiles, half as wide ones, and ones too high."""
    normal = np.array([-1.96, -1.2816, -0.6745, 0.0, 0.6745, 1.2816, 1.96])
    values = np.random.default_rng(1).standard_normal(900)
    one, *_ = told(values, np.tile(normal, (60, 1))).scored()
    assert np.abs(one.below_ratios - SHARES).max() < 0.04
    one, *_ = told(values, np.tile(0.5 * normal, (60, 1))).scored()
    assert (one.below_ratios - SHARES)[:3].min() > 0.08
    assert (one.below_ratios - SHARES)[4:].max() < -0.08
    one, *_ = told(values, np.tile(normal + 1.0, (60, 1))).scored()
    assert (one.below_ratios > SHARES).all()


@pytest.mark.parametrize("quantiles", [np.zeros(7), np.full(7, 8.0)])
def test_a_forecast_that_is_sure_of_what_comes_is_true(quantiles: np.ndarray) -> None:
    """All its quantiles are the value."""
    one, *_ = told(np.full(300, quantiles[0]), np.tile(quantiles, (60, 1))).scored()
    np.testing.assert_allclose(one.below_ratios, SHARES)
    assert one.inside_80_ratio == 1.0


def test_of_a_series_that_often_rests_true_forecasts_are_true_too() -> None:
    """Its quantiles up to 60 % are 0, as 60 % of its values are."""
    random = np.random.default_rng(2)
    values = np.where(random.random(900) < 0.6, 0.0, random.random(900))
    quantiles = np.maximum(0.0, (SHARES - 0.6) / 0.4)
    one, *_ = told(values, np.tile(quantiles, (60, 1))).scored()
    assert np.abs(one.below_ratios - SHARES).max() < 0.04


def test_true_forecasts_of_whole_numbers_are_true_too() -> None:
    """Free GPUs: several quantiles are the same number."""
    random = np.random.default_rng(3)
    made = np.round(random.normal(8.0, 1.5, 40_000))
    quantiles = np.quantile(made, LEVELS, method="inverted_cdf")
    one, *_ = told(made[:900], np.tile(quantiles, (60, 1))).scored()
    assert np.abs(one.below_ratios - SHARES).max() < 0.08


@pytest.mark.parametrize(
    ("value", "expected"),
    [(-1.0, [1.0] * 7), (9.0, [0.0] * 7), (3.0, [0.0, 0.0, 0.0, 0.5, 1.0, 1.0, 1.0]), (5.5, [0.0] * 6 + [1.0])],
)
def test_a_value_counts_as_below_the_quantiles_above_it(value: float, expected: list[float]) -> None:
    """At one of them it may lie on either side."""
    np.testing.assert_allclose(below(np.arange(7.0), value), expected)


def test_how_forecasts_did_long_ago_fades() -> None:
    """After as many values again the newest say most, and counts stay bounded."""
    values = np.where(np.arange(3 * COUNTED) < 2 * COUNTED, 9.0, 0.5)
    one, *_ = told(values).scored()
    assert one.values <= COUNTED
    assert one.inside_80_ratio > 0.7
    assert one.below_ratios[-1] > 0.7


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_compared_with_nothing(bad: float) -> None:
    """Neither a value nor quantiles; the others are compared as before."""
    state = told(np.array([bad, 0.5]))
    assert {one.steps: one.values for one in state.scored()} == {1: 1}
    broken = PUBLISHED.copy()
    broken[:, 3] = bad
    assert told(np.full(9, 0.5), broken).scored() == []


def test_a_short_forecast_is_compared_as_far_as_it_goes() -> None:
    """Steps beyond it were not published."""
    assert [one.steps for one in told(np.full(90, 0.5), PUBLISHED[:5]).scored()] == [1, 3]
