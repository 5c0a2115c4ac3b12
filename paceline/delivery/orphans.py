"""Orphans: spools that processes of this node left behind, delivered by whoever runs next.

Rule of this file: one folder after the other, in a thread of its own, so that live events never stand behind what an
earlier run could not send. It takes a folder only once nobody has written there for a while: a sidecar that is started
again takes back its own. All orphans together stay within ``limit_bytes``; beyond it the oldest are dropped and told.
"""

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from paceline.backoff import Backoff
from paceline.delivery.sender import Sender
from paceline.delivery.spool import LOCK, SUFFIX, Spool, SpoolError
from paceline.kafka.errors import BusError
from paceline.kafka.settings import BrokerSettings
from paceline.settings import SettingError

log = logging.getLogger(__name__)

#: How often to look, how long a folder must have been still, and how many messages travel together.
LOOK_EVERY_S = 10.0
STILL_S = 30.0
_BATCH_MESSAGES = 200


class Orphans:
    """Delivers the spools under ``root`` that nobody owns, but for ``own``; ``on_warning`` is told what was dropped."""

    def __init__(
        self,
        settings: BrokerSettings,
        root: Path,
        own: Path,
        *,
        client_id: str,
        limit_bytes: int,
        on_warning: Callable[[str], None],
        still_s: float = STILL_S,
    ) -> None:
        self._root, self._own, self._limit_bytes, self._still_s = root, own, limit_bytes, still_s
        self._sender = Sender(settings, client_id)
        self._warn = on_warning
        self._backoff = Backoff(0.5, LOOK_EVERY_S, Random())
        self._stop = threading.Event()
        self.delivered = 0
        self.refused = 0
        self._thread = threading.Thread(target=self._run, name=f"paceline-orphans-{client_id}", daemon=True)
        self._thread.start()

    def close(self, timeout_s: float) -> None:
        """End within ``timeout_s``; what is not delivered stays for the next."""
        self._stop.set()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._stop.is_set():
            pause_s = LOOK_EVERY_S
            try:
                self._bound()
                for folder in self._left():
                    self._deliver(folder)
                self._backoff.reset()
            except (BusError, SettingError, SpoolError, OSError):
                # The brokers are away, which the publisher tells; or the disk, and the next look may find it back.
                pause_s = self._backoff.next_s()
            except Exception:
                log.exception("what earlier runs left could not be delivered")
            self._sender.drop()
            self._stop.wait(pause_s)

    def _left(self) -> list[Path]:
        """Folders of others that have been still, oldest first; empty ones too, to be taken away."""
        found: list[tuple[float, Path]] = []
        for folder in self._root.iterdir():
            if folder == self._own or folder.is_symlink() or not (folder / LOCK).is_file():
                continue
            written_s = max(path.stat().st_mtime for path in (folder, *folder.glob(f"*{SUFFIX}")))
            # A clock that was set back must not keep them for ever.
            if not 0.0 <= time.time() - written_s < self._still_s:
                found.append((written_s, folder))
        return [folder for _, folder in sorted(found)]

    def _deliver(self, folder: Path) -> None:
        if not self._sender.connected:
            self._sender.connect()  # First: to open a spool is to read it, in vain while the brokers are away.
        try:
            spool = Spool(folder, self._limit_bytes)
        except SpoolError:
            return  # Somebody lives in it.
        try:
            while not self._stop.is_set() and (batch := spool.read(_BATCH_MESSAGES)):
                outcome = self._sender.deliver(batch, self._give_up_at)
                spool.done(outcome.settled_first(len(batch)))
                self.delivered += len(outcome.acked)
                for reason in outcome.refused.values():
                    self._refuse(reason)
                if outcome.failure is not None:
                    raise outcome.failure
        finally:
            spool.remove()

    def _give_up_at(self) -> float:
        return 0.0 if self._stop.is_set() else float("inf")

    def _refuse(self, reason: str) -> None:
        if not self.refused:
            self._warn(f"an event of an earlier run was refused and dropped: {reason}; run `paceline doctor`")
        self.refused += 1

    def _bound(self) -> None:
        """Drop the oldest folders beyond the limit."""
        left_bytes = self._limit_bytes
        for folder in reversed(self._left()):
            left_bytes -= sum(path.stat().st_size for path in folder.glob(f"*{SUFFIX}"))
            if left_bytes >= 0:
                continue
            try:
                spool = Spool(folder, self._limit_bytes)
            except SpoolError:
                continue
            dropped = spool.drop()
            spool.remove()
            self._warn(f"{dropped} messages of an earlier run in {folder} were dropped: too much waits for Kafka")
