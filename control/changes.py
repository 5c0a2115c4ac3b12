"""What may be changed of sessions: started, stopped, recovered, deleted, and why it is refused otherwise.

Rule of this file: names are unique on this disk by the folder, and on the bus by what other controls tell there. Each
change goes into the audit log with who asked for it.
"""

import shutil
import socket
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from paceline.decoders import convert
from paceline.events import SessionState
from paceline.topics import SESSION
from paceline.web.failures import RefusedError
from paceline.words import listed

from .book import Book
from .launcher import Launcher
from .recorder.recording import LEAST_FREE_BYTES
from .sessions.folder import SessionFolder, StopRequest
from .sessions.manifest import Definition, Manifest, ManifestError
from .sessions.store import LIVE, RECOVERABLE, NoSessionError, SessionStore

#: Sessions that are recorded at a time: each reads the topics for itself.
MOST_RECORDING = 16


class Teller(NamedTuple):
    """How a change is published: the session as it is (None: it is deleted), who asked for what, and ``check``, which
    refuses while the brokers do not answer."""

    state: Callable[[str, SessionState | None], None]
    audit: Callable[[str, str, str, str], None]
    check: Callable[[], None]


class GoneOn(NamedTuple):
    """Sessions that are recorded again, and those that are ``left``: as many as may be are recorded."""

    started: list[str]
    left: list[str]


