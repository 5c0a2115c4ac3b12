"""A door: the loop of ``paceline alerts``, from the bus to the destinations.

Rule of this file: nobody is told anything before all that the topics hold has been read, so that what came and went
while the command was away is told to nobody. What was told is written down soon after; a crash in between tells it
twice.
"""

import threading
import time
from collections.abc import Callable
from typing import Any

from paceline.kafka.follow import BEGINNING, Follower, Start
from paceline.kafka.follow_words import reports
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.start_budget import StartBudget
from paceline.topics import FINDING, JOB, SUGGESTION

from .alerting import Alerting

#: Findings that are read at the start: those of a day. What was told of older ones is in the state file.
LOOK_BACK_S = 24 * 3600.0
STARTS = {FINDING: Start(seconds=LOOK_BACK_S), SUGGESTION: BEGINNING, JOB: BEGINNING}
#: Between two looks at what is due; between two writings of the state; for one round of ``once``.
TURN_S, WRITE_S, ONCE_S = 0.25, 2.0, 120.0


class Loop:
    """Follows the topics of ``settings`` and lets ``alerting`` tell; ``write`` keeps its state.

    ``watch`` is called again and again with the reason why nothing is sent now, None where all are, and the time.
    """

    def __init__(
        self,
        settings: BrokerSettings,
        alerting: Alerting,
        write: Callable[[dict[str, Any]], None],
        say: Callable[[str], None],
        stop: threading.Event,
        watch: Callable[[str | None, float], None] = lambda waits, now_s: None,
    ) -> None:
        self._watch = watch
        self._settings, self._alerting, self._write, self._say, self._stop = settings, alerting, write, say, stop
        self._unwritten, self._written_s = False, 0.0

    def run(self, once: bool) -> bool:
        """Go on until ``stop`` is set; with ``once`` until all have been reported, and whether they have."""
        told = False
        with Follower(
            self._settings,
            STARTS,
            "paceline-alerts",
            resume=True,
            on_cluster=self._start_anew,
            budget=StartBudget(),
            stop=self._stop,
            **reports(self._say),
        ) as follower:
            if once:
                follower.connect()
            end, read = time.monotonic() + ONCE_S, False
            while not self._stop.is_set() and not told:
                read = self._hear(follower, live=read) or read
                if read:
                    self._tell(gather=not once)
                    told = once and not self._alerting.waits(time.time())
                self._watch(_waits(follower, read), time.time())
                if once and time.monotonic() > end:
                    break
        self._keep(now=True)
        return told or not once

    def _start_anew(self, cause: str) -> None:
        """Alerts stay until they are over; that their jobs have ended, or not, was said in another cluster."""
        self._say(cause)
        self._alerting.book.forget_jobs()

    def _hear(self, follower: Follower, live: bool) -> bool:
        """Take what has come; whether all has been read that was there at the start.

        Live, the time of hearing is our own clock's; of what was there before it is the broker's, never after now.
        """
        for topic, records in follower.poll(TURN_S):
            for record in records:
                now_s = time.time()
                self._alerting.hear(topic, record.value, now_s if live else min(now_s, record.timestamp / 1000))
        return follower.caught_up or follower.nothing_there

    def _tell(self, gather: bool) -> None:
        self._unwritten |= self._alerting.turn(time.time(), time.monotonic(), gather)
        self._keep(now=False)

    def _keep(self, now: bool) -> None:
        if self._unwritten and (now or time.monotonic() - self._written_s >= WRITE_S):
            self._write(self._alerting.snapshot())
            self._unwritten, self._written_s = False, time.monotonic()


def _waits(follower: Follower, read: bool) -> str | None:
    if follower.state == "refused":
        return follower.cause
    if follower.state != "connected":
        return "no answer from Kafka"
    return None if read else "reading what there is"
