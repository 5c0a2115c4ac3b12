"""The sessions of one folder: which there are, what each is, and how one is begun, ended and deleted.

Rule of this file: it reads what recorders write. A session whose recorder is gone although nobody stopped it is
``interrupted``, whatever its manifest says.
"""

import re
import threading
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path

import msgspec

from paceline.events import SESSION_NAME, SessionState
from paceline.recording import Bad, Line

from .folder import SessionFolder, clear
from .manifest import Definition, Manifest, ManifestError, read_definition, read_manifest
from .repair import unlisted
from .segments import lines

#: States in which a recorder should live.
LIVE = ("starting", "recording", "stopping")
#: From which states a session can be recovered.
RECOVERABLE = ("interrupted", "failed")
GONE = "its recorder is gone; recover it"
#: Sessions whose states are kept in memory, as their manifests told them.
MOST_KEPT = 10_000


class NoSessionError(LookupError):
    """There is no session of that name."""


def state_of(definition: Definition, host: str = "") -> SessionState:
    """What is told of a session before anything was recorded."""
    return SessionState(
        cluster=definition.cluster,
        name=definition.name,
        id=definition.id,
        state="starting",
        job=definition.job,
        nodes=definition.nodes,
        devices=definition.devices,
        interval_s=definition.interval_s,
        adaptive=definition.adaptive,
        issuer=definition.issuer,
        host=host,
        started_s=definition.started_s,
        updated_s=definition.started_s,
    )


def _is_name(name: str) -> bool:
    return re.fullmatch(SESSION_NAME, name) is not None


class SessionStore:
    """The sessions under ``root``."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._lock = threading.Lock()
        self._states: OrderedDict[str, tuple[tuple[int, ...], SessionState]] = OrderedDict()

    def folder(self, name: str) -> SessionFolder:
        """The folder of a session that is there.

        Raises:
            NoSessionError: it is not.
        """
        folder = SessionFolder(self.root / name)
        if not _is_name(name) or not folder.definition.is_file():
            raise NoSessionError(name)
        return folder

    def create(self, definition: Definition, host: str) -> SessionFolder:
        """Make the folder of a new session, with what was asked for.

        Raises:
            FileExistsError: there is one of that name.
            OSError: the disk is full or may not be written.
        """
        folder = SessionFolder(self.root / definition.name)
        manifest = Manifest(state=state_of(definition, host))
        folder.create(
            {
                folder.manifest.name: msgspec.json.encode(manifest),
                folder.definition.name: msgspec.json.encode(definition),
            }
        )
        return folder

    def clear(self) -> list[str]:
        """Remove what a crash has left behind; the names of it."""
        return clear(self.root)

    def names(self) -> list[str]:
        """The sessions there are, by name; a folder that no session may be called is none."""
        try:
            names = (path.parent.name for path in self.root.glob("[A-Za-z0-9]*/session.json"))
            return sorted(name for name in names if _is_name(name))
        except OSError:
            return []

    def read(self, name: str) -> Manifest:
        """How far a session has come.

        Raises:
            NoSessionError: there is none of that name.
            ManifestError: its files cannot be used.
        """
        folder = self.folder(name)
        lived = folder.is_locked()
        manifest = read_manifest(folder.manifest)
        if manifest.state.state in LIVE and not lived:
            # It may have ended between the two looks.
            manifest = read_manifest(folder.manifest)
            if manifest.state.state in LIVE and not folder.is_locked():
                manifest.state = msgspec.structs.replace(manifest.state, state="interrupted", reason=GONE)
        return manifest

    def state(self, name: str) -> SessionState:
        """How a session stands: as ``read``, of a manifest that is read only when it is another.

        Raises:
            NoSessionError: there is none of that name.
            ManifestError: its files cannot be used.
        """
        folder = self.folder(name)
        try:
            about = folder.manifest.stat()
        except OSError as error:
            raise ManifestError(f"{name}/{folder.manifest.name}: {error.strerror}") from error
        # A manifest is replaced, never changed in place.
        mark = (about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns)
        with self._lock:
            kept = self._states.get(name)
        if kept is None or kept[0] != mark:
            kept = (mark, read_manifest(folder.manifest).state)
            with self._lock:
                self._states[name] = kept
                self._states.move_to_end(name)
                while len(self._states) > MOST_KEPT:
                    self._states.popitem(last=False)
        if kept[1].state in LIVE and not folder.is_locked():
            return self.read(name).state  # It may have ended in between.
        return kept[1]

    def definition(self, name: str) -> Definition:
        """What was asked for.

        Raises:
            NoSessionError: there is none of that name.
            ManifestError: its file cannot be used.
        """
        return read_definition(self.folder(name).definition)

    def lines(self, name: str, manifest: Manifest) -> Iterator[Line | Bad]:
        """The messages of a session, in the order in which they were recorded; also those of a segment that is open.

        Raises:
            NoSessionError: there is none of that name.
            OSError: a segment is gone.
        """
        folder = self.folder(name)
        files = [folder.path / segment.file for segment in manifest.segments]
        for path in [*files, *unlisted(folder.path, manifest)]:
            yield from lines(path)
