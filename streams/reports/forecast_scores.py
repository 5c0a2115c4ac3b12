"""Forecasts against what came: how far off the median was, and whether the interval of 80 % held what it promised.

Rule of this file: pure and bounded. What came is what later forecasts of the same series say that they were made from
(``recent_values``), so nothing is compared across clocks or units. A value counts once a forecast that predicted it.
"""

from collections import OrderedDict
from typing import NamedTuple

from paceline.events import Forecast

from .report import ForecastScore, NextForecast

MOST_SERIES = 500
#: Forecasts of a series that wait for their future; while there are so many, newer ones are not scored.
MOST_WAITING = 48
#: Steps of a horizon that are looked at.
MOST_STEPS = 512
_LOW, _MIDDLE, _HIGH = 0.1, 0.5, 0.9
_NEAR = 1e-6


class _Foretold(NamedTuple):
    median: float
    low: float | None
    high: float | None
    naive: float | None


class _Waiting:
    """One forecast, by the number of the interval that each value is for."""

    def __init__(self, forecast: Forecast) -> None:
        first = round(forecast.time_s / forecast.interval_s)
        self.scored = False
        self.values = {first + 1 + at: row for at, row in enumerate(foretold(forecast))}


class _Series:
    def __init__(self) -> None:
        self.waiting: list[_Waiting] = []
        self.forecasts = self.values = self.covered = self.judged = self.naive_values = 0
        self.error = self.naive_error = 0.0
        self.newest: Forecast | None = None

    def update(self, forecast: Forecast) -> None:
        if self.newest is not None and forecast.time_s <= self.newest.time_s:
            return  # told again, or late: what it foretold has come
        if self.newest is not None and forecast.interval_s != self.newest.interval_s:
            self.waiting.clear()
        self.newest = forecast
        self._resolve(forecast)
        if len(self.waiting) < MOST_WAITING:
            self.waiting.append(_Waiting(forecast))

    def _resolve(self, forecast: Forecast) -> None:
        last = round(forecast.time_s / forecast.interval_s)
        for back, value in enumerate(reversed(forecast.recent_values[-MOST_STEPS:])):
            if value is None:
                continue
            for one in self.waiting:
                expected = one.values.pop(last - back, None)
                if expected is not None:
                    self.forecasts += not one.scored
                    one.scored = True
                    self._score(expected, value)
        for one in self.waiting:
            one.values = {number: row for number, row in one.values.items() if number > last}
        self.waiting = [one for one in self.waiting if one.values]

    def _score(self, expected: _Foretold, value: float) -> None:
        self.values += 1
        error = abs(value - expected.median)
        self.error += error
        if expected.low is not None and expected.high is not None:
            self.judged += 1
            self.covered += expected.low - _NEAR <= value <= expected.high + _NEAR
        if expected.naive is not None:
            self.naive_values += 1
            self.naive_error += abs(value - expected.naive)


class ForecastScores:
    """All series, those heard last kept."""

    def __init__(self) -> None:
        self.series: OrderedDict[tuple[str, str], _Series] = OrderedDict()

    def update(self, forecast: Forecast) -> None:
        """Take in one forecast, in order of time within its series."""
        if not forecast.interval_s > 0:
            return
        key = (forecast.cluster, forecast.series)
        series = self.series.setdefault(key, _Series())
        self.series.move_to_end(key)
        if len(self.series) > MOST_SERIES:
            self.series.popitem(last=False)
        series.update(forecast)

    def scores(self) -> list[ForecastScore]:
        """Every series of which something predicted has come."""
        return [
            ForecastScore(
                name,
                "" if one.newest is None else one.newest.unit,
                one.forecasts,
                one.values,
                one.error / one.values,
                one.naive_error / one.naive_values if one.naive_values == one.values else None,
                one.covered / one.judged if one.judged else None,
            )
            for (_, name), one in sorted(self.series.items())
            if one.values
        ]

    def next(self) -> list[NextForecast]:
        """The newest forecast of every series of a cluster as a whole, by its name."""
        newest = [
            (key, one.newest) for key, one in sorted(self.series.items()) if one.newest and _of_cluster(one.newest)
        ]
        return [_next(name, forecast) for (_, name), forecast in newest if foretold(forecast)]


def foretold(forecast: Forecast) -> list[_Foretold]:
    """A row a step of the horizon; empty where there is no median. Levels without a value in a row count as none."""
    at = {level: place for place, level in enumerate(forecast.levels)}
    if _MIDDLE not in at:
        return []
    rows: list[_Foretold] = []
    for number, values in enumerate(forecast.values[:MOST_STEPS]):
        if len(values) != len(forecast.levels):
            return rows
        low, high = (values[at[level]] if level in at else None for level in (_LOW, _HIGH))
        naive = forecast.naive_values[number] if number < len(forecast.naive_values) else None
        rows.append(_Foretold(values[at[_MIDDLE]], low, high, naive))
    return rows


def _of_cluster(forecast: Forecast) -> bool:
    return not (forecast.job or forecast.node or forecast.device)


def _next(name: str, forecast: Forecast) -> NextForecast:
    rows = foretold(forecast)
    bands = all(row.low is not None and row.high is not None for row in rows)
    return NextForecast(
        name,
        forecast.unit,
        forecast.time_s,
        forecast.interval_s,
        tuple(row.median for row in rows),
        tuple(row.low or 0.0 for row in rows) if bands else (),
        tuple(row.high or 0.0 for row in rows) if bands else (),
    )
