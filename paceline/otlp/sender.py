"""The door to a receiver: one thread a signal, which sends what waits and tries again what was not taken.

Rule of this file: whoever gives it records never waits. What a receiver refuses for good is halved until the record is
found, and dropped; all else waits. That a receiver does not take what is sent is said once, and once that it does
again; what was refused, and what was dropped for want of room, is counted.
"""

import threading
import time
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Generic, Protocol, TypeVar

from paceline.tracking.backlog import Backlog

from .answers import NOT_SENT, Answer, Answers

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)

#: Records that wait at most; between two attempts when the end has come.
MOST, LAST_EVERY_S = 20_000, 0.25


class Exporter(Protocol[T_contra]):
    """OpenTelemetry's exporters, as far as they are used here."""

    def export(self, batch: Sequence[T_contra], /) -> Any:
        """Send; the answer's name says SUCCESS where all was taken."""


class Sender(Generic[T]):
    """Sends records of one signal by ``exporter``; ``say`` is told of outages.

    ``answers`` is the exporter's session. Without it, where it has one of its own, nothing is known of an answer but
    whether all was taken.
    """

    def __init__(
        self, signal: str, exporter: Exporter[T], say: Callable[[str], None], answers: Answers | None = None
    ) -> None:
        self._signal, self._exporter, self._say, self._answers = signal, exporter, say, answers
        self.backlog: Backlog[T] = Backlog(Random(), MOST)
        self._changed = threading.Condition()
        self._until_s: float | None = None
        #: What is wrong and has been said; and whether it was that records are refused for good.
        self._told: set[str] = set()
        self._told_refusal = False
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
        counts = f"{backlog.logged} {self._signal} sent", f"{backlog.refused} refused", f"{lost} lost"
        return ", ".join(counts[:1] + tuple(one for one in counts[1:] if not one.startswith("0 ")))

    def _run(self) -> None:
        while (due := self._next()) is not None:
            answer = self._send(due)
            with self._changed:
                self._note(answer, len(due))
                failing = self.backlog.failing
                if answer.verdict in ("later", "away") and self._until_s is not None:
                    self._changed.wait(LAST_EVERY_S)
            self._tell(answer, failing)

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

    def _send(self, due: list[T]) -> Answer:
        """What came of sending them."""
        try:
            taken = getattr(self._exporter.export(due), "name", "") == "SUCCESS"
        except Exception:  # Whatever a version raises: the answer is known by its session.
            taken = False
        if self._answers is None:
            return Answer(200) if taken else Answer()
        return self._answers.take() or NOT_SENT

    def _note(self, answer: Answer, count: int) -> None:
        now_s = time.monotonic()
        if answer.verdict == "taken":
            self.backlog.done(count, min(answer.rejected, count))
        elif answer.verdict == "refused":
            self.backlog.refuse(count, now_s)
        elif answer.verdict == "later":
            self.backlog.set_apart(count, now_s, answer.asked_s)
        else:
            self.backlog.failed(now_s, answer.asked_s)

    def _tell(self, answer: Answer, failing: bool) -> None:
        if self.backlog.refused and not self._told_refusal:
            self._told_refusal = True
            cause = answer.words if answer.verdict == "refused" else "left out of a message that was taken"
            self._say(f"{self._signal}: one is refused for good and dropped ({cause}); the end tells how many were")
        if answer.verdict in ("later", "away") and answer.words not in self._told:
            self._told.add(answer.words)
            self._say(f"{self._signal}: {answer.words}; they wait, {MOST} at most")
        elif self._told and not failing:
            self._told.clear()
            self._say(f"{self._signal}: taken again")
