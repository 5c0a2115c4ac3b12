"""The service's own metrics. Names begin with ``paceline_forecaster_``; labels are bounded."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from ..memory import Memory

BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)


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

    def text(self, memory: Memory, waiting: int) -> str:
        """All of them in Prometheus' text form, with what ``memory`` holds and how many questions wait now."""
        counts = memory.counts
        self._held.set(len(memory))
        self._bytes.set(memory.bytes)
        self._messages.labels("events").set(counts.events)
        self._messages.labels("late").set(counts.late)
        self._messages.labels("undecodable").set(counts.undecodable)
        self._messages.labels("published").set(counts.published)
        self._messages.labels("failed").set(counts.failed)
        self._waiting.set(waiting)
        return generate_latest(self._registry).decode()
