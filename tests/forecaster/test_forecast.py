"""The forecast itself: the gate, the interval's word, ranges, gaps, and what it says of itself."""

import json
from pathlib import Path

import numpy as np
import pytest

from forecaster import forecast, scores
from forecaster.models.registry import shipped
from forecaster.question import ForecastResult, Question

LEVELS = np.arange(1, 10) / 10
MODELS = shipped()
EXCERPT = json.loads((Path(__file__).parent / "data" / "series.json").read_text())


def question(values: np.ndarray, horizon: int = 12, **changes: object) -> Question:
    fields = {"values": np.asarray(values, float), "interval_s": 60.0, "horizon": horizon, "levels": LEVELS}
    return Question(**(fields | changes))  # type: ignore[arg-type]


def answer(asked: Question) -> ForecastResult:
    return forecast.forecast(asked, MODELS)


def test_what_loses_to_the_naive_is_not_answered() -> None:
    """On a series that repeats itself exactly nothing beats the seasonal naive forecast, and the gate says so."""
    result = answer(question(np.tile([1.0, 5.0, 2.0, 8.0, 3.0, 3.0, 9.0, 0.5], 60), season=8))
    assert result.loss is not None
    assert result.loss <= (result.naive_loss or 0.0)
    assert result.values[0, 4] == pytest.approx(1.0, abs=0.2)


def test_where_the_pool_lost_the_last_value_is_answered_and_not_past_changes() -> None:
    """34 minutes of memory that fell and then stood: the answer, its number and what it is compared with agree."""
    fell = np.concatenate([np.linspace(4.5, 1.5, 14), np.full(20, 1.5)]) * 2.0**30
    result = answer(question(fell, 60))
    assert result.naive is not None
    assert result.naive.tolist() == [fell[-1]] * 60
    assert result.model == "naive"
    assert result.values[:, 4].tolist() == [fell[-1]] * 60
    assert any("its share of the answer is 100%" in note for note in result.notes)


@pytest.mark.long
def test_baselines_have_no_share_in_the_pool() -> None:
    """They answer where it lost, and have a back-test of their own; its average has no part of them."""
    rng = np.random.default_rng(3)
    result = answer(question(50 + 5 * rng.standard_normal(400)))
    assert not {"naive", "seasonal_naive"} & set(result.weights)
    assert {"changes", "smoothing"} <= set(result.weights)
    names = [name for name, loss, _ in forecast.backtests(question(rng.standard_normal(400)), MODELS) if loss]
    assert {"naive", "changes"} <= set(names)


FREE_ONCE = np.concatenate([np.random.default_rng(1).integers(0, 5, 20).astype(float), np.zeros(120)])


@pytest.mark.parametrize("values", [np.zeros(60), FREE_ONCE])
def test_what_is_nothing_is_forecast_as_nothing(values: np.ndarray) -> None:
    """No 8e-24 GPUs, and no loss of 1e-25 that is better than one of 1e-20."""
    result = answer(question(values, 60, high=16.0))
    least = 1e-9 * max(1.0, float(values.max()))
    for number in (*result.values.ravel(), *(result.naive if result.naive is not None else ())):
        assert number == 0.0 or abs(number) >= least
    assert all(loss == 0.0 or loss >= least for loss in (result.loss or 0.0, result.naive_loss or 0.0))


@pytest.mark.parametrize("name", ["naive", "trend", "last_60"])
def test_a_named_model_that_loses_is_answered_with_a_warning(name: str) -> None:
    """Who asks for a model gets it, and its loss beside the naive one's."""
    result = answer(question(np.tile([1.0, 5.0, 2.0, 8.0], 100), season=4, model=name))
    assert result.model == name
    assert any("lost to seasonal_naive" in note for note in result.notes)


def test_there_is_no_such_model() -> None:
    """A name that is none is refused with those there are."""
    with pytest.raises(forecast.UnknownModelError, match="pool"):
        answer(question(np.ones(50), model="oracle"))


def test_nothing_measured_is_refused() -> None:
    """Only gaps: there is nothing to forecast from."""
    with pytest.raises(ValueError, match="nothing was measured"):
        answer(question(np.full(20, np.nan)))


def test_gaps_at_the_end_move_the_beginning() -> None:
    """The first step is the one after the last sample, measured or not."""
    line = np.arange(200.0)
    late = np.concatenate([line[:-10], np.full(10, np.nan)])
    result = answer(question(late, model="trend"))
    assert result.values[0, 4] == pytest.approx(200.0, abs=1e-6)
    assert result.values.shape == (12, 9)


def test_a_quantity_stays_above_zero() -> None:
    """What was never negative is not forecast to be."""
    rng = np.random.default_rng(1)
    assert answer(question(np.abs(rng.standard_normal(300)) * 0.1, 60)).values.min() >= 0.0


@pytest.mark.long
def test_the_season_is_result() -> None:
    """A repetition in the values is a season; noise has none."""
    rng = np.random.default_rng(2)
    wave = np.sin(np.arange(600) / 37 * 2 * np.pi) + 0.2 * rng.standard_normal(600)
    assert answer(question(wave)).season == pytest.approx(37, abs=1)
    assert answer(question(rng.standard_normal(600))).season == 0


def test_a_day_is_a_season_from_two_days_on() -> None:
    """At five minutes, 288 samples, as soon as there are two of them."""
    rng = np.random.default_rng(2)
    assert answer(question(rng.standard_normal(600), interval_s=300.0)).season == 288


@pytest.mark.long
def test_units_do_not_matter() -> None:
    """A series in bytes is forecast as the same series in GiB."""
    rng = np.random.default_rng(4)
    values = 10 + np.cumsum(rng.standard_normal(400)) * 0.1
    small, large = answer(question(values)), answer(question(values * 2.0**30))
    np.testing.assert_allclose(large.values / 2.0**30, small.values, rtol=1e-6)


@pytest.mark.slow
def test_intervals_keep_their_word_on_noise() -> None:
    """On noise the 80 % interval holds 80 % of what comes, within what chance allows."""
    rng = np.random.default_rng(8)
    inside = []
    for _ in range(40):
        values = 50 + 5 * rng.standard_normal(512)
        result = answer(question(values[:500]))
        inside.append(scores.coverage(values[500:], result.values[:, 0], result.values[:, -1]))
    assert 0.74 <= np.mean(inside) <= 0.86


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(EXCERPT["series"]))
def test_recorded_series_beat_the_naive(name: str) -> None:
    """On excerpts of real recordings the answer's loss is below that of repeating the last value."""
    part = EXCERPT["series"][name]
    values = np.array([np.nan if value is None else value for value in part["values"]])
    ours, naive = [], []
    for end in range(len(values) - 240, len(values) - 59, 60):
        came = values[end : end + 60]
        result = answer(question(values[:end], 60, interval_s=part["interval_s"]))
        last = np.full((60, 9), values[:end][np.isfinite(values[:end])][-1])
        ours.append(np.nanmean(scores.pinball(came, result.values, LEVELS)))
        naive.append(np.nanmean(scores.pinball(came, last, LEVELS)))
    assert np.mean(ours) < 0.9 * np.mean(naive)
