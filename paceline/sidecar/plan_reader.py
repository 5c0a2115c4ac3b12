"""The reader of plans: a thread follows their topic for jobs whose balancers wait for the stream processors.

Rule of this file: a door, beside that of commands: a plan has a number a rank, which no command holds. It reads only
where ranks have asked for it, nothing waits for it, and without brokers it is silent: the last plan stays. Whether a
plan is forwarded is ``balance``'s affair.
"""

import threading
from collections import deque
from collections.abc import Callable, Collection

from paceline import wire
from paceline.events import BalancePlan
from paceline.kafka.follow import Follower, Start
from paceline.kafka.settings import BrokerSettings
from paceline.supervised import SupervisedThread
from paceline.topics import PLAN

#: A sidecar that takes over looks back so far; ranks take what is newer than their own plan.
LOOK_BACK_S = 3600.0
#: Plans on their way to the owner; of more, the newest.
MOST_WAITING = 256
#: A flood costs this pause every few hundred messages, and is passed over where so many of them are behind.
PAUSE_S, MOST_BEHIND = 0.1, 50_000


class PlanReader:
    """Reads plans on the brokers of ``settings``, from the first ``turn`` on that has a job."""

    def __init__(
        self, settings: BrokerSettings, client_id: str, on_lost: Callable[[str], None] = lambda cause: None
    ) -> None:
        self._settings, self._client_id, self._on_lost = settings, client_id, on_lost
        self._jobs: Collection[str] = frozenset()
        self._waiting: deque[BalancePlan] = deque(maxlen=MOST_WAITING)
        #: Messages under the key of one of our jobs that are no plans.
        self.unreadable = 0
        self._stop = threading.Event()
        self._thread = SupervisedThread("the reader of plans", self._follow, self._stop)

    def turn(self, jobs: Collection[str]) -> list[BalancePlan]:
        """What has come for ``jobs``, oldest first; never waits."""
        self._jobs = jobs
        if jobs:
            self._thread.start()
        return [self._waiting.popleft() for _ in range(len(self._waiting))]

    def close(self, timeout_s: float = 1.0) -> None:
        """Read no more; a thread that hangs is left behind after ``timeout_s``."""
        self._thread.stop(timeout_s)

    def _follow(self) -> None:
        with Follower(
            self._settings,
            {PLAN: Start(seconds=LOOK_BACK_S)},
            self._client_id,
            resume=True,
            seldom=True,
            most_behind={PLAN: MOST_BEHIND},
            on_lost=self._on_lost,
            on_cluster=lambda cause: self._waiting.clear(),
            stop=self._stop,
        ) as follower:
            while not self._stop.is_set():
                polled = follower.poll()
                self._thread.well()
                for record in (record for _, records in polled for record in records):
                    self._hand_on(record.key or b"", record.value)
                if polled:
                    self._stop.wait(PAUSE_S)

    def _hand_on(self, key: bytes, value: bytes | None) -> None:
        """Keep a plan of one of our jobs for the owner; what has no value was deleted."""
        if value is None or key.decode("utf-8", "replace") not in self._jobs:
            return
        try:
            self._waiting.append(wire.decode(PLAN, value))
        except wire.WireError:
            self.unreadable += 1
