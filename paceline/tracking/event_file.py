"""The door to TensorBoard: an event file of our own below the folder that the script's writer writes to.

Rule of this file: a folder of its own. TensorBoard reads one growing file a folder, and of two the newer: beside the
script's own file ours would end what people see of theirs.
"""

import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path

from .event_records import first, record, scalars, text

FOLDER, SUFFIX = "paceline", ".paceline"


class EventFile:
    """Writes below ``folder``; a disk that refuses ends it, and ``reason`` says why."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder) / FOLDER
        self.reason = ""
        self.written = 0
        self._descriptor: int | None = None

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Append numbers of ``step``."""
        self._append(scalars(time.time(), step, values))

    def text(self, step: int, name: str, words: str) -> None:
        """Append a text, line by line as it is."""
        self._append(text(time.time(), step, name, words.replace("\n", "  \n")))

    def _append(self, event: bytes) -> None:
        if self.reason:
            return
        try:
            if self._descriptor is None:
                self._open()
            assert self._descriptor is not None
            data = record(event)
            if os.write(self._descriptor, data) < len(data):
                self.reason = "the disk is full"
            self.written += 1
        except OSError as error:
            self.reason = str(error.strerror)

    def _open(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{time.time():010.0f}.{socket.gethostname()}.{os.getpid()}.0{SUFFIX}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self._descriptor = os.open(self.folder / name, flags, 0o666)
        os.write(self._descriptor, record(first(time.time())))

    def close(self) -> None:
        """End the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor = None
