"""How telling goes, for ``/metrics`` of ``paceline alerts``.

Rule of this file: it counts on the thread that tells, once a second, and is read on others; what is read was whole at
one moment. Importing it needs ``prometheus-client``.
"""

from collections import defaultdict
from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from paceline.exposition import Values, family
from paceline.meters import Meter

from .alerting import Alerting

#: Seconds between two counts: thousands of alerts may be held.
EVERY_S = 1.0
READY = Meter("paceline_alerts_ready", "gauge", "1 while /readyz is 200.")
HELD = Meter("paceline_alerts_firing", "gauge", "Alerts that hold now, whomever they are for.", ("severity",))
SENT = Meter(
    "paceline_alerts_sent",
    "counter",
    "Messages by outcome: arrived, failed (retried), refused (dropped).",
    ("destination", "outcome"),
)
WAITING = Meter("paceline_alerts_waiting", "gauge", "Alerts that wait to be sent or retried.", ("destination",))
UNUSABLE = Meter("paceline_alerts_unusable_messages", "counter", "Messages read that could not be used.")
SHED = Meter("paceline_alerts_shed", "counter", "Alerts that were forgotten because there were too many.")
#: All of them, for the documentation.
METERS = (READY, HELD, SENT, WAITING, UNUSABLE, SHED)


class AlertMeters:
    """Counts of ``alerting``, by kind of destination."""

    def __init__(self, alerting: Alerting) -> None:
        self._alerting = alerting
        self._counted_s = float("-inf")
        self._waits: str | None = "reading what there is"
        self._values: dict[Meter, Values] = {}

    def update(self, waits: str | None, now_s: float) -> None:
        """Count, where that is due; ``waits`` is why nobody is told now, None where all are."""
        self._waits = waits
        if abs(now_s - self._counted_s) < EVERY_S:
            return
        self._counted_s = now_s
        sent: dict[tuple[str, ...], float] = defaultdict(float)
        waiting: dict[tuple[str, ...], float] = defaultdict(float)
        firing: dict[tuple[str, ...], float] = defaultdict(float)
        book = self._alerting.book
        for channel in self._alerting.channels:
            kind, destination = channel.target.kind, channel.destination
            sent[kind, "arrived"] += destination.arrived
            sent[kind, "failed"] += destination.failures
            sent[kind, "refused"] += destination.refusals
            waiting[kind,] += destination.waiting(book, now_s)
        for alert in book.alerts.values():
            if book.standing(alert, now_s).fires:
                firing[alert.severity,] += 1
        self._values = {
            HELD: firing,
            SENT: sent,
            WAITING: waiting,
            UNUSABLE: {(): self._alerting.unusable},
            SHED: {(): book.shed},
        }

    def waits(self) -> str | None:
        """Why nobody is told now; None where all are."""
        return self._waits

    def families(self) -> Iterator[Metric]:
        """Every metric, with its values as counted last."""
        values = self._values
        yield family(READY, {(): int(self._waits is None)})
        for meter in METERS[1:]:
            yield family(meter, values.get(meter, {}))
