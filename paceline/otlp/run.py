"""A door: the loop of ``paceline otlp``, from the bus to a receiver.

Rule of this file: it begins with what is published from now on, and goes on until it is told to stop. Each finding
revision is sent once: one that comes twice is passed over.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from paceline import wire
from paceline.events import Finding, StepTimings
from paceline.kafka.follow import NOW, Follower
from paceline.kafka.follow_words import reports
from paceline.kafka.settings import BrokerSettings
from paceline.sequences import Sequences
from paceline.topics import FINDING, OP

from .records import log_event, spans
from .sender import Sender
from .step_choice import StepChoice

TURN_S = 0.25
#: Revisions that are remembered so that none is sent twice.
MOST_REVISIONS = 10_000


class Loop:
    """Follows the bus; ``logs`` and ``traces`` send, the latter None where spans are not wanted."""

    def __init__(
        self,
        settings: BrokerSettings,
        logs: Sender[Any],
        traces: Sender[Any] | None,
        say: Callable[[str], None],
        stop: threading.Event,
    ) -> None:
        self._settings, self._logs, self._traces, self._say, self._stop = settings, logs, traces, say, stop
        self._choice, self._sequences = StepChoice(), Sequences()
        self._sent: OrderedDict[tuple[str, int], None] = OrderedDict()
        self.unreadable = 0

    def run(self) -> None:
        """Go on until ``stop`` is set."""
        topics = {FINDING: NOW} | ({OP: NOW} if self._traces is not None else {})
        with Follower(
            self._settings,
            topics,
            "paceline-otlp",
            resume=True,
            on_cluster=self._start_anew,
            stop=self._stop,
            **reports(self._say),
        ) as follower:
            while not self._stop.is_set():
                for topic, records in follower.poll(TURN_S):
                    for record in records:
                        self._hear(topic, record.value)

    def _start_anew(self, cause: str) -> None:
        self._say(cause)
        self._choice, self._sequences = StepChoice(), Sequences()
        self._sent.clear()  # A job of the same name has findings of the same ids.

    def _hear(self, topic: Any, value: bytes | None) -> None:
        if value is None:
            return
        try:
            event = wire.decode(topic, value)
        except wire.WireError:
            self.unreadable += 1
            return
        if isinstance(event, Finding):
            self._choice.hear(event)
            self._tell(event)
        elif isinstance(event, StepTimings) and self._traces is not None:
            new = self._sequences.admit(event.producer, event.sequence)
            for step in self._choice.update(event) if new else ():
                self._traces.add(spans(step))

    def _tell(self, finding: Finding) -> None:
        key = finding.id, finding.revision
        if key in self._sent:
            return
        self._sent[key] = None
        if len(self._sent) > MOST_REVISIONS:
            self._sent.popitem(last=False)
        self._logs.add([log_event(finding, time.time())])
