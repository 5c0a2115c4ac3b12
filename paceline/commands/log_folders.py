"""Where ``paceline up`` and ``paceline demo`` keep the logs of their services: a folder for each start, beside what is
kept of running stacks.

Rule of this file: the newest ``KEPT`` folders remain. Each process that writes into one holds a lock on it, and a
folder that is locked, or that this file did not name, is never removed.
"""

import contextlib
import fcntl
import os
import re
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from paceline.commands import stack_state

#: Folders that remain, with the one just made.
KEPT = 5
#: More entries are not looked at.
MOST_ENTRIES = 1000
_LOCK = "lock"
#: When it was made, and by which process.
_NAME = re.compile(r"\d{8}T\d{6}-\d{6}-\d+")


def new_folder(environ: Mapping[str, str], now_s: float) -> Path:
    """A new folder, held by this process until it ends; older ones than the newest ``KEPT`` are removed.

    Where the user's folder of states cannot be used, it is one among the temporary files.

    Args:
        now_s: Unix time.

    Raises:
        OSError: no folder can be made.
    """
    place = stack_state.folder(environ) / "logs"
    try:
        folder = _made(place, now_s)
    except OSError:
        return Path(tempfile.mkdtemp(prefix="paceline-logs-"))
    hold(folder)
    _prune(place, folder)
    return folder


def hold(folder: Path) -> None:
    """Keep ``folder`` from being removed by others as long as this process runs."""
    # Without the lock (a disk that has none, or is full) the folder may go once five younger ones are there.
    with contextlib.suppress(OSError):
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)


def _made(place: Path, now_s: float) -> Path:
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    seen = place.lstat()
    if seen.st_uid != os.getuid() or seen.st_mode & 0o022:
        raise PermissionError(f"{place} is open to others")
    at = time.strftime("%Y%m%dT%H%M%S", time.gmtime(now_s))
    folder = place / f"{at}-{int(now_s % 1 * 1e6):06d}-{os.getpid()}"
    folder.mkdir(mode=0o700)
    return folder


def _prune(place: Path, new: Path) -> None:
    with contextlib.suppress(OSError), os.scandir(place) as entries:
        seen = [entry for entry, _ in zip(entries, range(MOST_ENTRIES), strict=False)]
        folders = {entry.name for entry in seen if entry.is_dir(follow_symlinks=False)}
        held = sorted(name for name in folders - {new.name} if _NAME.fullmatch(name))
        for name in held[: max(0, len(held) - KEPT + 1)]:
            _remove(place / name)


def _remove(folder: Path) -> None:
    """Remove ``folder``, unless a process holds it."""
    with contextlib.suppress(OSError):
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder)
        finally:
            os.close(lock)
