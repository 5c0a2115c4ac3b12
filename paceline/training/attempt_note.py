"""What a node's ranks agreed on last: a file beside the sidecar's socket, in a folder of this user alone.

Where each run has a store of its own, nothing else tells it from the one before if only the number of nodes changed.

Rule of this file: a note is a help. One that cannot be read or written, or is of another job, is none.
"""

from __future__ import annotations

import contextlib
import os
from typing import NamedTuple

#: No word is longer, and no number in it.
_LONGEST, _DIGITS = 100, 13
#: No note is: a word, and the name of a job.
_LONGEST_NOTE = 1000


class Word(NamedTuple):
    """What rank 0 says: the attempt, which process says so, and how often it has."""

    attempt: int
    speaker: str
    turn: int

    def text(self) -> str:
        """The word as a store holds it."""
        return f"{self.attempt} {self.speaker} {self.turn}"


def read_word(held: bytes | None) -> Word | None:
    """The word that a store holds; None where it holds none, or something else.

    >>> read_word(b"3 71-9f3c 12")
    Word(attempt=3, speaker='71-9f3c', turn=12)
    """
    parts = held.decode("ascii", "replace").split(" ") if held is not None and len(held) <= _LONGEST else []
    if len(parts) != 3 or not _whole(parts[0]) or not _whole(parts[2]):
        return None
    return Word(int(parts[0]), parts[1], int(parts[2]))


class AttemptNote:
    """The note of ``job`` beside ``socket``."""

    def __init__(self, socket: str, job: str) -> None:
        self._path = f"{socket}.attempt"
        self._job = job.encode("utf-8", "replace")

    def read(self) -> Word | None:
        """The word of the run before; None where there is none of this job."""
        with contextlib.suppress(OSError):
            descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                word, _, job = os.read(descriptor, _LONGEST_NOTE).partition(b"\n")
            finally:
                os.close(descriptor)
            return read_word(word) if job == self._job else None
        return None

    def write(self, word: Word) -> None:
        """Keep ``word`` for the run after this one."""
        with contextlib.suppress(OSError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
            descriptor = os.open(self._path, flags, 0o600)
            try:
                os.write(descriptor, word.text().encode() + b"\n" + self._job)
            finally:
                os.close(descriptor)


def _whole(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS
