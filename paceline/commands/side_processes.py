"""The two processes beside a training command: the sidecar that takes its timings, the analyzer that reads them.

Rule of this file: they may fail to start, die or hang, and the command must not notice. They live in sessions of their
own, so that a Ctrl-C meant for the command leaves them to finish, and they are never waited for longer than a bound.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from paceline.terminal import say

#: From the command's end until both have ended; an analyzer that has only just started gets this long from its start.
END_S = 5.0
SIDECAR_S = 3.5
YOUNG_S = 10.0


class SideProcesses:
    """Sidecar and analyzer, started together and ended together."""

    def __init__(self, record: str | None, brokers: str | None, job: str, *, panel: bool, live: bool) -> None:
        """Start them. What cannot start is said once."""
        self._folder = Path(tempfile.mkdtemp(prefix="paceline-"))
        self.socket = self._folder / "ranks"
        self._sidecar: subprocess.Popen[bytes] | None = None
        self._analyzer: subprocess.Popen[bytes] | None = None
        self._started = time.monotonic()
        self._told = False
        options = [
            option
            for name, value in (("--record", record), ("--brokers", brokers))
            if value
            for option in (name, value)
        ]
        try:
            self._start(
                ["--socket", str(self.socket), "--job", job, *options], panel=panel, live=live, quiet=record is not None
            )
        except OSError as error:
            say(f"cannot start beside the command: {error.strerror}; it runs without timings")
            self.kill()
        except BaseException:
            self.kill()
            raise

    def _start(self, options: list[str], *, panel: bool, live: bool, quiet: bool) -> None:
        reader = writer = -1
        try:
            if panel:
                reader, writer = os.pipe()
                words = ["analyze", "-", "--panel", *([] if live else ["--quiet"])]
                self._analyzer = _python("paceline", *words, stdin=reader, fds=())
                options = [*options, "--events-fd", str(writer)]
            options = [*options, "--quiet"] if quiet else options
            fds = (writer,) if panel else ()
            self._sidecar = _python("paceline.sidecar", *options, stdin=subprocess.PIPE, fds=fds)
            self._await_socket()
        finally:
            for end in (reader, writer):
                if end >= 0:
                    os.close(end)

    def _await_socket(self) -> None:
        """Wait until ranks can connect: the command's first rank must find the socket."""
        deadline = time.monotonic() + END_S
        while self._sidecar is not None and self._sidecar.poll() is None and not self.socket.exists():
            if time.monotonic() > deadline:
                say("the sidecar is slow to start: the first steps may go untimed")
                return
            time.sleep(0.02)

    def check(self) -> None:
        """Say once that the sidecar has died, if it has."""
        if not self._told and self._sidecar is not None and self._sidecar.poll() is not None:
            self._told = True
            say(f"the sidecar ended early (status {self._sidecar.returncode}): the run goes on, untimed from here")

    def end(self, exit_status: int) -> None:
        """Tell the sidecar how the command ended, and let both finish within the bound."""
        ended = time.monotonic()
        if self._sidecar is not None:
            self.check()
            _tell(self._sidecar, exit_status)
            _wait(self._sidecar, ended + SIDECAR_S)
        if self._analyzer is not None:
            if not _wait(self._analyzer, max(ended + END_S, self._started + YOUNG_S)):
                say("the analyzer did not finish in time: no panel")
            elif self._analyzer.returncode not in (0, 2):  # 2: nothing to judge, and it has said why.
                say(f"the analyzer failed (status {self._analyzer.returncode}): no panel")

    def kill(self) -> None:
        """Leave nothing behind."""
        for process in (self._sidecar, self._analyzer):
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()
            if process is not None and process.stdin is not None:
                with contextlib.suppress(OSError):
                    process.stdin.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def _python(module: str, *arguments: str, stdin: int, fds: tuple[int, ...]) -> subprocess.Popen[bytes]:
    # -P: the folder we stand in is the user's, and may hold a `streams` or `collectors` of its own.
    process = subprocess.Popen(  # noqa: S603 - our own interpreter and modules
        [sys.executable, "-P", "-m", module, *arguments],
        stdin=stdin,
        stdout=sys.stderr.fileno(),
        pass_fds=fds,
        start_new_session=True,
    )
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, process.pid, 10)
    return process


def _tell(sidecar: subprocess.Popen[bytes], exit_status: int) -> None:
    assert sidecar.stdin is not None
    with contextlib.suppress(OSError):
        sidecar.stdin.write(b"exit %d\n" % exit_status)
        sidecar.stdin.flush()
    with contextlib.suppress(OSError):
        sidecar.stdin.close()


def _wait(process: subprocess.Popen[bytes], deadline: float) -> bool:
    try:
        process.wait(max(deadline - time.monotonic(), 0.1))
    except subprocess.TimeoutExpired:
        return False
    return True
