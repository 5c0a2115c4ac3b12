"""The service's own metrics; they begin with ``paceline_control_``, and their labels are bounded."""

from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.metrics_core import Metric

from paceline.events import SessionState
from paceline.exposition import family
from paceline.meters import Meter

BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
REQUESTS = Meter("paceline_control_requests", "counter", "Requests answered.", ("route", "status"))
REQUEST_S = Meter("paceline_control_request_seconds", "histogram", "How long they took.", ("route",))
READY = Meter("paceline_control_ready", "gauge", "1 while /readyz is 200.")
RESTARTS = Meter("paceline_control_restarts", "counter", "Starts of the bus reader after it had failed.")
SESSIONS = Meter("paceline_control_sessions", "gauge", "Sessions by state.", ("state",))
MISSING = Meter(
    "paceline_control_session_missing_messages", "gauge", "Numbered messages that sessions on this disk lack."
)
BYTES = Meter("paceline_control_session_bytes", "gauge", "What sessions take on this disk.")
LEFT_OUT = Meter(
    "paceline_control_left_out_messages", "counter", "Messages that a start had no room for: the oldest.", ("topic",)
)
#: All of them, for the documentation.
METERS = (REQUESTS, REQUEST_S, READY, RESTARTS, SESSIONS, MISSING, BYTES, LEFT_OUT)
#: The states that are told apart.
STATES = ("starting", "recording", "stopping", "stopped", "interrupted", "failed", "damaged")


class Meters:
    """A registry of its own, so that two applications in one process do not meet.

    ``sessions`` are all that are known, ``here`` those on this disk.
    """

    def __init__(
        self,
        ready: Callable[[], bool],
        restarts: Callable[[], int],
        sessions: Callable[[], list[SessionState]],
        here: Callable[[], list[SessionState]],
        left_out: Callable[[], Mapping[str, int]] = dict,
    ) -> None:
        self._ready, self._restarts, self._left_out = ready, restarts, left_out
        self._sessions, self._here = sessions, here
        self._registry = CollectorRegistry()
        self._requests = Counter(REQUESTS.name, REQUESTS.help, REQUESTS.labels, registry=self._registry)
        self._seconds = Histogram(
            REQUEST_S.name, REQUEST_S.help, REQUEST_S.labels, buckets=BUCKETS_S, registry=self._registry
        )
        self._registry.register(self)

    def describe(self) -> list[Metric]:
        """Nothing is known of names until somebody asks."""
        return []

    def collect(self) -> Iterator[Metric]:
        """What is so now, as ``prometheus_client`` wants a collector to tell it."""
        states, here = self._sessions(), self._here()
        yield family(READY, {(): int(self._ready())})
        yield family(RESTARTS, {(): self._restarts()})
        yield family(SESSIONS, {(state,): sum(one.state == state for one in states) for state in STATES})
        yield family(MISSING, {(): sum(one.missing for one in here)})
        yield family(BYTES, {(): sum(one.bytes for one in here)})
        yield family(LEFT_OUT, {(topic,): messages for topic, messages in self._left_out().items()})

    def observe(self, route: str, status: int, seconds: float) -> None:
        """Count one request on the route's template."""
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def text(self) -> str:
        """All of them in Prometheus' text form."""
        return generate_latest(self._registry).decode()
