"""The forecasts that ``/metrics`` tells of: few, bounded, and gone when their series is silent."""

from collections.abc import Callable

import msgspec
import pytest

from forecaster.api.meters import METERS, Meters
from forecaster.memory import Memory
from forecaster.published import MOST_FORECASTS, PublishedForecasts
from paceline.events import Backtest, Forecast
from paceline.events.silence import SERIES_SILENT_S
from tests.derived_events import HOSTILE


def forecast(series: str, steps: int = 60) -> Forecast:
    """The forecast of a series: its levels are its values, a step ahead 1 more each."""
    levels = [0.025, 0.1, 0.5, 0.9, 0.975]
    return Forecast(
        cluster="c",
        series=series,
        unit="ratio",
        time_s=0.0,
        interval_s=60.0,
        model="naive",
        levels=levels,
        values=[[step + level for level in levels] for step in range(steps)],
        history=12,
        backtest=Backtest(moments=0, steps=0, loss=None, naive_loss=None),
    )


def test_a_few_values_of_each() -> None:
    """A quarter and the end of the horizon, with the 80 % interval; names without the cluster's."""
    published = PublishedForecasts()
    published.hear(forecast("c/node/n/a/cpu_ratio"), 0.0)
    values = published.values(0.0)
    assert len(values) == 6
    assert values["node/n/a", "cpu_ratio", "15", "0.1"] == 14.1
    assert values["node/n/a", "cpu_ratio", "60", "0.9"] == 59.9


def test_the_whole_stays_where_there_are_too_many() -> None:
    """Parts give way, and among these the one that was forecast first."""
    published = PublishedForecasts()
    published.hear(forecast("c/cluster/power_w"), 0.0)
    for number in range(MOST_FORECASTS + 10):
        published.hear(forecast(f"c/device/n/GPU-{number}/power_w"), 0.0)
    subjects = [subject for subject, *_ in published.values(0.0)]
    assert len(set(subjects)) == MOST_FORECASTS
    assert {"cluster", f"device/n/GPU-{MOST_FORECASTS + 9}"} < set(subjects)
    assert "device/n/GPU-0" not in subjects


def test_a_silent_series_is_told_no_more() -> None:
    """One that grows stays, also while its turn to be forecast has not come."""
    published = PublishedForecasts()
    for name in ("silent", "grows"):
        published.hear(forecast(f"c/job/{name}/step_s"), 0.0)
    published.grow(["c/job/grows/step_s", "c/job/never heard of/step_s"], 200.0)
    assert {labels[0] for labels in published.values(SERIES_SILENT_S)} == {"job/grows"}
    assert not published.values(200.0 + SERIES_SILENT_S)


def test_a_series_by_the_quarter_hour_is_told_until_the_next_one() -> None:
    """It grows once in fifteen minutes; one that grows each minute is silent by then."""
    published = PublishedForecasts()
    published.hear(msgspec.structs.replace(forecast("c/cluster/free_gpus_15min"), interval_s=900.0), 0.0)
    published.hear(forecast("c/cluster/free_gpus"), 0.0)
    assert {labels[1] for labels in published.values(1000.0)} == {"free_gpus_15min"}
    assert not published.values(1800.0)


@pytest.mark.slow
def test_what_the_service_tells_is_clean(promtool: Callable[[str], None]) -> None:
    """Also of names that somebody made up, and short forecasts; every metric is declared and told."""
    memory, meters = Memory(), Meters(lambda: 0.0)
    for number in range(3):
        memory.published.hear(forecast(f"c/job/{HOSTILE}{'x' * 500}{number}/step_s", steps=number), 0.0)
    memory.counts.lag["window"] = 5
    meters.observe("/v1/series", 200, 0.01)
    told = meters.text(memory, 0, True, {"publisher": 1})
    promtool(told)
    assert told.count("\npaceline_forecast_value{") == 9
    declared = {line.split()[2] for line in told.splitlines() if line.startswith("# TYPE")}
    assert declared - {"paceline_forecaster_requests_created", "paceline_forecaster_request_seconds_created"} == {
        meter.sample for meter in METERS
    }
