"""Tracking: a thread of rank 0 that tells which runs its script has open, and logs where only this process can.

Rule of this file: the training thread never waits for it and nothing is raised into the script. A tracking process
that is not there, or has gone, is looked for again once a turn; what it would have told is then not logged.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections import deque
from collections.abc import Mapping
from typing import Any

from paceline.training.open_runs import open_runs
from paceline.training.socket_path import short_path
from paceline.training.telling import reason, tell
from paceline.training.tracking_words import (
    CALLBACK,
    MOST_BYTES,
    TRACKING_VARIABLE,
    WANDB,
    OpenRun,
    Told,
    decode_told,
    encode_runs,
)
from paceline.training.wandb_log import WandbLog

EVERY_S = 0.5
#: How long the end of training waits for the last turn.
END_S = 1.0
#: What waits for a callback that does not come to take it: of more the newest.
MOST_WAITING = 100


class Tracking:
    """Tells the tracking process at ``path`` of open runs, until ``finish``; ``modules`` are those imported."""

    def __init__(self, path: str, modules: Mapping[str, Any] | None = None) -> None:
        self._path = path
        self._modules = sys.modules if modules is None else modules
        self._wandb = WandbLog(self._modules)
        self._failed = False
        self._socket: socket.socket | None = None
        self._said: bytes | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="paceline-tracking", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def finish(self) -> None:
        """Look once more, and end."""
        self._stop.set()
        self._thread.join(END_S)

    def leave_child(self) -> None:
        """In a forked child: let go of the socket."""
        if self._socket is not None:
            self._socket.close()

    def _run(self) -> None:
        stopping = False
        while not stopping:
            try:
                self._turn()
            except Exception:  # The tracking process has gone, or a tracker's insides are others: not the script's.
                self._disconnect()
            stopping = self._stop.wait(EVERY_S)
        try:
            self._turn()
        except Exception:
            self._said = None
        finally:
            self._disconnect()

    def _turn(self) -> None:
        runs = open_runs(self._modules)
        if callback.wanted:
            runs.append(OpenRun(CALLBACK))
        self._tell(encode_runs(runs))
        for told in self._hear():
            if CALLBACK in told.trackers:
                callback.waiting.append(told)
            if WANDB in told.trackers:
                self._log(told)

    def _log(self, told: Told) -> None:
        if self._failed:
            return
        try:
            self._wandb.log(told)
        except Exception as error:
            self._failed = True
            tell(f"nothing more goes to W&B: {reason(error)}; training goes on")

    def _tell(self, said: bytes) -> None:
        if self._socket is None:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            try:
                with short_path(self._path) as path:
                    connection.connect(path)
                connection.setblocking(False)
            except OSError:
                connection.close()
                raise
            self._socket = connection
        if said != self._said:
            self._socket.send(said)
            self._said = said

    def _hear(self) -> list[Told]:
        heard: list[Told] = []
        while self._socket is not None and len(heard) < MOST_WAITING:
            try:
                data = self._socket.recv(MOST_BYTES)
            except BlockingIOError:
                break
            if not data:
                raise ConnectionResetError
            told = decode_told(data)
            if told is not None:
                heard.append(told)
        return heard

    def _disconnect(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = self._said = None


class Callback:
    """What a framework's callback in this process logs: points that the training thread takes at the end of a step."""

    def __init__(self) -> None:
        self.wanted = False
        self.waiting: deque[Told] = deque(maxlen=MOST_WAITING)

    def take(self) -> Told | None:
        """What has come since the last time, as one: of each name the newest; None where nothing has."""
        values: dict[str, float] = {}
        texts: dict[str, str] = {}
        tags: list[str] = []
        while self.waiting:
            told = self.waiting.popleft()
            values.update(told.values)
            texts.update(told.texts)
            tags = told.tags or tags
        return Told(values, texts, tags) if values or texts else None


callback = Callback()


def tracking_of(rank: int, environ: Mapping[str, str]) -> Tracking | None:
    """What tells of rank 0's runs, where somebody asked for it."""
    path = environ.get(TRACKING_VARIABLE, "")
    return Tracking(path) if path and rank == 0 and os.path.isabs(path) else None
