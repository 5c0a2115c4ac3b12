"""The service's own metrics. Names begin with ``paceline_forecaster_``; labels are bounded."""

from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from ..memory import Memory, ServiceCounts

BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)


class _Bus:
    """How the service stands with the bus, as told last."""

    def __init__(self) -> None:
        self.counts, self.ready, self.restarts = ServiceCounts(), False, dict[str, int]()

    def collect(self) -> Iterator[Metric]:
        """Every metric, as ``prometheus_client`` wants a collector to tell them."""
        yield GaugeMetricFamily("paceline_forecaster_ready", "1 while /readyz is 200.", int(self.ready))
        lag = GaugeMetricFamily("paceline_forecaster_lag_messages", "Messages not read yet.", labels=["topic"])
        missing = CounterMetricFamily(
            "paceline_forecaster_missing_messages",
            "Numbered messages that never came, or could not be read.",
            labels=["topic"],
        )
        restarts = CounterMetricFamily(
            "paceline_forecaster_restarts", "Starts of a thread that had failed.", labels=["thread"]
        )
        for family, values in ((lag, self.counts.lag), (missing, self.counts.missing), (restarts, self.restarts)):
            for label, value in sorted(values.items()):
                family.add_metric([label], value)
            yield family


class Meters:
    """A registry of its own, so that two applications in one process do not meet."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        labels = ("route", "status")
        self._requests = Counter("paceline_forecaster_requests", "Requests answered.", labels, registry=self._registry)
        self._seconds = Histogram(
            "paceline_forecaster_request_seconds",
            "How long they took.",
            ("route",),
            buckets=BUCKETS_S,
            registry=self._registry,
        )

        self._bus = _Bus()
        self._registry.register(self._bus)
        self._held = Gauge("paceline_forecaster_series", "Series in memory.", registry=self._registry)
        self._bytes = Gauge("paceline_forecaster_history_bytes", "Bytes of their samples.", registry=self._registry)
        self._waiting = Gauge(
            "paceline_forecaster_waiting_questions", "Questions not answered yet.", registry=self._registry
        )
        self._messages = Gauge(
            "paceline_forecaster_bus_messages",
            "Events read, late values, unusable events, results published, results that failed.",
            ("what",),
            registry=self._registry,
        )

    def observe(self, route: str, status: int, seconds: float) -> None:
        """Count one request on the route's template."""
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def text(self, memory: Memory, waiting: int, ready: bool, restarts: Mapping[str, int]) -> str:
        """All of them in Prometheus' text form.

        With what ``memory`` holds, how many questions wait now, and how often each thread was started again.
        """
        counts = memory.counts
        self._bus.counts, self._bus.ready, self._bus.restarts = counts, ready, dict(restarts)
        self._held.set(len(memory))
        self._bytes.set(memory.bytes)
        self._messages.labels("events").set(counts.events)
        self._messages.labels("late").set(counts.late)
        self._messages.labels("undecodable").set(counts.undecodable)
        self._messages.labels("published").set(counts.published)
        self._messages.labels("failed").set(counts.failed)
        self._waiting.set(waiting)
        return generate_latest(self._registry).decode()
