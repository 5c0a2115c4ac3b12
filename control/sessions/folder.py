"""A session's folder: its files, who may write them, and how a file is replaced so that nobody ever sees half of it.

Rule of this file: the recorder alone holds the lock; whoever else finds it free knows that there is no recorder, also
from another container on the same disk, where a process id would mean nothing.
"""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec

#: What is kept free for the last manifest, when the disk is full.
RESERVE_BYTES = 1024 * 1024
_PRIVATE, _PRIVATE_FOLDER = 0o600, 0o700


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

    def create(self) -> None:
        """Make the folder.

        Raises:
            FileExistsError: there is a session of that name.
            OSError: the disk is full or may not be written.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=_PRIVATE_FOLDER)
        self.path.mkdir(mode=_PRIVATE_FOLDER)
        try:
            self.take_reserve()
        except OSError:
            self.remove()
            raise

    def remove(self) -> None:
        """Delete it with all it holds."""
        # The name is free at once, and a crash half way leaves no half of a session behind under it.
        gone = self.path.with_name(f".deleted-{self.name}-{os.getpid()}")
        self.path.rename(gone)
        shutil.rmtree(gone)

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
        descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

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
            return msgspec.json.decode(self._stop.read_bytes(), type=StopRequest)
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
            os.close(self.take_lock())
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def take_lock(self) -> int:
        """Be the only one who writes here, until the descriptor is closed by all who have it.

        Raises:
            BlockingIOError: somebody else is.
            OSError: there is no such folder.
        """
        descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _PRIVATE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
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
