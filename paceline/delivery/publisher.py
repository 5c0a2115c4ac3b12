"""The publisher: takes an event at once, whatever the broker does, and brings it to the bus from a thread of its own.

Rule of this file: ``publish`` never waits for the broker (with ``write_ahead`` for a write to the local disk alone),
and never fails because of the broker, the disk or the address. The thread decides where a message is: in the outbox,
on its way, in the spool, or counted as shed; never in two places.
"""

import logging
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from paceline import wire
from paceline.backoff import Backoff
from paceline.delivery.fallback import Fallback
from paceline.delivery.outbox import Message, Outbox
from paceline.delivery.sender import Outcome, Sender
from paceline.delivery.stats import Stats
from paceline.events import Accounted, DeliveryAccount
from paceline.kafka.errors import BusError
from paceline.kafka.settings import BrokerSettings
from paceline.settings import SettingError
from paceline.terminal import say
from paceline.topics import Topic

log = logging.getLogger(__name__)

MEMORY_BYTES = 16 * 1024 * 1024
SPOOL_BYTES = 256 * 1024 * 1024
_BATCH_BYTES = 4 * 1024 * 1024
_BATCH_MESSAGES = 1000


def to_stderr(line: str) -> None:
    """The default warning: one line on standard error."""
    say(line)


