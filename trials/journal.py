"""The journal of a trial: a line a run that ended, on disk before the next one is decided.

Rule of this file: a door. Lines are only added, each flushed to the disk; what a crash left of the last one is cut off.
One trial at a time has the folder.
"""

import errno
import fcntl
import os
import re
import shutil
from pathlib import Path
from typing import IO

import msgspec

from paceline.decoders import json_decoder

from .result import Told

NAME, LOCK = "journal.jsonl", "lock"
LAYOUT = 1
MOST_BYTES = 256 * 2**20


class JournalError(RuntimeError):
    """A folder that cannot be gone on with: the cause and the mend."""


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """Whose journal it is: a fingerprint of the spec, the command and the placements."""

    layout: int
    trial: str
    fingerprint: str


class Journal:
    """An open journal. ``runs`` are those that it held."""

    def __init__(self, folder: Path, trial: str, fingerprint: str, *, fresh: bool = False) -> None:
        """Open or begin it; ``fresh`` throws away what was there.

        Raises:
            JournalError: another trial runs in the folder, the journal is of another one, or cannot be read or written.
        """
        self.runs: list[Told] = []
        self._path = folder / NAME
        head = Head(layout=LAYOUT, trial=trial, fingerprint=fingerprint)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock: IO[bytes] = (folder / LOCK).open("ab")
            self._take(folder)
            if fresh:
                _emptied(folder)
            whole = self._read(head)
            self._file = self._path.open("ab", buffering=0)
            self._file.truncate(whole)
            if not whole:
                self._append(head)
        except OSError as error:
            raise JournalError(f"{error.filename or folder}: {error.strerror}; choose another --folder") from error
        except JournalError:
            self._lock.close()
            raise

    def _take(self, folder: Path) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise JournalError(
                f"{folder}: another trial runs in it; wait for it, or choose another --folder"
            ) from error

    def _read(self, head: Head) -> int:
        """Read what is there; the length of its whole lines."""
        if not self._path.exists():
            return 0
        if self._path.stat().st_size > MOST_BYTES:
            raise JournalError(f"{self._path}: larger than a journal gets; start again with --fresh")
        held = self._path.read_bytes()
        whole = held.rfind(b"\n") + 1
        lines = held[:whole].splitlines()
        if not lines:
            return 0
        try:
            found = json_decoder(Head).decode(lines[0])
            self.runs = [json_decoder(Told).decode(line) for line in lines[1:]]
        except msgspec.DecodeError as error:
            raise JournalError(f"{self._path}: damaged ({error}); start again with --fresh") from error
        if found != head:
            raise JournalError(
                f"{self._path.parent}: holds a trial with another spec, command or machine; --fresh throws it away, "
                "--folder names another place"
            )
        return whole

    def add(self, run: Told) -> None:
        """Keep ``run``.

        Raises:
            JournalError: the disk is full or gone.
        """
        try:
            self._append(run)
        except OSError as error:
            raise JournalError(
                f"{self._path}: {error.strerror}; the trial can go on where it is once it can be written"
            ) from error
        self.runs.append(run)

    def _append(self, line: msgspec.Struct) -> None:
        held = msgspec.json.encode(line) + b"\n"
        if self._file.write(held) != len(held):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Let others have the folder."""
        self._file.close()
        self._lock.close()


def _emptied(folder: Path) -> None:
    """Remove the jobs' folders, which an executor may take for a job's answer, and then the journal."""
    for entry in folder.iterdir():
        if re.fullmatch(r"r\d+-n\d+-p\d+-t\d+", entry.name) and entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
    (folder / NAME).unlink(missing_ok=True)
