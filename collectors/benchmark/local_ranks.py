"""The ranks of an all-reduce on this node alone: started, listened to, and ended, whatever happens.

Rule of this file: what rank 0 has said is kept. A rank that dies, or falls silent for longer than a size can take, ends
them all, and is named. None outlives this process: each dies with it, by the kernel's doing.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import IO, Any

from paceline import child

from .ending import whole
from .rank import MARK

#: Seconds without a word after which a rank hangs: starting PyTorch on a busy machine takes long.
SILENT_S = 60.0
_LOOK_S, _REAP_S = 0.05, 10.0
#: Bytes of what a rank says that are looked at.
_MOST_SAID = 2**20


class RankError(RuntimeError):
    """A rank that died or hung: which, and its last words."""


class LocalRanks:
    """``count`` ranks over ``backend``; ``store`` is theirs, held by this process."""

    def __init__(
        self,
        count: int,
        backend: str,
        store_port: int,
        largest: int,
        budget_s: float,
        environ: Mapping[str, str],
        silent_s: float = SILENT_S,
    ) -> None:
        self._silent_s = silent_s
        self._outputs: list[IO[bytes]] = []
        self._processes: list[subprocess.Popen[bytes]] = []
        self._lines: list[list[dict[str, Any]]] = [[] for _ in range(count)]
        surroundings = dict(environ)
        if backend == "gloo":  # One machine: its name may lead anywhere.
            surroundings |= {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
        try:
            for rank in range(count):
                output = tempfile.TemporaryFile()  # noqa: SIM115 - closed with all else
                self._outputs.append(output)
                words = [rank, count, store_port, backend, largest, budget_s, silent_s]
                command = [sys.executable, "-P", "-m", f"{__package__}.rank", *map(str, words)]
                with whole():
                    self._processes.append(child.spawn(command, output, surroundings))
        except BaseException:
            self.close()
            raise

    @property
    def pids(self) -> list[int]:
        """The processes."""
        return [process.pid for process in self._processes]

    def run(
        self,
        on_size: Callable[[int], None],
        on_speeds: Callable[[int, list[float]], None],
        on_start: Callable[[], None] = lambda: None,
    ) -> None:
        """Wait for the end; ``on_size`` is told what begins, ``on_speeds`` what was measured, of rank 0.

        ``on_start`` is called on every look before the first size begins.

        Raises:
            RankError: a rank died, or none of them says anything any more.
        """
        heard_s, begun = time.monotonic(), False
        while True:
            codes = [process.poll() for process in self._processes]
            fresh = [(rank, line) for rank in range(len(codes)) for line in self._news(rank)]
            for rank, line in fresh:
                if rank == 0 and "begins" in line:
                    begun = True
                    on_size(line["begins"])
                elif rank == 0 and line.get("speeds"):
                    on_speeds(line["size_bytes"], line["speeds"])
            if fresh:
                heard_s = time.monotonic()
            if not begun:
                on_start()
            self._judge(codes, time.monotonic() - heard_s)
            if all(code == 0 for code in codes):
                return
            time.sleep(_LOOK_S)

    def _judge(self, codes: list[int | None], silent_s: float) -> None:
        for rank, code in enumerate(codes):
            if code:
                how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
                raise RankError(f"rank {rank} of {len(codes)} {how}{self._last_words(rank)}")
        if silent_s > self._silent_s:
            least = min(map(len, self._lines))
            names = ", ".join(str(rank) for rank, lines in enumerate(self._lines) if len(lines) == least)
            raise RankError(
                f"no rank reported anything for {silent_s:.0f} s; those with the least may hang: {names}; killed"
            )

    def _news(self, rank: int) -> list[dict[str, Any]]:
        """What ``rank`` has said since the last look."""
        text = os.pread(self._outputs[rank].fileno(), _MOST_SAID, 0).decode(errors="replace")
        whole = text[: text.rfind("\n") + 1]
        said = [json.loads(line.removeprefix(MARK)) for line in whole.splitlines() if line.startswith(MARK)]
        fresh = said[len(self._lines[rank]) :]
        self._lines[rank] += fresh
        return fresh

    def _last_words(self, rank: int) -> str:
        size = os.fstat(self._outputs[rank].fileno()).st_size
        tail = os.pread(self._outputs[rank].fileno(), 4096, max(0, size - 4096)).decode(errors="replace")
        words = [line.strip() for line in tail.splitlines() if line.strip() and not line.startswith(MARK)]
        return f": {words[-1][:300]}" if words else ""

    def close(self) -> None:
        """End all that run; nothing of them is left when this returns."""
        with whole():
            for process in self._processes:
                if process.poll() is None:
                    _kill(process)
            for process in self._processes:
                process.wait(_REAP_S)
            for output in self._outputs:
                output.close()


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """All of its session; it may not have one of its own yet, and it may just have ended."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