class Publisher:
    """Publishes events to the brokers of ``settings``.

    While they are away, events wait in ``spool_dir`` (at most ``spool_bytes``), else in memory (at most
    ``memory_bytes``); beyond that the oldest are shed and counted. ``on_warning`` is called once an outage.

    With ``write_ahead`` every event is in ``spool_dir`` when ``publish`` returns, and is delivered from there: it
    outlives this process whatever ends it. Where the folder cannot take it, that is reported once, and memory does.
    """

    def __init__(
        self,
        settings: BrokerSettings,
        *,
        client_id: str,
        spool_dir: Path | None = None,
        on_warning: Callable[[str], None] = to_stderr,
        memory_bytes: int = MEMORY_BYTES,
        spool_bytes: int = SPOOL_BYTES,
        write_ahead: bool = False,
    ) -> None:
        self._warn = on_warning
        self._write_ahead = write_ahead and spool_dir is not None
        self._spool_told = False
        self._sender = Sender(settings, client_id)
        self._fallback = Fallback(spool_dir, spool_bytes)
        self._backoff = Backoff(0.25, 5.0, Random())
        # Guards everything below; held for moments only, never over I/O.
        self._lock = threading.Condition()
        self._outbox = Outbox(memory_bytes)
        self._on_the_way: list[Message] = []
        self._sent = 0
        self._lost: Counter[str] = Counter()
        self._last_error: str | None = None
        self._away = False
        self._outages = 0
        self._refusals: set[str] = set()
        self._give_up_at = float("inf")
        self._closing = False
        self._abandoned = False
        self._thread = threading.Thread(target=self._run, name=f"paceline-publisher-{client_id}", daemon=True)
        self._thread.start()

    def publish(self, topic: Topic, event: Any, *, key: str | None = None, timestamp_ms: int | None = None) -> None:
        """Hand over ``event``; returns at once. ``key`` defaults to the event's own.

        An event that can carry our account does: who cannot be asked over the network is seen on the bus.

        Raises:
            TypeError: ``event`` holds something that JSON cannot say.
        """
        if isinstance(event, Accounted):
            event = msgspec.structs.replace(event, account=_account(self.stats()))
        chosen = wire.key_of(topic, event) if key is None else key
        self.publish_encoded(topic.name, chosen, wire.encode(event), timestamp_ms=timestamp_ms)

    def publish_encoded(self, topic: str, key: str | None, value: bytes, *, timestamp_ms: int | None = None) -> None:
        """Hand over bytes that are an event already, or none: what was told under ``key`` is gone. Returns at once."""
        stamp = int(time.time() * 1000) if timestamp_ms is None else timestamp_ms
        message = Message(topic, None if key is None else key.encode(), value, stamp)
        on_disk = self._write_ahead and self._keep_ahead(message)
        with self._lock:
            if self._closing and not on_disk:
                self._lost[topic] += 1
                return
            if not on_disk:
                self._outbox.put(message)
            self._lock.notify()

    def stats(self) -> Stats:
        """The account as of now."""
        with self._lock:
            shed = self._lost + self._outbox.shed + self._fallback.shed
            return Stats(
                sent=self._sent,
                pending=len(self._outbox) + len(self._on_the_way),
                spooled=self._fallback.count,
                shed=shed.total(),
                last_error=self._last_error,
                shed_by_topic=dict(shed),
                recovered=self._fallback.recovered,
                corrupt=self._fallback.corrupt,
                outages=self._outages,
                connected=self._sender.connected and not self._away,
                spooled_bytes=self._fallback.bytes,
            )

    def close(self, timeout_s: float = 5.0) -> Stats:
        """Deliver what is left, for at most ``timeout_s``; spool the rest, or count it as shed. Twice is fine."""
        end = time.monotonic() + timeout_s
        with self._lock:
            self._closing = True
            # The thread keeps a little of the time to put the rest away.
            self._give_up_at = min(self._give_up_at, end - min(0.5, timeout_s / 4))
            self._lock.notify()
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            # It hangs in a call of the client: whatever it does from here on, the messages are ours.
            with self._lock:
                self._abandoned = True
            self._put_away()
        return self.stats()

    # --- the thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        self._fallback.open_existing()
        try:
            while not self._finished():
                self._turn()
        finally:
            if not self._is_abandoned():
                self._put_away()
            self._sender.drop()
            self._fallback.close()

    def _turn(self) -> None:
        try:
            if not self._sender.connected:
                self._sender.connect()
            if self._fallback.count:
                # New events line up on disk behind the old: in memory a long queue would push them out.
                self._spill()
                self._empty_fallback()
            else:
                self._empty_outbox()
        except (BusError, SettingError) as error:
            self._outage(str(error))
        except Exception as error:
            # A bug here or in the client must not end delivery: it counts as an outage, and its trace is logged.
            log.exception("delivery failed")
            self._outage(f"delivery failed: {type(error).__name__}: {error}")

    def _empty_fallback(self) -> None:
        batch = self._fallback.read(_BATCH_MESSAGES)
        outcome = self._sender.deliver(batch, lambda: self._give_up_at)
        settled = outcome.settled_first(len(batch))
        with self._lock:
            if self._abandoned:
                return
            self._account(batch[:settled], outcome)
            self._fallback.done(settled)
        self._conclude(outcome)

    def _empty_outbox(self) -> None:
        with self._lock:
            if not self._outbox and not self._fallback.count and not self._closing:
                self._lock.wait(1.0)
            self._on_the_way = self._outbox.pop(_BATCH_BYTES, _BATCH_MESSAGES)
            batch = self._on_the_way
        if not batch:
            return
        outcome = self._sender.deliver(batch, lambda: self._give_up_at)
        with self._lock:
            if self._abandoned:
                return
            self._on_the_way = []
            self._account(batch, outcome)
            self._outbox.put_back(message for index, message in enumerate(batch) if not outcome.settled(index))
        self._conclude(outcome)

    def _account(self, batch: list[Message], outcome: Outcome) -> None:
        for index, message in enumerate(batch):
            if index in outcome.acked:
                self._sent += 1
            elif index in outcome.refused:
                self._lost[message.topic] += 1

    def _conclude(self, outcome: Outcome) -> None:
        for reason in outcome.refused.values():
            self._refused(reason)
        if outcome.acked:
            self._away = False
            self._backoff.reset()
        if outcome.failure is not None:
            raise outcome.failure

    def _refused(self, reason: str) -> None:
        self._last_error = reason
        if reason not in self._refusals and len(self._refusals) < 100:
            self._refusals.add(reason)
            self._tell(f"an event was refused and dropped: {reason}; run `paceline doctor`")

    def _outage(self, error: str) -> None:
        self._sender.drop()
        self._last_error = error
        spooling = self._spill()
        if not self._away:
            self._away = True
            self._outages += 1
            self._tell(f"{error}. {spooling}")
        end = time.monotonic() + self._backoff.next_s()
        while time.monotonic() < end and not self._finished():
            with self._lock:
                if not self._outbox:
                    self._lock.wait(min(1.0, max(0.0, end - time.monotonic())))
                elif not self._fallback.usable:
                    self._lock.wait(min(0.2, max(0.0, end - time.monotonic())))
            self._spill()

    def _keep_ahead(self, message: Message) -> bool:
        """Put ``message`` on disk; False where it has to wait in memory."""
        with self._lock:
            if self._closing or self._outbox or self._on_the_way:
                return False  # What waits in memory is older, and goes first.
        if self._fallback.keep([message]):
            return True
        if not self._spool_told:
            self._spool_told = True
            self._tell(self._fallback.describe(self._outbox.limit_bytes))
        return False

    def _tell(self, line: str) -> None:
        try:
            self._warn(line)
        except Exception:
            log.exception("the warning could not be shown: %s", line)

    def _finished(self) -> bool:
        """Closing, and nothing more can be done: all is delivered, the time is up, or the broker is away."""
        with self._lock:
            if not self._closing:
                return False
            left = len(self._outbox) + self._fallback.count
            return not left or self._away or time.monotonic() >= self._give_up_at

    def _is_abandoned(self) -> bool:
        with self._lock:
            return self._abandoned

    # --- putting away -------------------------------------------------------------------------------------------------

    def _spill(self) -> str:
        """Move the outbox to the spool, oldest first, as far as it goes; say where events wait."""
        while True:
            with self._lock:
                batch = self._outbox.pop(_BATCH_BYTES, _BATCH_MESSAGES) if self._fallback.usable else []
                self._on_the_way = batch
            kept = self._fallback.keep(batch)
            with self._lock:
                if self._abandoned:
                    return ""
                self._on_the_way = []
                self._outbox.put_back(batch[kept:])
            if not batch or kept < len(batch):
                return self._fallback.describe(self._outbox.limit_bytes)

    def _put_away(self) -> None:
        """The end: what is left goes to the spool, else it is lost and counted."""
        with self._lock:
            rest = [*self._on_the_way, *self._outbox.pop(sys.maxsize, sys.maxsize)]
            self._on_the_way = []
        kept = self._fallback.keep(rest)
        with self._lock:
            self._lost.update(message.topic for message in rest[kept:])


def _account(stats: Stats) -> DeliveryAccount:
    return DeliveryAccount(
        sent=stats.sent,
        waiting=stats.pending,
        spooled=stats.spooled,
        spooled_bytes=stats.spooled_bytes,
        shed=stats.shed_by_topic,
        outages=stats.outages,
    )
