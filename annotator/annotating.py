"""The loop: look what is to be written, read what is missing for it, write what may be written, and again.

Rule of this file: it joins decisions and doors and decides nothing itself; time is an argument of every turn. One
thread makes all requests that change something, one after the other.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import msgspec

from .api_errors import ApiError, NoRightError, without_name
from .book import Book
from .budget import WAITS_S, Budget, Outcome
from .documents import PROPOSAL
from .happenings import Happening, Happenings
from .kube_objects import Known, KubeObjects
from .later import Later
from .node_health import State
from .owner_reader import OwnerReader
from .plan import Health, Plan, Planner, Want
from .steady import read
from .unknown_nodes import UnknownNodes
from .writer import Writes

#: Between two looks, at least, and as a multiple of how long one takes; between two turns; names that are told once.
LOOK_S, LOOK_SHARE, TURN_S, MOST_NAMES = 2.0, 10.0, 0.1, 1_000


class Tells(Protocol):
    """Whoever tells an Event."""

    def tell(self, happening: Happening, now_s: float) -> None:
        """Tell it, or raise ``ApiError``."""


class Conditions(Protocol):
    """Whoever keeps nodes' conditions."""

    def due(self, health: Mapping[str, Health], nodes: Mapping[str, Known]) -> list[tuple[Known, State]]:
        """Nodes whose condition is to be told."""

    def tell(self, node: Known, now: State, now_s: float) -> None:
        """Tell it, or raise ``ApiError``."""

    def done(self, node: Known, now: State) -> None:
        """It is not told again until it changes."""


@dataclass(frozen=True)
class Doors:
    """What writes and reads; without ``events`` or ``conditions`` none are told."""

    writer: Writes
    owners: OwnerReader
    events: Tells | None = None
    conditions: Conditions | None = None


class Annotating:
    """One annotator. ``lock`` guards ``book`` and ``objects``; ``say`` tells the operator, a line at a time."""

    def __init__(
        self,
        book: Book,
        objects: KubeObjects,
        planner: Planner,
        budget: Budget,
        happenings: Happenings,
        doors: Doors,
        lock: threading.Lock,
        say: Callable[[str], None],
    ) -> None:
        self._book, self._objects, self._planner, self.budget = book, objects, planner, budget
        self._happenings, self._doors, self._lock, self._say = happenings, doors, lock, say
        self.plan = Plan()
        self._queue: list[Want] = []
        self._look_again_s: float | None = None
        #: What was said once.
        self._said: dict[str, None] = {}
        self._unknown, self._refused = UnknownNodes(), Later()
        #: Events that were told; objects that were refused or invalid.
        self.events = self.failed = 0

    def look(self, now_s: float) -> None:
        """See what is to be written."""
        began = time.monotonic()
        with self._lock:
            self._book.minutes.forget(now_s)
            self.plan = self._planner.plan(now_s)
        took_s = time.monotonic() - began
        self._look_again_s = now_s + max(LOOK_S, LOOK_SHARE * took_s)
        self._queue = self.budget.due(self.plan.wants, now_s)
        if self._objects.nodes:
            for line in self._unknown.lines(self.plan.unknown_nodes, self.plan.health, now_s):
                self._say(line)

    def turn(self, now_s: float) -> None:
        """Do what may be done at ``now_s``."""
        if self._look_again_s is None or not now_s < self._look_again_s <= now_s + 3600.0:
            self.look(now_s)
        self._read_owners(now_s)
        self._tell_events(now_s)
        self._tell_conditions(now_s)
        while self._queue and self.budget.tokens(now_s):
            self._write(self._queue.pop(0), now_s)

    def waits(self) -> bool:
        """Whether anything is still to be done, after a look."""
        return bool(self.plan.unread) or self.budget.waits(self.plan.wants)

    def waiting(self) -> int:
        """Objects that are still to be written."""
        return sum(not self.budget.is_gone(want.ref.uid) for want in self.plan.wants)

    def once(self, line: str) -> None:
        """Say ``line``, unless it was said before."""
        if line not in self._said and len(self._said) < MOST_NAMES:
            self._said[line] = None
            self._say(line)

    def _read_owners(self, now_s: float) -> None:
        unread = list(self.plan.unread.items())
        for uid, wanted in unread:
            if not self.budget.tokens(now_s):
                return
            self.budget.spend(now_s)
            try:
                self._doors.owners.read(wanted, now_s)
            except ApiError as error:
                self._busy("", error, now_s)
                return
            del self.plan.unread[uid]
        if unread:
            self._look_again_s = None

    def _tell_events(self, now_s: float) -> None:
        if self._doors.events is None:
            return
        for happening in self._happenings.due(self.plan.accused, now_s):
            if not self.budget.tokens(now_s):
                return
            self.budget.spend(now_s)
            outcome = self._try(partial(self._doors.events.tell, happening, now_s), now_s)
            if outcome == "busy":
                return
            if outcome == "written":
                self._happenings.done(happening, now_s)
                self.events += 1
            else:
                self._happenings.refused(happening, WAITS_S[outcome] or WAITS_S["refused"] or 0.0, now_s)

    def _tell_conditions(self, now_s: float) -> None:
        if self._doors.conditions is None:
            return
        with self._lock:
            due = self._doors.conditions.due(self.plan.health, self._objects.nodes)
        for node, state in due:
            if not self._refused.may(node.ref.uid, now_s):
                continue
            if not self.budget.tokens(now_s):
                return
            self.budget.spend(now_s)
            outcome = self._try(partial(self._doors.conditions.tell, node, state, now_s), now_s)
            if outcome == "busy":
                return
            if outcome == "written":
                self._doors.conditions.done(node, state)
            else:
                self._refused.put(node.ref.uid, WAITS_S[outcome] or WAITS_S["refused"] or 0.0, now_s)

    def _try(self, what: Callable[[], Any], now_s: float) -> Outcome:
        """Do ``what``, and what came of it; what is refused is told once."""
        try:
            what()
        except ApiError as error:
            if error.outcome == "busy":
                self._busy("", error, now_s)
            else:
                self._tell_error(error)
            return error.outcome
        except msgspec.DecodeError as error:
            self.once(f"an answer that cannot be read: {error}")
            return "invalid"
        return "written"

    def _write(self, want: Want, now_s: float) -> None:
        self.budget.spend(now_s)
        proposed = read(want.changes.get(PROPOSAL) or "null")
        if isinstance(proposed, dict):
            self.once(f"proposed, and not done: {proposed.get('command')} ({proposed.get('reason')})")
        try:
            outcome = self._doors.writer.write(want, now_s)
        except ApiError as error:
            if error.outcome == "busy":
                self._busy(want.ref.uid, error, now_s)
                return
            outcome = error.outcome
            if outcome in ("refused", "invalid"):
                self.failed += 1
                self._tell_error(error)
        self.budget.done(want.ref.uid, outcome, now_s)
        if outcome == "gone":
            with self._lock:
                self._planner.forget(want.ref.uid, now_s)

    def _busy(self, uid: str, error: ApiError, now_s: float) -> None:
        self.budget.done(uid, "busy", now_s, error.retry_after_s)
        self.once(f"the API does not take more now ({error}); trying again")

    def _tell_error(self, error: ApiError) -> None:
        """Once for each right that is missing, whichever object it was noticed at."""
        self.once(str(error).partition(": ")[2] if not isinstance(error, NoRightError) else without_name(error))
