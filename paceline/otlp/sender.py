"""The door to a receiver: one thread a signal, which sends what waits and tries again where nobody answers.

Rule of this file: whoever gives it records never waits. That a receiver does not answer is said once, and once that it
does again; what was dropped for want of room is counted.
"""

import threading
import time
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Generic, Protocol, TypeVar

from paceline.tracking.backlog import Backlog

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)

#: Records that wait at most; between two attempts when the end has come.
MOST, LAST_EVERY_S = 20_000, 0.25


class Exporter(Protocol[T_contra]):
    """OpenTelemetry's exporters, as far as they are used here."""

    def export(self, batch: Sequence[T_contra], /) -> Any:
        """Send; the answer's name says SUCCESS where all was taken."""


class Sender(Generic[T]):
    """Sends records of one signal by ``exporter``; ``say`` is told of outages."""

    def __init__(self, signal: str, exporter: Exporter[T], say: Callable[[str], None]) -> None:
        self._signal, self._exporter, self._say = signal, exporter, say
        self.backlog: Backlog[T] = Backlog(Random(), MOST)
        self._changed = threading.Condition()
        self._until_s: float | None = None
        self._away = False
        self._thread = threading.Thread(target=self._run, name=f"otlp {signal}", daemon=True)
        self._thread.start()

    def add(self, records: Sequence[T]) -> None:
        """Send ``records`` as soon as that can be."""
        with self._changed:
            for record in records:
                self.backlog.add(record)
            self._changed.notify()

    def idle(self) -> bool:
        """Whether nothing waits."""
        with self._changed:
            return not self.backlog.waiting

    def close(self, timeout_s: float) -> str:
        """Send the rest within ``timeout_s``; what came of it all."""
        with self._changed:
            self._until_s = time.monotonic() + timeout_s
            self._changed.notify()
        self._thread.join(timeout_s)
        backlog = self.backlog
        lost = backlog.lost + backlog.waiting
        return f"{backlog.logged} {self._signal} sent" + (f", {lost} lost" if lost else "")

    def _run(self) -> None:
        while (due := self._next()) is not None:
            error = self._send(due)
            with self._changed:
                if error is None:
                    self.backlog.done(len(due))
                else:
                    self.backlog.failed(time.monotonic())
                    if self._until_s is not None:
                        self._changed.wait(LAST_EVERY_S)
            self._tell(error)

    def _next(self) -> list[T] | None:
        with self._changed:
            while True:
                last = self._until_s is not None
                if last and (not self.backlog.waiting or time.monotonic() >= (self._until_s or 0.0)):
                    return None
                due = self.backlog.due(time.monotonic(), last=last)
                if due:
                    return due
                self._changed.wait(LAST_EVERY_S if self.backlog.waiting else None)

    def _send(self, due: list[T]) -> str | None:
        """Why they were not taken, None where they were."""
        try:
            answer = self._exporter.export(due)
        except Exception as error:  # Whatever a version raises: the records stay.
            return f"{type(error).__name__}: {error}"[:200]
        return None if getattr(answer, "name", "") == "SUCCESS" else "no receiver took them"

    def _tell(self, error: str | None) -> None:
        if (error is not None) == self._away:
            return
        self._away = error is not None
        self._say(f"{self._signal}: {error}; they wait, {MOST} at most" if error else f"{self._signal}: taken again")
