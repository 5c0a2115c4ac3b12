"""The publisher: one thread that forecasts what has grown and publishes it, at no more than its share of a processor.

Rule of this file: a door; which series come first is decided by ``order``, which is pure.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Iterable

from paceline import topics, wire
from paceline.kafka.clients import Producer, producer
from paceline.kafka.errors import BusError, explained
from paceline.kafka.settings import BrokerSettings
from paceline.settings import SettingError

from . import held_forecast
from .forecast import forecast
from .memory import Memory
from .models.model import UnsuitedError
from .models.registry import Registry

logger = logging.getLogger("paceline.forecaster")

EVERY_S, SHARE, RETRY_S = 15.0, 0.25, 2.0
#: What is forecast first: the whole before its parts.
FIRST = ("cluster", "job", "node", "device")


def order(series: Iterable[tuple[str, float]], done: dict[str, float]) -> list[str]:
    """The keys of series with samples newer than those forecast last, the whole before its parts."""
    grown = [key for key, time_s in series if time_s > done.get(key, float("-inf"))]

    def place(key: str) -> int:
        what = key.split("/")[1] if key.count("/") > 1 else ""
        return FIRST.index(what) if what in FIRST else len(FIRST)

    return sorted(grown, key=lambda key: (place(key), done.get(key, float("-inf")), key))


class ForecastPublisher:
    """Publishes to ``forecast`` and ``profile``."""

    def __init__(self, settings: BrokerSettings, memory: Memory, models: Registry) -> None:
        self._settings, self._memory, self._models = settings, memory, models
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="forecast-publisher", daemon=True)
        self._done: dict[str, float] = {}
        self._profiled: dict[str, float] = {}

    def start(self) -> None:
        """Begin to publish."""
        self._thread.start()

    def stop(self) -> None:
        """Stop and wait for the thread."""
        self._stop.set()
        self._thread.join(15)

    def _run(self) -> None:
        said = ""
        while not self._stop.is_set():
            try:
                with (
                    explained(self._settings),
                    contextlib.closing(producer(self._settings, "paceline-forecaster")) as client,
                ):
                    while not self._stop.is_set():
                        self._round(client)
                        self._stop.wait(EVERY_S)
            except (BusError, SettingError) as error:
                cause = str(error)
                if cause != said:
                    logger.warning("not publishing: %s", cause)
                said = cause
                self._stop.wait(RETRY_S)

    def _round(self, client: Producer) -> None:
        series = self._memory.keys()
        self._done = {key: self._done[key] for key, _ in series if key in self._done}
        for profile in self._memory.running():
            job = f"{profile.cluster}/{profile.job}"
            if self._profiled.get(job) != profile.time_s:
                self._profiled[job] = profile.time_s
                client.send(topics.PROFILE.name, wire.encode(profile), key=profile.job.encode())
                self._memory.counts.published += 1
        for key in order(series, self._done):
            if self._stop.is_set():
                return
            began_s = time.monotonic()
            held = self._memory.find(key)
            if held is None:
                continue
            self._done[key] = held.time_s
            if len(held.values) < held_forecast.FEWEST:
                continue
            question = held_forecast.question(held)
            try:
                event = held_forecast.event(held, question, forecast(question, self._models))
            except UnsuitedError:
                continue
            client.send(topics.FORECAST.name, wire.encode(event), key=key.encode())
            self._memory.counts.published += 1
            # The request path comes first: this thread rests three times as long as it worked.
            self._stop.wait((time.monotonic() - began_s) * (1.0 - SHARE) / SHARE)
        client.flush(timeout=10)
