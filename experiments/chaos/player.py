"""Puts messages on the bus at their moments, as a collector does: through memory, a spool on disk, and the brokers.

Rule of this file: no judgement; what could not be kept is in the publisher's own account.
"""

import threading
import time
from pathlib import Path

from paceline.delivery.publisher import Publisher
from paceline.delivery.stats import Stats
from paceline.kafka.settings import BrokerSettings

from .workload import Message


class Player:
    """Plays ``messages`` from a thread of its own, ``speed`` times as fast; 0: as fast as they can be handed over."""

    def __init__(
        self, settings: BrokerSettings, messages: list[Message], speed: float, spool: Path, **bounds: int
    ) -> None:
        self.warnings: list[str] = []
        self._messages, self._speed = messages, speed
        self._publisher = Publisher(
            settings,
            client_id="chaos-player",
            spool_dir=spool,
            on_warning=self.warnings.append,
            write_ahead=False,
            **bounds,
        )
        self._thread = threading.Thread(target=self._play, name="chaos player", daemon=True)
        self._thread.start()

    def _play(self) -> None:
        began_s = time.monotonic()
        for message in self._messages:
            if self._speed:
                time.sleep(max(began_s + message.at_s / self._speed - time.monotonic(), 0.0))
            self._publisher.publish_encoded(
                message.topic, message.key, message.value, timestamp_ms=message.timestamp_ms
            )

    @property
    def playing(self) -> bool:
        """Whether there is more to come."""
        return self._thread.is_alive()

    def stats(self) -> Stats:
        """The publisher's account."""
        return self._publisher.stats()

    def finish(self, timeout_s: float) -> Stats:
        """Wait until all was handed over and delivered, for so long at most; the final account.

        A publisher that is closed in an outage puts what is left on disk at once, though the brokers come back.
        """
        self._thread.join()
        end = time.monotonic() + timeout_s
        while (left := self.stats()).pending + left.spooled and time.monotonic() < end:
            time.sleep(0.2)
        return self._publisher.close()
