"""Control, for all visitors of this page: asked in threads, so that no page waits for it.

Rule of this file: a door. It asks only while somebody looks; what a visitor wants changed is handed over and answered
later. Who may change anything is the gate's to say, and control asks for a token of its own.
"""

import contextlib
import io
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from paceline.control_client import ControlClient, ControlError, segment
from paceline.supervised import SupervisedThread

from . import session_words
from .asked_change import Change

#: How often sessions are asked for while somebody looks, and how long a look lasts.
ASK_S, LOOKED_S = 2.0, 15.0
#: For how long the reason why a session's numbers could not be read is shown, before they are asked for again.
PROBLEM_S = 10.0
#: States in which a session's numbers stay as they are.
ENDED = ("stopped", "interrupted", "failed")
#: Changes on their way, answers and numbers that are remembered, and what a download may have at most.
MOST_WAITING, REMEMBERED, MOST_DOWNLOAD = 32, 100, 256 * 1024 * 1024


class _Session(NamedTuple):
    """A session, and how it is: its numbers are of this version. A name may be recorded again after it was deleted."""

    name: str
    started_s: float | None
    state: str
    updated_s: float | None


class _Numbers(NamedTuple):
    """What a session says in numbers, or why that could not be read; of the latter, until when it holds."""

    of: _Session
    numbers: Mapping[str, Any] | None
    problem: str = ""
    until_s: float = float("inf")


class ControlDoor:
    """Asks the control that ``client`` reaches for an issuer."""

    def __init__(
        self,
        client: Callable[[str], ControlClient],
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client, self._clock, self._monotonic = client, clock, monotonic
        self._lock = threading.Lock()
        self._looked_s = self._asked_s = float("-inf")
        self._sessions: list[Mapping[str, Any]] | None = None
        self._problem = ""
        self._changes: OrderedDict[int, Change] = OrderedDict()
        self._numbers: OrderedDict[tuple[str, float | None], _Numbers] = OrderedDict()
        self._queue: queue.Queue[tuple[Change, str, str, Mapping[str, Any] | None, str]] = queue.Queue(MOST_WAITING)
        self._wanted: queue.Queue[_Session] = queue.Queue(MOST_WAITING)
        self._count = 0
        self._stop = threading.Event()
        self._thread = SupervisedThread("the page's door to control", self._run, self._stop)
        #: Reading what a long session holds takes a minute: nobody's change waits for that.
        self._counting = SupervisedThread("the page's reader of sessions", self._count_up, self._stop)

    def sessions(self) -> tuple[list[Mapping[str, Any]] | None, str]:
        """All sessions as of the last answer, None before one; and why there is no newer one."""
        with self._lock:
            self._looked_s = self._monotonic()
        self._thread.start()
        with self._lock:
            return self._sessions, self._problem

    def numbers(self, session: Mapping[str, Any]) -> tuple[Mapping[str, Any] | None, str]:
        """What ``session``, one of ``sessions``, says in numbers, None until it is known; and why it is not."""
        wanted = _session(session)
        known = self._held(wanted)
        if known is None or self._monotonic() >= known.until_s:
            self._counting.start()
            with contextlib.suppress(queue.Full):
                self._wanted.put_nowait(wanted)
        return (None, "") if known is None else (known.numbers, known.problem)

    def ask(self, words: str, method: str, path: str, body: Mapping[str, Any] | None, issuer: str) -> Change:
        """Ask for a change; it is on its way then, or has failed for there are too many."""
        with self._lock:
            self._count += 1
            change = Change(self._count, words, self._clock())
        self._thread.start()
        self._note(change)
        try:
            self._queue.put_nowait((change, method, path, body, issuer))
        except queue.Full:
            change = replace(change, said="too many changes wait", failed=True)
            self._note(change)
        return change

    def change(self, number: int) -> Change | None:
        """How far a change has come."""
        with self._lock:
            return self._changes.get(number)

    def download(self, name: str, kind: str) -> bytes:
        """A session as a file; waits for it.

        Raises:
            ControlError: there is none, or it is too large for a browser.
        """
        held = _Bounded()
        self._client("").download(f"/v1/sessions/{segment(name)}/export?format={kind}", held)
        return held.getvalue()

    def stop(self) -> None:
        """Ask no more, and wait for the threads."""
        self._thread.stop(5.0)
        self._counting.stop(5.0)

    def _note(self, change: Change) -> None:
        with self._lock:
            self._changes[change.number] = change
            while len(self._changes) > REMEMBERED:
                self._changes.popitem(last=False)

    def _run(self) -> None:
        while not self._stop.is_set():
            self._change_next()
            with self._lock:
                now_s = self._monotonic()
                due = now_s - self._asked_s >= ASK_S and now_s - self._looked_s < LOOKED_S
            if due:
                self._ask()
            self._thread.well()

    def _change_next(self) -> None:
        try:
            change, method, path, body, issuer = self._queue.get(timeout=0.25)
        except queue.Empty:
            return
        try:
            answer = self._client(issuer).call(method, path, body)
            command = answer.get("command") if isinstance(answer, dict) else None
            known = command if isinstance(command, str) else ""
            self._note(replace(change, at_s=self._clock(), said="done", command=known))
        except ControlError as error:
            self._note(replace(change, at_s=self._clock(), said=str(error), failed=True))
        self._ask()

    def _count_up(self) -> None:
        while not self._stop.is_set():
            self._number_next()
            self._counting.well()

    def _held(self, session: _Session) -> _Numbers | None:
        with self._lock:
            return self._numbers.get((session.name, session.started_s))

    def _number_next(self) -> None:
        try:
            wanted = self._wanted.get(timeout=0.25)
        except queue.Empty:
            return
        known = self._held(wanted)
        if known is not None and self._monotonic() < known.until_s:
            return
        try:
            path = f"/v1/sessions/{segment(wanted.name)}/stat"
            found = _Numbers(wanted, self._client("").call("GET", path, timeout_s=120.0))
        except ControlError as error:
            found = _Numbers(wanted, None, str(error), self._monotonic() + PROBLEM_S)
        with self._lock:
            self._numbers[wanted.name, wanted.started_s] = found
            while len(self._numbers) > REMEMBERED:
                self._numbers.popitem(last=False)

    def _ask(self) -> None:
        try:
            sessions, problem = self._client("").call("GET", "/v1/sessions")["sessions"], ""
        except (ControlError, KeyError, TypeError) as error:
            sessions, problem = None, str(error)
        with self._lock:
            self._asked_s, self._problem = self._monotonic(), problem
            self._sessions = self._sessions if sessions is None else sessions
            ended = {one for one in map(_session, self._sessions or ()) if one.state in ENDED}
            # What still goes on, or has been recovered, says something else the next time.
            for key in [key for key, held in self._numbers.items() if held.of not in ended]:
                del self._numbers[key]


def _session(session: Mapping[str, Any]) -> _Session:
    number = session_words.number
    name, state = session_words.text(session, "name"), session_words.text(session, "state")
    return _Session(name, number(session, "started_s"), state, number(session, "updated_s"))


class _Bounded(io.BytesIO):
    def write(self, piece: Any) -> int:
        if self.tell() + len(piece) > MOST_DOWNLOAD:
            raise ControlError(0, f"more than {MOST_DOWNLOAD >> 20} MiB: use `paceline session export`")
        return super().write(piece)
