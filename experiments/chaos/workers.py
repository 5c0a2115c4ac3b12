"""The workers of the stack: started as their users start them, hurt, and started again.

Rule of this file: starting, hurting and mending; who is hurt and when is decided elsewhere.
"""

import contextlib
import os
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen

import psutil

from paceline import child
from paceline.kafka.settings import BrokerSettings

from ..processes import ROOT

#: How many work when nothing is wrong.
USUAL = 2
#: Preloaded into a process, it tells it a time of day that is not so.
CLOCK = Path(__file__).parent / "clock.c"
COMPILER = shutil.which("cc") or ""


class Workers:
    """Some ``paceline streams`` processes with one log, and a clock that can be put forward and back."""

    def __init__(self, settings: BrokerSettings, folder: Path) -> None:
        self._address = settings.address
        self._log = folder / "workers.log"
        self._clock = folder / "clock"
        self._preload = _compiled(folder)
        self.processes: list[Popen[bytes]] = []
        self.starts = 0
        self.set_clock(0)

    def set_clock(self, ahead_s: int) -> None:
        """Put the clock of all of them so many seconds ahead of the machine's; negative: behind."""
        with self._clock.open("r+b" if self._clock.exists() else "wb") as file:  # It is mapped by who runs.
            file.write(struct.pack("l", ahead_s))

    def start(self) -> None:
        """One more."""
        environ = {**os.environ, "PYTHONPATH": str(ROOT)}
        if self._preload is not None:
            environ |= {"LD_PRELOAD": str(self._preload), "PACELINE_CHAOS_CLOCK": str(self._clock)}
        with self._log.open("ab") as log:
            command = [sys.executable, "-m", "streams", "--brokers", self._address, "--wait", "600"]
            self.processes.append(child.spawn(command, log, environ))
        self.starts += 1

    def signal(self, process: "Popen[bytes]", number: int) -> None:
        """Send a signal, where it still runs; one that ends it is waited for."""
        if process.poll() is None:
            process.send_signal(number)
            if number == signal.SIGKILL:
                process.wait()

    def ended_by_themselves(self) -> int:
        """How many ended that nobody has ended; they are forgotten."""
        gone = [process for process in self.processes if process.poll() is not None]
        for process in gone:
            self.processes.remove(process)
        return len(gone)

    def end(self, process: "Popen[bytes]", number: int) -> None:
        """End this one."""
        self.signal(process, signal.SIGCONT)
        self.signal(process, number)
        process.wait()
        self.processes.remove(process)

    def heal(self) -> None:
        """As many as usual, all awake, with the machine's time."""
        self.set_clock(0)
        for process in self.processes:
            self.signal(process, signal.SIGCONT)
        while len(self.processes) > USUAL:
            self.end(self.processes[-1], signal.SIGTERM)
        while len(self.processes) < USUAL:
            self.start()

    def memory_bytes(self) -> list[int]:
        """Resident memory of each."""
        out = []
        for process in self.processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                out.append(int(psutil.Process(process.pid).memory_info().rss))
        return out


def _compiled(folder: Path) -> Path | None:
    if not COMPILER:
        return None
    made = folder / "clock.so"
    subprocess.run([COMPILER, "-shared", "-fPIC", "-O2", "-o", str(made), str(CLOCK), "-ldl"], check=True)
    return made


@contextlib.contextmanager
def workers(settings: BrokerSettings, folder: Path) -> Iterator[Workers]:
    """The usual number of them; they end with the block."""
    made = Workers(settings, folder)
    made.heal()
    try:
        yield made
    finally:
        for process in list(made.processes):
            made.end(process, signal.SIGKILL)
