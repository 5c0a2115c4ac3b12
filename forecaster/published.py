"""The forecasts that were published last, for ``/metrics``: a few moments and levels of each, of a bounded number.

Rule of this file: it keeps and tells, behind a lock of its own; time is an argument. A series that has not grown for
``SERIES_SILENT_S`` seconds, or for two of its intervals, is told no more.
"""

import threading
from collections.abc import Iterable

from paceline.events import Forecast
from paceline.events.silence import SERIES_SILENT_S

from .rank import rank

#: Forecasts that are told of at most, the whole before its parts.
MOST_FORECASTS = 200
#: Of each forecast: the quarter and the end of its horizon, and the middle with the 80 % interval around it.
LEVELS = (0.1, 0.5, 0.9)

#: Subject, metric, minutes ahead, level.
Labels = tuple[str, ...]


class PublishedForecasts:
    """By the key of the series, ``cluster/what/…/field``."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: Series -> when it grew last, for how long it is told from then on, and what.
        self._held: dict[str, tuple[float, float, dict[Labels, float]]] = {}

    def hear(self, forecast: Forecast, now_s: float) -> None:
        """``forecast`` was published."""
        with self._lock:
            self._held.pop(forecast.series, None)
            lasts_s = max(SERIES_SILENT_S, 2.0 * forecast.interval_s)
            self._held[forecast.series] = (now_s, lasts_s, _values(forecast))
            if len(self._held) > MOST_FORECASTS:
                last = max(self._held, key=rank)  # Of equals the one heard first goes.
                del self._held[last]

    def grow(self, keys: Iterable[str], now_s: float) -> None:
        """These series have values newer than their forecasts, which are about to be made again."""
        with self._lock:
            for key in keys:
                if key in self._held:
                    self._held[key] = (now_s, *self._held[key][1:])

    def values(self, now_s: float) -> dict[Labels, float]:
        """What is forecast, by subject, metric, minutes ahead and level."""
        with self._lock:
            self._held = {key: one for key, one in self._held.items() if now_s < one[0] + one[1]}
            return {labels: value for *_, values in self._held.values() for labels, value in values.items()}


def _values(forecast: Forecast) -> dict[Labels, float]:
    """A few of its values.

    >>> values = {"time_s": 0.0, "model": "naive", "levels": [0.1, 0.5, 0.9], "values": [[1.0, 2.0, 3.0]] * 60}
    >>> from paceline.events import Backtest
    >>> backtest = Backtest(moments=0, steps=0, loss=None, naive_loss=None)
    >>> one = Forecast(cluster="c", series="c/job/a/b/steps_per_s", unit="1/s", interval_s=60.0, history=9,
    ...                backtest=backtest, **values)
    >>> list(_values(one))[0], len(_values(one))
    (('job/a/b', 'steps_per_s', '15', '0.1'), 6)
    """
    subject, _, metric = forecast.series.rpartition("/")
    subject = subject.removeprefix(f"{forecast.cluster}/")
    told: dict[Labels, float] = {}
    steps = len(forecast.values)
    for step in sorted({max(1, steps // 4), steps}) if steps else ():
        minutes = f"{step * forecast.interval_s / 60.0:g}"
        for level, value in zip(forecast.levels, forecast.values[step - 1], strict=False):
            if level in LEVELS:
                told[subject, metric, minutes, f"{level:g}"] = value
    return told
