"""The processes beside a training command: the sidecar that takes its timings, the analyzer that reads them, and, where
its script's experiment trackers are to hear of it, the one that logs to these.

Rule of this file: they may fail to start, die or hang, and the command must not notice. A sidecar that died is started
again, unless it does so time after time. They live in sessions of their own, so that a Ctrl-C meant for the command
leaves them to finish, and they are never waited for longer than a bound.
"""

import contextlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random

from paceline.backoff import Backoff
from paceline.commands.left_running import left_running, sentence
from paceline.commands.own_folder import own_folder
from paceline.commands.side_process import ended_by, python
from paceline.commands.tracking import Tracking
from paceline.patience import patient
from paceline.terminal import say

#: From the command's end until both have ended; an analyzer that has only just started gets this long from its start.
#: PACELINE_PATIENCE makes all of them longer.
END_S = 5.0
SIDECAR_S = 3.5
YOUNG_S = 10.0
#: A sidecar that has lived so long did not die of its start; one that dies so often in a row is given up.
STEADY_S = 30.0
MOST_DEATHS = 5


class SideProcesses:
    """Sidecar and analyzer, started together and ended together."""

    def __init__(
        self,
        record: str | None,
        brokers: str | None,
        job: str,
        *,
        panel: bool,
        live: bool,
        commands: bool = True,
        captures: bool = False,
        nccl_inspector: str | None = None,
        track: Sequence[str] = (),
    ) -> None:
        """Start them. ``nccl_inspector`` is the folder that NCCL Inspector writes into, "" one of our own, which goes
        with us; ``track`` names experiment trackers.

        Raises:
            Exception: they cannot be started, and nothing of them is left.
        """
        self._end_s, self._sidecar_s, self._young_s = (
            patient(each, os.environ) for each in (END_S, SIDECAR_S, YOUNG_S)
        )
        self._folder = ""
        self._tracking: Tracking | None = None
        self._sidecar: subprocess.Popen[bytes] | None = None
        self._analyzer: subprocess.Popen[bytes] | None = None
        self._started = self._sidecar_started = time.monotonic()
        self._deaths = 0
        self._backoff = Backoff(0.25, 4.0, Random())
        self._restart_at: float | None = None
        #: Whether the death of the present sidecar has been told.
        self._told = False
        self._record = record
        self._writer = -1
        try:
            self._folder = own_folder(os.environ)
            folder = Path(self._folder)
            self._tracking = Tracking(folder, track, record) if track else None
            self.socket = folder / "ranks"
            self.nccl_folder = Path(nccl_inspector or folder / "nccl").absolute()
            self._options = ["--socket", str(self.socket), "--job", job, *(["--brokers", brokers] if brokers else [])]
            self._options += [] if commands else ["--no-commands"]
            self._options += ["--captures"] if captures else []
            self._options += [] if nccl_inspector is None else ["--nccl-inspector", str(self.nccl_folder)]
            if nccl_inspector == "":
                self.nccl_folder.mkdir(mode=0o700)
            self._start(panel=panel, live=live)
        except BaseException:
            self.kill()
            raise

    @property
    def tracking_socket(self) -> Path | None:
        """Where rank 0 tells of its script's runs."""
        return None if self._tracking is None else self._tracking.socket

    def _start(self, *, panel: bool, live: bool) -> None:
        if self._tracking is not None:
            self._tracking.start()
        if panel:
            reader, self._writer = os.pipe()
            words = ["analyze", "-", "--panel", "--of-run", *([] if live else ["--quiet"])]
            words += [] if self._tracking is None else ["--told", str(self._tracking.told)]
            try:
                self._analyzer = python("paceline", *words, stdin=reader, fds=())
            finally:
                os.close(reader)
        self._start_sidecar(self._record)
        self._await_socket()

    def _start_sidecar(self, record: str | None) -> None:
        options = [*self._options, *(["--record", record, "--quiet"] if record is not None else [])]
        piped = self._writer >= 0
        options += ["--events-fd", str(self._writer)] if piped else []
        fds: tuple[int, ...] = (self._writer,) if piped else ()
        if self._tracking is not None:
            options += ["--tracking-fd", str(self._tracking.writer)]
            fds += (self._tracking.writer,)
        self._sidecar = python("paceline.sidecar", *options, stdin=subprocess.PIPE, fds=fds)
        self._sidecar_started, self._told = time.monotonic(), False

    def _await_socket(self) -> None:
        """Wait until ranks can connect: the command's first rank must find the socket.

        Raises:
            ChildProcessError: the sidecar has ended instead, and would again.
        """
        deadline = time.monotonic() + self._end_s
        while self._sidecar is not None and not self.socket.exists():
            status = self._sidecar.poll()
            if status is not None and status < 0:
                return  # Somebody has killed it; the next one may live.
            if status is not None:
                raise ChildProcessError(f"the sidecar could not start (status {status})")
            if time.monotonic() > deadline:
                say("the sidecar is slow to start: the first steps may go untimed")
                return
            time.sleep(0.02)

    def check(self) -> None:
        """Start the sidecar again if it has died: what it had taken is sent by the next, and ranks look for that."""
        if self._sidecar is None or self._sidecar.poll() is None or self._deaths > MOST_DEATHS:
            return
        now = time.monotonic()
        if self._restart_at is None:
            self._mourn(now, self._sidecar.returncode)
        elif now >= self._restart_at:
            self._restart_at = None
            self._restart()

    def _mourn(self, now: float, status: int) -> None:
        """The sidecar has just been found dead: when to start it again, if at all."""
        if now - self._sidecar_started >= STEADY_S:
            self._deaths = 0
            self._backoff.reset()
        self._deaths += 1
        self._told = True
        if self._deaths > MOST_DEATHS:
            say(f"the sidecar ended early (status {status}), {self._deaths} times in a row: the run goes on, untimed")
            return
        self._restart_at = now + self._backoff.next_s()
        say(f"the sidecar ended early (status {status}) and is started again; the run goes on")

    def _restart(self) -> None:
        if self._sidecar is not None and self._sidecar.stdin is not None:
            with contextlib.suppress(OSError):
                self._sidecar.stdin.close()
        record = None if self._record is None else _next_part(self._record)
        if record is not None:
            say(f"the recording goes on in {record}")
        if self._writer >= 0:
            with contextlib.suppress(OSError):  # The line that the dead one may have been in ends here.
                os.write(self._writer, b"\n")
        try:
            self._start_sidecar(record)
        except OSError as error:
            self._deaths = MOST_DEATHS + 1
            say(f"cannot start the sidecar again: {error.strerror}; the run goes on, untimed")

    def end(self, exit_status: int) -> None:
        """Tell the sidecar how the command ended, and let both finish within the bound."""
        ended = time.monotonic()
        # Of a run that failed others are ending, too: a loader's workers notice it within seconds.
        left = left_running(self.socket) if exit_status == 0 else set()
        if self._sidecar is not None:
            if self._sidecar.poll() is not None and not self._told:
                say(f"the sidecar ended early (status {self._sidecar.returncode}): the run's end is untimed")
            _tell(self._sidecar, exit_status)
            ended_by(self._sidecar, ended + self._sidecar_s)
        if left and (left := left & left_running(self.socket)):  # Not those that were about to end.
            say(sentence(left))
        self._hang_up()
        if self._analyzer is not None:
            if not ended_by(self._analyzer, max(ended + self._end_s, self._started + self._young_s)):
                say("the analyzer did not finish in time: no panel")
            elif self._analyzer.returncode not in (0, 2):  # 2: nothing to judge, and it has said why.
                say(f"the analyzer failed (status {self._analyzer.returncode}): no panel")
        if self._tracking is not None:
            self._tracking.end()

    def kill(self) -> None:
        """Leave nothing behind, and say nothing: an analyzer that is alive when no more comes reports what it has."""
        if self._tracking is not None:
            self._tracking.kill()
        for process in (self._analyzer, self._sidecar):
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()
            if process is not None and process.stdin is not None:
                with contextlib.suppress(OSError):
                    process.stdin.close()
        self._hang_up()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _hang_up(self) -> None:
        """No sidecar will write to the analyzer any more."""
        if self._writer >= 0:
            os.close(self._writer)
        self._writer = -1


def _next_part(record: str) -> str:
    """The name of a recording that goes on where ``record`` broke off: ``run.2.jsonl.zst`` after ``run.jsonl.zst``."""
    stem, ending = re.fullmatch(r"(.*?)((?:\.jsonl)?(?:\.gz|\.zst)?)", record, re.S).groups()  # type: ignore[union-attr]
    number = 2
    while os.path.lexists(f"{stem}.{number}{ending}"):
        number += 1
    return f"{stem}.{number}{ending}"


def _tell(sidecar: subprocess.Popen[bytes], exit_status: int) -> None:
    assert sidecar.stdin is not None
    with contextlib.suppress(OSError):
        sidecar.stdin.write(b"exit %d\n" % exit_status)
        sidecar.stdin.flush()
    with contextlib.suppress(OSError):
        sidecar.stdin.close()
