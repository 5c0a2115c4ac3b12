"""What is published of a series that is held: enough to draw it, with what it is compared with."""

import numpy as np
import pytest

from forecaster import held_forecast
from forecaster.forecast import forecast
from forecaster.history import SeriesSubject
from forecaster.memory import Held
from forecaster.models import network
from forecaster.models.registry import registry
from paceline import topics, wire
from paceline.events import Forecast

MODELS = registry(network.shipped())
WAVE = 8.0 + 4.0 * np.sin(np.arange(400) * 2 * np.pi / 40)


def published(
    values: np.ndarray, high: float | None = 16.0, key: str = "default/cluster/free_gpus", unit: str = "GPUs"
) -> Forecast:
    """The event, through the wire."""
    subject = SeriesSubject(key, unit, 60.0, "default", high=high)
    held = Held(subject, values, 60.0 * len(values))
    asked = held_forecast.question(held)
    made = wire.decode(topics.FORECAST, wire.encode(held_forecast.event(held, asked, forecast(asked, MODELS))))
    assert isinstance(made, Forecast)
    return made


def test_the_newest_values_the_naive_forecast_and_the_maximum_come_with_it() -> None:
    """The naive forecast repeats the season that was found; the bands of 50, 80 and 95 % have both their edges."""
    made = published(WAVE)
    assert made.recent_values == pytest.approx(WAVE[-120:].tolist(), rel=1e-5)
    assert len(made.naive_values) == len(made.values) == held_forecast.HORIZON
    assert made.naive_values == pytest.approx(WAVE[-40:].tolist() + WAVE[-40:-20].tolist(), abs=0.1)
    assert made.maximum == 16.0
    for share in (0.5, 0.8, 0.95):
        assert {round((1 - share) / 2, 3), round((1 + share) / 2, 3)} <= set(made.levels)


def test_gaps_are_gaps_and_a_short_series_is_whole() -> None:
    """What was not measured is null, and where the newest values are gaps the forecasts begin after them."""
    values = WAVE[:50].copy()
    values[[7, 48, 49]] = np.nan
    made = published(values, high=None)
    assert [at for at, value in enumerate(made.recent_values) if value is None] == [7, 48, 49]
    assert len(made.naive_values) == held_forecast.HORIZON
    assert made.maximum is None


def test_a_memory_that_most_futures_fill_is_forecast_as_full() -> None:
    """At its size exactly, which the page looks for; it is no less full because nothing can be fuller."""
    used = 80e9 * (0.3 + np.arange(390) / 600.0 + 0.01 * np.random.default_rng(1).random(390))
    made = published(used, 80e9, "default/device/n/g/fb_used_bytes", "bytes")
    median = np.array(made.values)[:, made.levels.index(0.5)]
    assert (np.flatnonzero(median >= 80e9)[0] + 1, median.max()) == (pytest.approx(28, abs=5), 80e9)
    assert made.maximum == 80e9


@pytest.mark.parametrize("unit", [1e-300, 5e-324, 1e-9, 1.0, 85_899_375_920.0, 1e38, 1e300])
def test_rounded_numbers_are_close_ascending_and_in_range(unit: float) -> None:
    """Six digits, whatever the unit; never beyond a bound that has more."""
    values = np.sort(np.random.default_rng(1).uniform(-1.0, 1.0, 400)) * unit
    made = held_forecast.rounded(values, -unit, unit)
    np.testing.assert_allclose(made, values, rtol=1e-5, atol=1e-300)
    assert (np.diff(made) >= 0.0).all()
    assert np.abs(made).max() <= unit
    assert held_forecast.rounded(np.array([unit]), None, unit).tolist()[0] <= unit
