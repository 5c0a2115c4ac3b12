"""Unusual series: the answer is finite, ascending and in its range, whatever the past looks like."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from forecaster.conformal import Bucket, Widths
from forecaster.forecast import backtests, chosen, forecast
from forecaster.grid import gridded
from forecaster.models.registry import shipped
from forecaster.question import Question

LEVELS = np.array([0.025, 0.1, 0.25, 0.5, 0.75, 0.9, 0.975])
MODELS = shipped()
RNG = np.random.default_rng(9)
CLOCK = np.cumsum(np.where(RNG.random(300) < 0.03, 600.0, 60.0))
SHAPES = {
    "constant": np.full(300, 7.0),
    "constant zero": np.zeros(300),
    "two values": np.where(RNG.random(300) < 0.5, 3.0, 8.0),
    "one change at the end": np.concatenate([np.zeros(299), [1.0]]),
    "huge": 1e300 * (1.0 + 0.1 * RNG.standard_normal(300)),
    "the largest": np.where(np.arange(300) % 2, 1.0, -1.0) * np.finfo(np.float64).max,
    "tiny": 1e-300 * RNG.random(300),
    "the smallest": np.where(np.arange(300) % 3, 0.0, 5e-324),
    "tiny beside huge": np.where(np.arange(300) % 50, 1e-300, 1e300),
    "every other is a gap": np.where(np.arange(300) % 2, np.nan, RNG.standard_normal(300)),
    "one in ten is measured": np.where(np.arange(300) % 10, np.nan, RNG.standard_normal(300)),
    "strictly rising": np.arange(300.0) ** 2,
    "strictly falling": -np.exp(np.arange(300.0) / 3.0),
    "a jump of the level": np.repeat([1.0, 1e6], 150) + RNG.standard_normal(300),
    "a clock that jumps": gridded(RNG.standard_normal(300), CLOCK, 60.0)[0],
    "two samples": np.array([1.0, 2.0]),
    "one sample": np.array([5.0]),
}


def kept(question: Question) -> None:
    """The promises that every answer keeps."""
    result = forecast(question, MODELS)
    values = result.values
    assert values.shape == (question.horizon, len(LEVELS))
    assert np.isfinite(values).all()
    # The middle of two numbers that are equal but for their last place may be either.
    assert (values[:, 1:] >= values[:, :-1]).all()
    low = question.low
    if low is None and np.nanmin(question.values) >= 0.0:
        low = 0.0
    assert low is None or values.min() >= low
    assert question.high is None or values.max() <= question.high
    assert result.coverage is None or 0.0 <= result.coverage <= 1.0
    assert all(one is None or np.isfinite(one) for one in (result.loss, result.naive_loss))
    assert sum(result.weights.values()) == pytest.approx(1.0)


@pytest.mark.long
@pytest.mark.parametrize("season", [None, 0, 24, 10_000])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_answer_is_finite_ascending_and_in_range(shape: str, season: int | None) -> None:
    """Also with a season that is longer than the past."""
    kept(Question(SHAPES[shape], 60.0, 12, LEVELS, season=season))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_stated_range_is_never_left(shape: str) -> None:
    """Even where the past was outside it."""
    kept(Question(SHAPES[shape], 60.0, 7, LEVELS, low=-1.0, high=2.0))


@pytest.mark.long
@pytest.mark.parametrize("log_width", [-3.0, 3.0])
@pytest.mark.parametrize("shape", SHAPES)
def test_extreme_widths_leave_no_range(shape: str, log_width: float) -> None:
    """The widest and the narrowest interval that a state can ask for."""
    question = Question(SHAPES[shape], 60.0, 70, LEVELS, high=1e301)
    values = chosen(question, MODELS, Widths((Bucket(log_width),) * 5))[1].values
    assert np.isfinite(values).all()
    assert (np.diff(values, axis=1) >= 0.0).all()
    assert values.max() <= 1e301


@pytest.mark.parametrize("shape", SHAPES)
def test_every_back_test_is_finite(shape: str) -> None:
    """Also of values whose squares are no numbers."""
    rows = backtests(Question(SHAPES[shape], 60.0, 12, LEVELS), MODELS)
    assert {name for name, _, _ in rows} == set(MODELS.members)
    assert all(loss is None or np.isfinite(loss) for _, loss, _ in rows)
    assert all(share is None or 0.0 <= share <= 1.0 for _, _, share in rows)


@pytest.mark.long
@settings(max_examples=40, deadline=None)
@given(
    values=some.lists(
        some.one_of(some.floats(allow_nan=False, allow_infinity=False), some.just(float("nan")), some.integers(-3, 3)),
        min_size=1,
        max_size=90,
    ).filter(lambda row: not all(value != value for value in row)),
    horizon=some.integers(1, 40),
    interval_s=some.sampled_from([1e-3, 1.0, 60.0, 86_400.0]),
)
def test_no_series_breaks_it(values: list[float], horizon: int, interval_s: float) -> None:
    """Whatever numbers there are."""
    kept(Question(np.array(values, float), interval_s, horizon, LEVELS))
