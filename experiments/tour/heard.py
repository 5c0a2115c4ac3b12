"""What the topics say during the tour, and when the brokers took it.

Rule of this file: it listens; what should be heard is for others.
"""

import time
from collections.abc import Callable
from typing import TypeVar

from paceline import wire
from paceline.events import Finding, Forecast, Suggestion
from paceline.kafka.backlog import group_lags
from paceline.kafka.follow import BEGINNING, Follower
from paceline.kafka.settings import BrokerSettings
from paceline.topics import FINDING, FORECAST, STREAMS_GROUP, SUGGESTION

from ..processes import RunError

Answer = TypeVar("Answer")


class Heard:
    """Findings and suggestions by id, newest revision; of each forecasted series the time of its newest value."""

    def __init__(self, settings: BrokerSettings) -> None:
        self.findings: dict[str, Finding] = {}
        self.suggestions: dict[str, Suggestion] = {}
        self.forecasts: dict[str, float] = {}
        #: When the brokers took the first confirmed revision of a finding, Unix seconds.
        self.confirmed_s: dict[str, float] = {}
        self._settings = settings
        self._follower = Follower(settings, dict.fromkeys((FINDING, SUGGESTION, FORECAST), BEGINNING), "paceline-tour")

    def listen(self) -> None:
        """Take in what has come, waiting for it a moment."""
        for topic, records in self._follower.poll(0.2):
            for record in records:
                event = wire.decode(topic, record.value or b"")
                if isinstance(event, Finding):
                    self.findings[event.id] = event
                    if event.state == "confirmed":
                        self.confirmed_s.setdefault(event.id, record.timestamp / 1000)
                elif isinstance(event, Suggestion):
                    self.suggestions[event.id] = event
                elif isinstance(event, Forecast):
                    self.forecasts[event.series] = event.time_s

    def until(self, asked: Callable[[], Answer | None], within_s: float, what: str) -> Answer:
        """The first answer of ``asked`` that says something.

        Raises:
            RunError: none did within ``within_s`` seconds.
        """
        end = time.monotonic() + within_s
        while not (answer := asked()):
            if time.monotonic() > end:
                raise RunError(f"{what}: not within {within_s:g} s")
            self.listen()
        return answer

    def waiting(self) -> int:
        """Messages that the workers have not read yet."""
        return sum(sum(group.lag.values()) for group in group_lags(self._settings, STREAMS_GROUP))

    def confirmed(self, job: str, kind: str = "") -> Finding | None:
        """A finding of ``job`` that was confirmed, as it was told last; of one kind if that is named."""
        told = (one for one in self.findings.values() if one.job == job and one.id in self.confirmed_s)
        return next((one for one in told if kind in ("", one.kind)), None)

    def suggested(self, job: str, state: str = "") -> Suggestion | None:
        """What was suggested for ``job``, in that state if one is named."""
        told = (one for one in self.suggestions.values() if one.job == job)
        return next((one for one in told if state in ("", one.state)), None)

    def close(self) -> None:
        """Listen no more."""
        self._follower.close()