class SessionChanges:
    """Changes the sessions of ``store``."""

    def __init__(self, store: SessionStore, launcher: Launcher, book: Book, teller: Teller) -> None:
        self._store, self._launcher, self._book, self._teller = store, launcher, book, teller
        self._host = socket.gethostname()
        #: Whether there is room for one more is seen and used by one request at a time.
        self._turn = threading.Lock()

    def manifest(self, name: str) -> Manifest:
        """How far a session has come.

        Raises:
            RefusedError: 404 there is none, 409 its files cannot be used.
        """
        try:
            return self._store.read(name)
        except NoSessionError:
            raise RefusedError(404, "name", self._unknown(name)) from None
        except ManifestError as error:
            raise RefusedError(409, "manifest", str(error)) from error

    def _unknown(self, name: str) -> str:
        """Why there is no such session, with those that there are."""
        elsewhere = self._book.session(name)
        if elsewhere is not None:
            return f"{name!r} is not on this disk: its files are, or were, on {elsewhere.host or 'another host'}"
        names = [state.name for state in self.states()]
        return f"no session {name[:100]!r} here; {listed('session', names)}"

    def states(self) -> list[SessionState]:
        """All sessions: those here as their folders tell, and those of other controls as the bus does."""
        states = {state.name: state for state in (*self._book.sessions(), *self.here())}
        return sorted(states.values(), key=lambda state: (-state.started_s, state.name))

    def here(self) -> list[SessionState]:
        """The sessions on this disk."""
        states = []
        for name in self._store.names():
            try:
                states.append(self._store.state(name))
            except (ManifestError, NoSessionError) as error:
                states.append(_damaged(name, str(error), self._host))
        return states

    def start(self, definition: Definition) -> Manifest:
        """Begin a session.

        Raises:
            RefusedError: 409 there is one of that name, or too many are recorded; 503 the brokers do not answer;
                507 the disk is full.
        """
        self._teller.check()
        with self._turn:
            self._begin(definition)
        self._teller.audit("session_start", _target(definition.name), definition.issuer, _about(definition))
        return self.manifest(definition.name)

    def _begin(self, definition: Definition) -> None:
        self._check_room()
        elsewhere = self._book.session(definition.name)
        if elsewhere is not None and elsewhere.state in LIVE and elsewhere.host not in ("", self._host):
            raise RefusedError(409, "name", f"{definition.name!r} is recorded on {elsewhere.host}; choose another name")
        try:
            folder = self._store.create(definition, self._host)
        except FileExistsError:
            reason = f"there is a session {definition.name!r}; choose another name, or delete that one"
            raise RefusedError(409, "name", reason) from None
        except OSError as error:
            raise RefusedError(507, "sessions", f"{self._store.root}: {error.strerror}") from error
        self._launch(folder, finish=False)

    def stop(self, name: str, issuer: str, because: str) -> Manifest:
        """Ask the recorder of a session to read the rest and end.

        Raises:
            RefusedError: 404 there is none, 409 it is not recorded.
        """
        manifest = self.manifest(name)
        if manifest.state.state not in LIVE:
            mend = "recover it" if manifest.state.state in RECOVERABLE else "it has ended"
            raise RefusedError(409, "state", f"{name!r} is {manifest.state.state}: {mend}")
        self._ask_to_stop(name, StopRequest(issuer, because))
        self._teller.audit("session_stop", _target(name), issuer, because)
        return self.manifest(name)

    def recover(self, name: str, issuer: str) -> Manifest:
        """Finish a session whose recorder is gone, with what the brokers still hold.

        Raises:
            RefusedError: 404 there is none, 409 it needs none, or too many are recorded, 503 the brokers do not
                answer, 507 the disk is full.
        """
        manifest = self.manifest(name)
        if manifest.state.state in LIVE:
            raise RefusedError(409, "state", f"{name!r} is {manifest.state.state}: its recorder lives; stop it")
        if manifest.state.state not in RECOVERABLE:
            raise RefusedError(409, "state", f"{name!r} is {manifest.state.state}: nothing is to be recovered")
        self._teller.check()
        with self._turn:
            self._check_room()
            self._launch(self._store.folder(name), finish=True)
        self._teller.audit("session_recover", _target(name), issuer, "")
        return self.manifest(name)

    def delete(self, name: str, issuer: str) -> None:
        """Delete a session with all that was recorded; one whose files are damaged or gone too.

        Raises:
            RefusedError: 404 there is none, 409 it is being recorded, or on another host; 503 its files are gone, and
                the brokers do not answer.
        """
        try:
            folder = self._store.folder(name)
        except NoSessionError:
            self._check_gone(name)
        else:
            self._remove(name, folder)
        self._book.forget(SESSION, name)
        self._teller.state(name, None)
        self._teller.audit("session_delete", _target(name), issuer, "")

    def _check_gone(self, name: str) -> None:
        """Refuse to delete a session without a folder, unless the bus has it as one of this host."""
        known = self._book.session(name)
        if known is None:
            raise RefusedError(404, "name", self._unknown(name))
        if known.host not in ("", self._host):
            raise RefusedError(409, "name", f"{name!r} is on {known.host}; delete it with the control there")
        self._teller.check()

    def _remove(self, name: str, folder: SessionFolder) -> None:
        if folder.is_locked():
            raise RefusedError(409, "state", f"{name!r} is being recorded; stop it first")
        try:
            folder.remove()
        except OSError as error:
            raise RefusedError(409, "name", f"{name!r} cannot be deleted: {error.strerror}") from error

    def go_on(self, because: str = "") -> GoneOn:
        """Go on with what nobody has stopped, where the reason begins ``because``, as far as there is room."""
        started: list[str] = []
        left: list[str] = []
        with self._turn:
            recording = self._recording()
            for name in self._store.names():
                try:
                    state = self._store.state(name)
                    if name in recording or state.state != "interrupted" or not state.reason.startswith(because):
                        continue
                    if len(recording) + len(started) >= MOST_RECORDING:
                        left.append(name)
                        continue
                    self._launcher.start(self._store.folder(name))
                    started.append(name)
                except (ManifestError, NoSessionError, OSError):
                    continue  # It is listed with what is wrong with it.
        return GoneOn(started, left)

    def _launch(self, folder: SessionFolder, *, finish: bool) -> None:
        try:
            self._launcher.start(folder, finish=finish)
        except BlockingIOError:
            raise RefusedError(409, "state", f"{folder.name!r} has a recorder already") from None
        except ManifestError as error:
            raise RefusedError(409, "manifest", str(error)) from error
        except OSError as error:
            raise RefusedError(507, "recorder", f"it cannot be started: {error.strerror}") from error

    def _ask_to_stop(self, name: str, request: StopRequest) -> None:
        try:
            self._store.folder(name).ask_to_stop(request)
        except OSError as error:
            raise RefusedError(507, "sessions", f"{self._store.root}: {error.strerror}") from error

    def _recording(self) -> set[str]:
        """The sessions here that have a recorder: from when it holds its lock, which is before its first manifest."""
        names = set()
        for name in self._store.names():
            try:
                state = self._store.state(name).state
                if state in LIVE or (state in RECOVERABLE and self._store.folder(name).is_locked()):
                    names.add(name)
            except (ManifestError, NoSessionError):
                continue
        return names

    def _check_room(self) -> None:
        recording = self._recording()
        if len(recording) >= MOST_RECORDING:
            raise RefusedError(409, "sessions", f"{len(recording)} are recorded at a time; stop one first")
        try:
            self._store.root.mkdir(parents=True, exist_ok=True, mode=0o700)
            free = shutil.disk_usage(self._store.root).free
        except OSError as error:
            raise RefusedError(507, "sessions", f"{self._store.root}: {error.strerror}") from error
        if free < 2 * LEAST_FREE_BYTES:
            raise RefusedError(507, "sessions", f"{self._store.root}: only {free >> 20} MiB are free; make room")


def _target(name: str) -> str:
    return f"session:{name}"


def _about(definition: Definition) -> str:
    where = f" in {definition.only_cluster[:100]}" if definition.only_cluster else ""
    if definition.job:
        return f"job {definition.job}{where}"
    return (f"nodes {', '.join(definition.nodes)}"[:300] if definition.nodes else "everything") + where


def _damaged(name: str, reason: str, host: str) -> SessionState:
    now_s = time.time()
    return convert(
        {
            "cluster": "",
            "name": name,
            "id": name[:64],
            "state": "damaged",
            "reason": reason[:500],
            "host": host,
            "started_s": 0.0,
            "updated_s": now_s,
        },
        SessionState,
    )
