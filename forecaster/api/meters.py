"""The service's own metrics, and what it forecasts. Its own begin with ``paceline_forecaster_``; labels are bounded."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.metrics_core import Metric

from paceline.exposition import Values, family
from paceline.meters import Meter

from ..memory import Memory

BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
REQUESTS = Meter("paceline_forecaster_requests", "counter", "Requests answered.", ("route", "status"))
REQUEST_S = Meter("paceline_forecaster_request_seconds", "histogram", "How long they took.", ("route",))
READY = Meter("paceline_forecaster_ready", "gauge", "1 while /readyz is 200.")
LAG = Meter("paceline_forecaster_lag_messages", "gauge", "Messages not read yet.", ("topic",))
MISSING = Meter(
    "paceline_forecaster_missing_messages",
    "counter",
    "Numbered messages that never came, or could not be read.",
    ("topic",),
)
RESTARTS = Meter("paceline_forecaster_restarts", "counter", "Starts of a thread that had failed.", ("thread",))
SERIES = Meter("paceline_forecaster_series", "gauge", "Series in memory.")
BYTES = Meter("paceline_forecaster_history_bytes", "gauge", "Bytes of their samples.")
WAITING = Meter("paceline_forecaster_waiting_questions", "gauge", "Questions not answered yet.")
MESSAGES = Meter(
    "paceline_forecaster_bus_messages",
    "gauge",
    "Events read, late values, values without room, windows of clocks that are an hour ahead, unusable events, results "
    "published, results that failed.",
    ("what",),
)
FORECAST = Meter(
    "paceline_forecast_value",
    "gauge",
    "A forecast of a subject's metric so many minutes ahead, at a level of probability; in the metric's own unit.",
    ("subject", "metric", "horizon_minutes", "level"),
)
LEFT_OUT = Meter(
    "paceline_forecaster_left_out_messages", "counter", "Messages that a start had no room for: the oldest.", ("topic",)
)
#: All of them, for the documentation.
METERS = (REQUESTS, REQUEST_S, READY, LAG, MISSING, LEFT_OUT, RESTARTS, SERIES, BYTES, WAITING, MESSAGES, FORECAST)


class Meters:
    """A registry of its own, so that two applications in one process do not meet."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._registry, self._now = CollectorRegistry(), now
        self._requests = Counter(REQUESTS.name, REQUESTS.help, REQUESTS.labels, registry=self._registry)
        self._seconds = Histogram(
            REQUEST_S.name, REQUEST_S.help, REQUEST_S.labels, buckets=BUCKETS_S, registry=self._registry
        )
        self._told: list[Metric] = []
        self._turn = threading.Lock()
        self._registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """The last values, in the form in which ``prometheus_client`` takes them from a collector."""
        yield from self._told

    def observe(self, route: str, status: int, seconds: float) -> None:
        """Count one request on the route's template."""
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def text(self, memory: Memory, waiting: int, ready: bool, restarts: Mapping[str, int]) -> str:
        """All of them in Prometheus' text form.

        With what ``memory`` holds, how many questions wait now, and how often each thread was started again.
        """
        counts = memory.counts
        messages = {
            "events": counts.events,
            "late": counts.late,
            "refused": counts.refused,
            "ahead": counts.ahead,
            "undecodable": counts.undecodable,
            "published": counts.published,
            "failed": counts.failed,
        }
        told: tuple[tuple[Meter, Values], ...] = (
            (READY, {(): int(ready)}),
            (LAG, _one_label(counts.lag)),
            (MISSING, _one_label(counts.missing)),
            (LEFT_OUT, _one_label(dict(counts.left_out))),
            (RESTARTS, _one_label(restarts)),
            (SERIES, {(): len(memory)}),
            (BYTES, {(): memory.bytes}),
            (WAITING, {(): waiting}),
            (MESSAGES, _one_label(messages)),
            (FORECAST, memory.published.values(self._now())),
        )
        with self._turn:  # Of two who ask at a time each gets a whole answer.
            self._told = [family(meter, values) for meter, values in told]
            return generate_latest(self._registry).decode()


def _one_label(values: Mapping[str, int]) -> dict[tuple[str, ...], float]:
    return {(label,): value for label, value in values.items()}
