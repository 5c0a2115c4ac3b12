"""The sender: one producer's life, from connecting to being dropped, and the fate of every message handed to it.

Rule of this file: nothing is kept here. What was not acknowledged goes back to the caller, in order; a sender whose
producer misbehaved is not fixed but dropped, and the next ``connect`` makes a new one.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kafka import errors

from paceline.delivery.outbox import Message
from paceline.kafka import compat
from paceline.kafka.clients import Producer, producer
from paceline.kafka.errors import BusError, explain
from paceline.kafka.reach import wait_for_broker
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.topic_admin import ensure_topics, existing_topics

#: How long a batch may stay without acknowledgement before the broker counts as away.
ACK_S = 10.0
#: How often a silent broker is asked whether it is still there.
_ASK_S = 1.0
#: What no second attempt can cure: the message is shed, the others go on.
_HOPELESS = (
    errors.MessageSizeTooLargeError,
    errors.RecordListTooLargeError,
    errors.InvalidTopicError,
    errors.TopicAuthorizationFailedError,
    errors.InvalidTimestampError,
    errors.PolicyViolationError,
    ValueError,
    TypeError,
)


@dataclass
class Outcome:
    """What became of a batch, by index: acknowledged, refused (with the reason), the rest unknown or unsent."""

    acked: set[int] = field(default_factory=set)
    refused: dict[int, str] = field(default_factory=dict)
    #: Why the broker counts as away; None while all is well.
    failure: BusError | None = None

    def settled(self, index: int) -> bool:
        """Whether message ``index`` needs no further attempt."""
        return index in self.acked or index in self.refused

    def settled_first(self, count: int) -> int:
        """How many of ``count`` messages are settled before the first that is not."""
        return next((index for index in range(count) if not self.settled(index)), count)


class Sender:
    """Carries batches to the brokers of ``settings``."""

    def __init__(self, settings: BrokerSettings, client_id: str) -> None:
        self.settings = settings
        self.client_id = client_id
        self._producer: Producer | None = None
        self._missing: set[str] = set()

    @property
    def connected(self) -> bool:
        """Whether there is a producer to hand messages to."""
        return self._producer is not None

    def connect(self) -> None:
        """Make a producer, and the topics where we may.

        Raises:
            BusError: no broker can be reached.
            SettingError: a certificate file is missing.
        """
        self._missing.clear()
        made = producer(
            self.settings, self.client_id, max_block_ms=4000, request_timeout_ms=5000, delivery_timeout_ms=8000
        )
        compat.remove_exit_handler(made)  # We close it ourselves.
        self._producer = made
        try:
            ensure_topics(self.settings)
        except BusError:
            # A producer rarely has the right to create: what is missing then shows with the first message.
            return

    def drop(self) -> None:
        """Forget the producer and what it still holds."""
        dropped, self._producer = self._producer, None
        if dropped is not None:
            compat.discard(dropped)

    def deliver(self, batch: Sequence[Message], give_up_at: Callable[[], float]) -> Outcome:
        """Send ``batch`` and wait for the acknowledgements, at most until ``give_up_at()`` (monotonic)."""
        outcome = Outcome()
        waiting = _Waiting(outcome)
        for index, message in enumerate(batch):
            if not self._send(index, message, waiting):
                break
        end = time.monotonic() + ACK_S
        while waiting.wait(min(_ASK_S, max(0.0, min(end, give_up_at()) - time.monotonic()))):
            if time.monotonic() >= min(end, give_up_at()):
                break
            if (away := self._away()) is not None:
                waiting.fail(away)
                break
        with waiting.lock:
            waiting.closed = True
            if waiting.open and outcome.failure is None:
                outcome.failure = self._explain(
                    waiting.error or errors.KafkaTimeoutError("timed out: no acknowledgement")
                )
        return outcome

    def _send(self, index: int, message: Message, waiting: "_Waiting") -> bool:
        """Hand one message over; False when there is no sense in sending the rest."""
        assert self._producer is not None
        if message.topic in self._missing:
            waiting.refuse(index, f"topic {message.topic} does not exist")
            return True
        try:
            future = self._producer.send(
                message.topic, value=message.value or None, key=message.key, timestamp_ms=message.timestamp_ms
            )
        except _HOPELESS as error:
            waiting.refuse(index, self._reason(message, error))
            return True
        except errors.KafkaTimeoutError:
            return self._no_metadata(index, message, waiting)
        except errors.KafkaError as error:
            waiting.fail(self._explain(error))
            return False
        waiting.expect(index, message, future, self._reason)
        return True

    def _no_metadata(self, index: int, message: Message, waiting: "_Waiting") -> bool:
        """The client never learned where ``message.topic`` lives: are brokers away, or is only the topic missing?

        Of a cluster of which some nodes are away the others let us in, and know the topic, but nobody leads it.
        """
        try:
            wait_for_broker(self.settings, 1.0)
            if message.topic in existing_topics(self.settings):
                raise explain(self.settings.address, errors.LeaderNotAvailableError(f"no leader for {message.topic}"))
        except BusError as away:
            waiting.fail(away)
            return False
        self._missing.add(message.topic)
        waiting.refuse(index, f"topic {message.topic} does not exist")
        return True

    def _away(self) -> BusError | None:
        """Why a fresh connection fails; None where it does not. The producer itself would wait much longer."""
        try:
            wait_for_broker(self.settings, 0.5)
        except BusError as away:
            return away
        return None

    def _explain(self, error: BaseException) -> BusError:
        """Why the broker is away: what a fresh connection says, else ``error``."""
        settings = self.settings
        return self._away() or explain(settings.address, error, settings.user, by_token=settings.by_token)

    def _reason(self, message: Message, error: BaseException) -> str:
        if isinstance(error, errors.TopicAuthorizationFailedError):
            return f"user {self.settings.user!r} may not write {message.topic}"
        return f"{message.topic}: {type(error).__name__}: {' '.join(str(error).split())[:200]}"


class _Waiting:
    """The acknowledgements still to come; the producer's own thread reports them."""

    def __init__(self, outcome: Outcome) -> None:
        self.lock = threading.Condition()
        self.outcome = outcome
        self.open: set[int] = set()
        self.error: BaseException | None = None
        self.closed = False

    def refuse(self, index: int, reason: str) -> None:
        with self.lock:
            self.outcome.refused[index] = reason

    def fail(self, error: BusError) -> None:
        with self.lock:
            self.outcome.failure = error

    def expect(
        self, index: int, message: Message, future: object, reason: Callable[[Message, BaseException], str]
    ) -> None:
        with self.lock:
            self.open.add(index)

        def acked(_: object) -> None:
            with self.lock:
                if not self.closed:
                    self.open.discard(index)
                    self.outcome.acked.add(index)
                    self.lock.notify()

        def failed(error: BaseException) -> None:
            with self.lock:
                if self.closed:
                    return
                if isinstance(error, _HOPELESS):
                    self.open.discard(index)
                    self.outcome.refused[index] = reason(message, error)
                else:
                    # Stays open: unknown, to be sent again.
                    self.error = error
                self.lock.notify()

        future.add_callback(acked)  # type: ignore[attr-defined]
        future.add_errback(failed)  # type: ignore[attr-defined]

    def wait(self, timeout_s: float) -> bool:
        """Wait until all is acknowledged or one failed; True when the time ran out instead."""
        with self.lock:
            return not self.lock.wait_for(lambda: not self.open or self.error is not None, timeout_s)
