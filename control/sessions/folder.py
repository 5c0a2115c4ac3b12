"""A session's folder: its files, who may write them, and how a file is replaced so that nobody ever sees half of it.

Rule of this file: the recorder alone holds the lock; whoever else finds it free knows that there is no recorder, also
from another container on the same disk, where a process id would mean nothing. Asking takes no lock: nobody who starts
a recorder is refused because somebody looks. A folder bears its session's name from when it is whole until it is not.
"""

import contextlib
import fcntl
import os
import secrets
import shutil
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from paceline.decoders import json_decoder

#: What is kept free for the last manifest, when the disk is full.
RESERVE_BYTES = 1024 * 1024
_PRIVATE, _PRIVATE_FOLDER = 0o600, 0o700
#: The kernel's `struct flock`; of an open file description, so that a recorder inherits the lock and a kill ends it.
_LOCK = struct.Struct("hhqqi4x")
_WHOLE_FILE = _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
#: What begins the names of folders that no session bears yet, or any more; and of the file whose holder makes one.
MAKING, DELETED, _TURN = ".new-", ".deleted-", ".making"


class StopRequest(msgspec.Struct, frozen=True):
    """Who wants the session to end, and why."""

    issuer: str = ""
    because: str = ""


class SessionFolder:
    """The files of one session."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.definition = path / "session.json"
        self.manifest = path / "manifest.json"
        self.log = path / "recorder.log"
        self._lock, self._stop, self._reserve = path / "lock", path / "stop", path / "reserve"

    @property
    def name(self) -> str:
        """What the session is called."""
        return self.path.name

    def create(self, files: Mapping[str, bytes]) -> None:
        """Make the folder with these files, on disk under its name when this returns; a crash leaves no half of it.

        Raises:
            FileExistsError: there is a session of that name.
            OSError: the disk is full or may not be written.
        """
        root = self.path.parent
        root.mkdir(parents=True, exist_ok=True, mode=_PRIVATE_FOLDER)
        with _turn(root):
            if self.definition.exists():
                raise FileExistsError(self.name)
            making = SessionFolder(root / f"{MAKING}{self.name}-{secrets.token_hex(8)}")
            making.path.mkdir(mode=_PRIVATE_FOLDER)
            try:
                making.take_reserve()
                for name, content in files.items():
                    making.replace(making.path / name, content)
                if self.path.exists():
                    self._put_away()  # Half of one, of a version that made it in place.
                making.path.rename(self.path)
            except OSError:
                shutil.rmtree(making.path, ignore_errors=True)
                raise
            _sync(root)

    def remove(self) -> None:
        """Delete it with all it holds.

        Raises:
            OSError: it cannot be.
        """
        # The name is free at once, and a crash half way leaves no half of a session behind under it.
        gone = self._put_away()
        _sync(gone.parent)
        shutil.rmtree(gone)

    def _put_away(self) -> Path:
        gone = self.path.with_name(f"{DELETED}{self.name}-{secrets.token_hex(8)}")
        self.path.rename(gone)
        return gone

    def replace(self, path: Path, content: bytes) -> None:
        """Let ``path`` hold ``content``, on disk when this returns.

        Raises:
            OSError: the disk is full or gone; the old content stays.
        """
        temporary = path.with_suffix(".new")
        with _opened(temporary) as descriptor:
            view = memoryview(content)
            while view:
                view = view[os.write(descriptor, view) :]
            os.fsync(descriptor)
        temporary.rename(path)
        self.sync()

    def sync(self) -> None:
        """Bring the names of new files to disk."""
        _sync(self.path)

    def take_reserve(self) -> None:
        """Keep room for a last manifest.

        Raises:
            OSError: the disk is full or may not be written.
        """
        with _opened(self._reserve) as reserve:
            os.posix_fallocate(reserve, 0, RESERVE_BYTES)

    def free_reserve(self) -> None:
        """Give back what was kept for a last manifest."""
        self._reserve.unlink(missing_ok=True)

    def ask_to_stop(self, request: StopRequest) -> None:
        """Ask the recorder to end.

        Raises:
            OSError: the disk is full or gone.
        """
        self.replace(self._stop, msgspec.json.encode(request))

    def stop_request(self) -> StopRequest | None:
        """Who has asked the recorder to end; None while nobody has."""
        try:
            return json_decoder(StopRequest).decode(self._stop.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return StopRequest()

    def forget_stop(self) -> None:
        """The recorder shall go on."""
        self._stop.unlink(missing_ok=True)

    def is_locked(self) -> bool:
        """Whether a recorder lives."""
        try:
            descriptor = os.open(self._lock, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            held = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _WHOLE_FILE)
            return bool(_LOCK.unpack(held)[0] != fcntl.F_UNLCK)
        except OSError:
            return False
        finally:
            os.close(descriptor)

    def take_lock(self) -> int:
        """Be the only one who writes here, until the descriptor is closed by all who have it.

        Raises:
            BlockingIOError: somebody else is.
            OSError: there is no such folder.
        """
        descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _PRIVATE)
        try:
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _WHOLE_FILE)
        except OSError:
            os.close(descriptor)
            raise
        return descriptor


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, _PRIVATE)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def clear(root: Path) -> list[str]:
    """Remove what a crash left under ``root`` while a session was made, deleted or exported; the names of it."""
    removed = []
    with contextlib.suppress(OSError), _turn(root):
        for path in sorted(root.iterdir()):
            if path.name.startswith((MAKING, DELETED)) and path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            elif path.name.startswith(".export-") and not path.is_dir():
                path.unlink(missing_ok=True)
            else:
                continue
            removed.append(path.name)
    return removed


@contextlib.contextmanager
def _turn(root: Path) -> Iterator[None]:
    """Be the only one who makes or clears folders under ``root``: two controls may share it."""
    with _opened(root / _TURN) as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
