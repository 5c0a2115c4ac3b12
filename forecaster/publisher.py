"""The publisher: one thread that forecasts what has grown and publishes it, by its share of a processor at most.

Rule of this file: a door; which series come first is decided by ``order``, which is pure. A choice made for a series
stands for a while (``standing``), so most forecasts make no back-test.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence

from paceline import topics, wire
from paceline.events import Forecast
from paceline.kafka.clients import Producer, producer
from paceline.kafka.errors import BusError, explained
from paceline.kafka.settings import BrokerSettings
from paceline.settings import SettingError
from paceline.supervised import SupervisedThread
from paceline.topics import Topic

from .job_profiles import JobState
from .memory import Memory
from .models.registry import Registry
from .rank import rank
from .standing_forecasts import StandingForecasts

logger = logging.getLogger("paceline.forecaster")

EVERY_S, RETRY_S = 15.0, 2.0
#: Of a processor while there are requests, and while there are none.
SHARE, ALONE_SHARE = 0.25, 0.75
#: How long a round may take before the most important series are due again.
ROUND_S = 60.0
#: So many series are forecast together, which takes the models less time than one by one.
TOGETHER = 16


def order(series: Iterable[tuple[str, float]], done: dict[str, float]) -> list[str]:
    """The keys of series with samples newer than those forecast last: the whole before its parts, a device's use first.

    >>> order([("c/device/n/g/power_w", 2.0), ("c/device/n/g/sm_active_ratio", 2.0), ("c/cluster/free_gpus", 2.0)], {})
    ['c/cluster/free_gpus', 'c/device/n/g/sm_active_ratio', 'c/device/n/g/power_w']
    """
    grown = [key for key, time_s in series if time_s > done.get(key, float("-inf"))]

    def turn(key: str) -> tuple[int, float, str]:
        return rank(key), done.get(key, float("-inf")), key

    return sorted(grown, key=turn)


class ForecastPublisher:
    """Publishes to ``forecast`` and ``profile``, while ``caught_up``: half of a history has other forecasts."""

    def __init__(
        self,
        settings: BrokerSettings,
        memory: Memory,
        models: Registry,
        caught_up: Callable[[], bool] = lambda: True,
        share: Callable[[], float] = lambda: SHARE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._share, self._clock = share, clock
        self._settings, self._memory, self._caught_up = settings, memory, caught_up
        self._stop = threading.Event()
        self._thread = SupervisedThread("the forecast publisher", self._run, self._stop)
        self._standing = StandingForecasts(memory, models)
        self._done: dict[str, float] = {}
        #: Of the jobs that run, by cluster and name, when something of what was published was seen last.
        self._profiled: dict[tuple[str, str], float | None] = {}
        self._clusters = 0

    @property
    def restarts(self) -> tuple[str, int]:
        """The thread's name, and how often it was started again."""
        return "publisher", self._thread.restarts

    def start(self) -> None:
        """Begin to publish."""
        self._thread.start()

    def stop(self) -> None:
        """Stop and wait for the thread."""
        self._thread.stop(15)

    def waits(self) -> str | None:
        """Why nothing is published, or None."""
        return self._thread.failure or None

    def _run(self) -> None:
        said = ""
        while not self._stop.is_set():
            try:
                with (
                    explained(self._settings),
                    contextlib.closing(producer(self._settings, "paceline-forecaster")) as client,
                ):
                    while not self._stop.is_set():
                        caught_up = self._caught_up()
                        went_through = self._round(client) if caught_up else False
                        self._thread.well()
                        if not caught_up:
                            self._stop.wait(RETRY_S)
                        elif went_through:
                            self._stop.wait(EVERY_S)
            except (BusError, SettingError) as error:
                cause = str(error)
                if cause != said:
                    logger.warning("not publishing: %s", cause)
                said = cause
                self._stop.wait(RETRY_S)

    def _round(self, client: Producer) -> bool:
        """Forecast what has grown; False where there was no time for all of it."""
        if self._clusters != self._memory.clusters:  # It holds nothing of what was published before.
            self._clusters, self._done, self._profiled = self._memory.clusters, {}, {}
        series = self._memory.keys()
        times_s = dict(series)
        self._done = {key: self._done[key] for key in times_s if key in self._done}
        self._profiles(client)
        grown = order(series, self._done)
        self._memory.published.grow(grown, self._clock())
        self._standing.begin(times_s)
        round_s, went_through = self._clock(), True
        for first in range(0, len(grown), TOGETHER):
            began_s = self._clock()
            if self._stop.is_set() or began_s - round_s > ROUND_S:
                went_through = False
                break
            keys = grown[first : first + TOGETHER]
            self._done |= {key: times_s[key] for key in keys}
            for made, encoded in self._forecasts(keys):
                self._done[made.series] = made.time_s
                self._memory.published.hear(made, self._clock())
                self._send(client, topics.FORECAST, made.series, encoded)
            self._rest(began_s)
        client.flush(timeout=10)
        return went_through

    def _profiles(self, client: Producer) -> None:
        """Publish what has changed of jobs that run; of one that has ended since, once that it has."""
        profiled: dict[tuple[str, str], float | None] = {}
        for state in self._memory.running(also=self._profiled):
            job = (state.cluster, state.job)
            if state.over_s is None:
                profiled[job] = state.seen_s
                if job in self._profiled and self._profiled[job] == state.seen_s:
                    continue
            if self._stop.is_set():
                continue
            began_s = self._clock()
            if (profile := self._profile(state)) is not None:
                self._send(client, topics.PROFILE, state.job, profile)
            self._rest(began_s)
        self._profiled = profiled

    def _forecasts(self, keys: Sequence[str]) -> list[tuple[Forecast, bytes]]:
        """The forecasts of series, and as they are sent; what breaks on one of them breaks none of the others."""
        try:
            return [(made, wire.encode(made)) for made in self._standing.forecasts(keys).values()]
        except Exception:
            if len(keys) > 1:
                return [made for key in keys for made in self._forecasts([key])]
            self._failed(keys[0])
            return []

    def _profile(self, state: JobState) -> bytes | None:
        try:
            return wire.encode(state.profile())
        except Exception:
            self._failed(f"{state.cluster}/{state.job}")
            return None

    def _failed(self, subject: str) -> None:
        """While an error is handled: it is counted, and the first one is logged."""
        if not self._memory.counts.failed:
            logger.exception("%s cannot be forecast; the others go on", subject)
        self._memory.counts.failed += 1

    def _send(self, client: Producer, topic: Topic, key: str, event: bytes) -> None:
        client.send(topic.name, event, key=key.encode())
        self._memory.counts.published += 1

    def _rest(self, began_s: float) -> None:
        """The request path comes first: this thread takes no more than its share of a processor."""
        share = self._share()
        self._stop.wait((self._clock() - began_s) * (1.0 - share) / share)
