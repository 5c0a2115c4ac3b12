"""Where the data loader's worker of a rank hangs: its own line of code, by py-spy, which reads it without a pause.

Rule of this file: it waits for nobody, runs one py-spy at a time, and ends one that takes too long. The worker is not
stopped and not signalled (``--nonblocking``). Where there is no py-spy, or it may not read, that is said instead.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path
from typing import IO

import msgspec

from paceline.decoders import json_decoder
from paceline.sidecar.look_verdict import WorkerLine
from paceline.sidecar.proc_files import text_of
from paceline.training.look_messages import LONGEST_FRAME
from paceline.visible import visible

#: Workers of one rank that are looked at, ranks of a node whose workers are, and seconds that one look may take.
MOST_WORKERS, MOST_WAITING_RANKS, LONGEST_S = 8, 64, 10.0
_MOST_BYTES = 1 << 20
_WORKER = "torch/utils/data/_utils/worker.py"
_NOT_USERS = ("/site-packages/", "/dist-packages/", "/lib/python3", "<")
NO_PY_SPY, NOT_ALLOWED, FAILED = (
    "py-spy is not installed on its node",
    "py-spy may not read it",
    "py-spy cannot read it",
)


class _Frame(msgspec.Struct):
    name: str
    filename: str
    line: int


class _Thread(msgspec.Struct):
    frames: list[_Frame]


def worker_line(dump: bytes, folder: str = "") -> str:
    """The innermost line of the user's own code in a loader's worker, of what py-spy prints as JSON; "" where the
    process is no such worker, or waits for work. Of files below ``folder`` the path begins there.

    Raises:
        ValueError: it is no dump.
    """
    for thread in json_decoder(list[_Thread]).decode(dump):
        # Below its loop a forked worker still has the stack of its rank.
        inner = list(takewhile(lambda frame: not frame.filename.endswith(_WORKER), thread.frames))
        own = [frame for frame in inner if not any(place in frame.filename for place in _NOT_USERS)]
        if own and len(inner) < len(thread.frames):
            return _place(own[0], folder)
    return ""


def _place(frame: _Frame, folder: str) -> str:
    place = f":{frame.line} {frame.name}"[-LONGEST_FRAME:]
    path = frame.filename.removeprefix(f"{folder}/") if folder else frame.filename
    return visible(path[-(LONGEST_FRAME - len(place)) :] + place if len(place) < LONGEST_FRAME else place)[
        -LONGEST_FRAME:
    ]


class Dump:
    """One py-spy that reads the process ``pid``."""

    def __init__(self, program: str, pid: int) -> None:
        self._out: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - until it has been read
        command = [program, "dump", "--nonblocking", "--json", "--pid", str(pid)]
        try:
            self._child = subprocess.Popen(  # noqa: S603 - py-spy of our own path
                command, stdin=subprocess.DEVNULL, stdout=self._out, stderr=self._out
            )
        except OSError:
            self._out.close()
            raise

    def result(self) -> tuple[int, bytes] | None:
        """Its exit status and what it printed; None while it runs."""
        status = self._child.poll()
        if status is None:
            return None
        self._out.seek(0)
        printed = self._out.read(_MOST_BYTES)
        self._out.close()
        return status, printed

    def kill(self) -> None:
        """End it, without waiting for its end: in the kernel, where it reads a process, it cannot be killed."""
        self._child.kill()
        self._out.close()

    def is_gone(self) -> bool:
        """Whether it has ended."""
        return self._child.poll() is not None


class WorkerLines:
    """The lines of the workers of this node's ranks. ``program`` is the path of py-spy, None where there is none."""

    def __init__(
        self,
        program: str | None,
        proc: Path = Path("/proc"),
        start: Callable[[str, int], Dump] = Dump,
    ) -> None:
        self._program, self._proc, self._start = program, proc, start
        self._known: dict[int, WorkerLine] = {}
        #: Workers that are to be looked at, each with its rank's process; and the look under way, since when.
        self._waiting: list[tuple[int, int]] = []
        self._running: tuple[int, int, Dump, float] | None = None
        #: One that was killed and has not ended yet: until then there is no other.
        self._killed: Dump | None = None

    def ask(self, pid: int) -> WorkerLine:
        """What is known of the workers of the rank whose process is ``pid``; they are looked at from now on."""
        if self._program is None:
            return WorkerLine(unseen=NO_PY_SPY)
        busy = [rank for rank, _ in self._waiting] + ([self._running[0]] if self._running else [])
        if pid not in busy and len(set(busy)) < MOST_WAITING_RANKS:
            words = text_of(self._proc / str(pid) / "task" / str(pid) / "children").split()
            self._waiting += [(pid, int(word)) for word in words[:MOST_WORKERS] if word.isdigit()]
        return self._known.get(pid, WorkerLine())

    def forget(self, pid: int) -> None:
        """The rank goes on, or is gone."""
        self._known.pop(pid, None)
        self._waiting = [one for one in self._waiting if one[0] != pid]

    def turn(self, now_s: float) -> None:
        """Take in a look that is over, and begin the next."""
        if self._killed is not None and self._killed.is_gone():
            self._killed = None
        if self._running is not None:
            rank, worker, dump, since_s = self._running
            result = dump.result()
            if result is None and now_s - since_s < LONGEST_S:
                return
            self._running = None
            if result is None:
                dump.kill()
                self._killed, result = None if dump.is_gone() else dump, (-1, b"")
            self._note(rank, self._read(worker, *result))
        if self._waiting and self._program is not None and self._killed is None:
            rank, worker = self._waiting.pop(0)
            try:
                self._running = rank, worker, self._start(self._program, worker), now_s
            except OSError:
                self._note(rank, WorkerLine(unseen=FAILED))

    def _read(self, worker: int, status: int, printed: bytes) -> WorkerLine:
        if status != 0:
            return WorkerLine(unseen=NOT_ALLOWED if b"ermission" in printed else FAILED)
        try:
            folder = os.readlink(self._proc / str(worker) / "cwd")
        except OSError:
            folder = ""
        try:
            return WorkerLine(worker_line(printed, folder))
        except ValueError:
            return WorkerLine(unseen=FAILED)

    def _note(self, rank: int, seen: WorkerLine) -> None:
        """A line counts more than that another worker has none."""
        if seen.line:
            self._known[rank] = seen
            self._waiting = [one for one in self._waiting if one[0] != rank]
        elif not self._known.get(rank, seen).line and (seen.unseen or rank not in self._known):
            self._known[rank] = seen

    def close(self) -> None:
        """End what runs."""
        if self._running is not None:
            self._running[2].kill()
            self._running = None


def py_spy() -> str | None:
    """The path of py-spy."""
    return shutil.which("py-spy")
