"""A command's messages on their way: sent in order, and given up where the brokers are away for good.

Rule of this file: for commands that a person waits for. Nothing is kept for later (``paceline.delivery`` does that): a
broker that acknowledges nothing for ``PATIENCE_S`` seconds ends the command in one line.
"""

import threading
import time
from types import TracebackType

from kafka import errors

from paceline.kafka import compat
from paceline.kafka.clients import producer
from paceline.kafka.errors import BusError
from paceline.kafka.reach import reach
from paceline.kafka.settings import BrokerSettings

#: How long messages may wait without any acknowledgement; how long the look at the brokers may take then.
PATIENCE_S, LOOK_S = 20.0, 3.0
#: How long the client may hold up one call; between two looks at what is acknowledged; for its goodbye.
_BLOCK_S, _NAP_S, _CLOSE_S = 1.0, 0.02, 5.0


class Outbound:
    """Sends to the brokers of ``settings``; a block that ends without an error ends with all acknowledged."""

    def __init__(self, settings: BrokerSettings, client_id: str) -> None:
        """Connect.

        Raises:
            BusError: no broker can be reached.
        """
        self._settings = settings
        self._client = producer(settings, client_id, max_block_ms=int(_BLOCK_S * 1000))
        compat.remove_exit_handler(self._client)
        self._lock = threading.Lock()
        self._waiting = 0
        #: Since when a message waits without any other being acknowledged.
        self._silent_since_s: float | None = None
        #: Messages that were not taken.
        self.refused = 0

    def __enter__(self) -> "Outbound":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            while kind is None and self._waiting:
                self.check()
                time.sleep(_NAP_S)
        finally:
            compat.discard(self._client)

    def send(self, topic: str, key: bytes | None, value: bytes | None) -> None:
        """Send a message; its acknowledgement is waited for at the end.

        Raises:
            BusError: the brokers are away.
        """
        began_s = time.monotonic()
        while True:
            self.check()
            try:
                future = self._client.send(topic, value=value, key=key)
            except errors.KafkaTimeoutError:  # No place for it, or no news of the topic, within _BLOCK_S.
                self._give_up(began_s)
            except errors.KafkaError:
                self.refused += 1
                return
            else:
                break
        with self._lock:
            self._waiting += 1
            if self._silent_since_s is None:
                self._silent_since_s = began_s
        future.add_callback(lambda _: self._done(None))
        future.add_errback(self._done)

    def wait_until(self, when: float) -> None:
        """Sleep until ``when`` on the monotonic clock.

        Raises:
            BusError: the brokers are away.
        """
        while (left := when - time.monotonic()) > 0:
            self.check()
            time.sleep(min(left, 0.5))

    def check(self) -> None:
        """Go on, unless nothing was acknowledged for too long.

        Raises:
            BusError: the brokers are away.
        """
        with self._lock:
            since_s = self._silent_since_s
        if since_s is not None:
            self._give_up(since_s)

    def _give_up(self, since_s: float) -> None:
        if time.monotonic() - since_s < PATIENCE_S:
            return
        reach(self._settings, LOOK_S)  # It knows why.
        raise BusError(self._settings.address, f"it acknowledged nothing for {PATIENCE_S:g} s", "run `paceline doctor`")

    def _done(self, error: BaseException | None) -> None:
        """The client's own thread tells what became of a message."""
        with self._lock:
            self._waiting -= 1
            if error is not None:
                self.refused += 1
            if error is None or not getattr(error, "retriable", False):  # A broker has answered.
                self._silent_since_s = time.monotonic() if self._waiting else None
