"""How annotating goes, for ``/metrics`` of ``paceline annotate``.

Rule of this file: it only reads, on the threads that answer; no label holds the name of an object.
"""

import time
from collections.abc import Iterator, Mapping

from prometheus_client.metrics_core import Metric

from paceline.exposition import Values, family
from paceline.meters import Meter

from .budget import WAITS_S
from .parts import Parts

READY = Meter("paceline_annotator_ready", "gauge", "1 while /readyz is 200.")
OBJECTS = Meter("paceline_annotator_objects", "gauge", "Kubernetes objects with annotations of ours.", ("object",))
WAITING = Meter("paceline_annotator_waiting_objects", "gauge", "Objects that are still to be written.")
WRITES = Meter("paceline_annotator_writes", "counter", "Writes to objects by what came of them.", ("result",))
EVENTS = Meter("paceline_annotator_events", "counter", "Kubernetes Events created.")
REQUESTS = Meter("paceline_annotator_requests", "counter", "Requests to the API of Kubernetes.", ("verb",))
PAUSED = Meter("paceline_annotator_paused_seconds", "gauge", "How long nothing is written: the API is busy.")
LISTS = Meter("paceline_annotator_lists", "counter", "Lists that were read whole, at the start and after a gap.")
RESTARTS = Meter("paceline_annotator_restarts", "counter", "A thread failed and was started again.", ("thread",))
LAG = Meter("paceline_annotator_lag_messages", "gauge", "Messages not read yet.", ("topic",))
UNUSABLE = Meter("paceline_annotator_unusable_messages", "counter", "Messages and objects that could not be used.")
SHED = Meter("paceline_annotator_shed", "counter", "What was let go of because there was too much.")
#: All of them, for the documentation.
METERS = (READY, OBJECTS, WAITING, WRITES, EVENTS, REQUESTS, PAUSED, LISTS, RESTARTS, LAG, UNUSABLE, SHED)


class AnnotatorMeters:
    """What is told of one annotator's ``parts``."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def families(self) -> Iterator[Metric]:
        """Every metric, with its values now."""
        parts, watchers = self._parts, self._parts.watchers
        annotating, bus = parts.annotating, parts.bus
        outcomes = annotating.budget.outcomes
        values: Mapping[Meter, Values] = {
            READY: {(): int(parts.waits() is None)},
            OBJECTS: {(kind,): count for kind, count in annotating.plan.objects.items()},
            WAITING: {(): annotating.waiting()},
            WRITES: {(outcome,): outcomes[outcome] for outcome in WAITS_S},
            EVENTS: {(): annotating.events},
            REQUESTS: {(verb,): count for verb, count in dict(parts.api.requests).items()},
            PAUSED: {(): annotating.budget.paused_s(time.time())},
            LISTS: {(): sum(watcher.lists for watcher in watchers)},
            RESTARTS: self._restarts(),
            LAG: {(topic.short,): behind for topic, behind in dict(bus.lag).items()},
            UNUSABLE: {(): bus.unusable + sum(watcher.unusable for watcher in watchers)},
            SHED: {(): parts.book.shed + parts.objects.shed},
        }
        for meter in METERS:
            yield family(meter, values[meter])

    def _restarts(self) -> Values:
        restarts: dict[tuple[str, ...], float] = {("bus",): self._parts.bus.thread.restarts}
        for watcher in self._parts.watchers:
            restarts[watcher.what,] = restarts.get((watcher.what,), 0) + watcher.thread.restarts
        return restarts
