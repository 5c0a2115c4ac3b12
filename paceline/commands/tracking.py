"""The process beside a training command that logs to the experiment trackers of its script.

Rule of this file: it may fail to start, die or hang, and neither the command nor its timing notices. It has a pipe from
the sidecar, a file of the analyzer's and a socket for rank 0; its standard input ends when all the others have ended.
"""

import contextlib
import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from paceline.commands.side_process import ended_by, python
from paceline.patience import patient
from paceline.terminal import say

#: How long it may take at the end to log the rest, and, where there is a recording, to make its report besides;
#: PACELINE_PATIENCE makes these longer.
END_S, REPORT_S = 12.0, 65.0
#: Until rank 0 could connect; nobody waits longer for it.
START_S = 5.0


class Tracking:
    """One command's; ``folder`` is ours alone."""

    def __init__(self, folder: Path, track: Sequence[str], record: str | None) -> None:
        self.socket, self.told = folder / "tracking", folder / "told.jsonl"
        self._track, self._record = track, record
        self._process: subprocess.Popen[bytes] | None = None
        #: What the sidecar writes to.
        self.writer = -1

    def start(self) -> None:
        """Start it, and wait a moment until rank 0 can connect.

        Raises:
            OSError: it cannot be started.
        """
        reader, self.writer = os.pipe()
        words = [word for one in self._track for word in ("--track", one)]
        words += ["--socket", str(self.socket), "--told", str(self.told), "--events-fd", str(reader)]
        words += ["--record", self._record] if self._record else []
        try:
            self._process = python("paceline.tracking", *words, stdin=subprocess.PIPE, fds=(reader,))
        finally:
            os.close(reader)
        deadline = time.monotonic() + patient(START_S, os.environ)
        while self._process.poll() is None and not self.socket.exists() and time.monotonic() < deadline:
            time.sleep(0.02)

    def end(self) -> None:
        """All others have ended: let it log the rest, within the bound."""
        self._hang_up()
        if self._process is None:
            return
        early = self._process.poll()
        if early is not None:
            say(f"what logs to experiment trackers ended early (status {early}): the rest was not logged")
            return
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        limit_s = patient(END_S + (REPORT_S if self._record else 0.0), os.environ)
        if not ended_by(self._process, time.monotonic() + limit_s):
            say("what logs to experiment trackers did not finish in time: the rest was not logged")

    def kill(self) -> None:
        """Leave nothing behind."""
        self._hang_up()
        process = self._process
        if process is not None and process.poll() is None:
            process.kill()
            process.wait()
        if process is not None and process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()

    def _hang_up(self) -> None:
        if self.writer >= 0:
            os.close(self.writer)
        self.writer = -1
