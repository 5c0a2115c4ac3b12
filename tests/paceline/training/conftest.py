"""A sidecar's socket that only listens, and a way to run training scripts against it."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from experiments.forking import Forking, forking
from paceline.sidecar.decode import MarkDecoder, fault_in
from paceline.sidecar.rank_messages import decode
from paceline.sidecar.rank_rows import PARTS, CollectiveRow, Report, StepRow
from paceline.training.messages import SOCKET_VARIABLE, Bye, Hello, LinkReport, Marks

ROOT = Path(__file__).parents[3]
SCRIPTS = Path(__file__).parent / "scripts"
BOOTSTRAP = ROOT / "paceline" / "training" / "bootstrap"


class Heard:
    """What one rank said on one connection."""

    def __init__(self) -> None:
        self.hello: Hello | None = None
        self.bye: Bye | None = None
        self.decoder = MarkDecoder()
        self.rows: list[StepRow] = []
        self.collectives: list[CollectiveRow] = []
        self.links: list[LinkReport] = []
        self.lost = 0
        self.sizes: list[int] = []

    def hear(self, data: bytes) -> None:
        message = decode(data)
        self.sizes.append(len(data))
        if isinstance(message, Hello):
            self.hello = message
        elif isinstance(message, Bye):
            self.bye = message
            self._add(self.decoder.end())
        elif isinstance(message, Marks):
            assert fault_in(message) is None
            self.lost += message.lost
            self.links += [message.link] if message.link is not None else []
            self._add(self.decoder.decode(message))

    def _add(self, report: Report | None) -> None:
        if report is None:
            return
        self.rows += report.steps
        self.collectives += report.collectives

    def steps(self) -> list[dict[str, float]]:
        """Seconds by phase of each step; those of several micro-batches are ``op index``."""
        return [_seconds(row) for row in sorted(self.rows, key=lambda row: row.step)]


def _seconds(row: StepRow) -> dict[str, float]:
    found = {name: took for name, took in zip(PARTS, row.seconds, strict=True) if took == took}
    if row.microbatches:
        found = {name: took for name, took in found.items() if name not in ("forward", "backward")}
    for number, *passes in row.microbatches:
        both = zip(("forward", "backward"), passes, strict=True)
        found |= {f"{name} {number}": took for name, took in both if took == took}
    return found | {"step": row.step_s}


class Listener:
    """Listens at ``path``; ``heard`` holds what came, one entry a connection, in order of their rank once closed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.heard: list[Heard] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(str(path))
        self._listener.listen(16)
        self._acceptor = threading.Thread(target=self._accept)
        self._acceptor.start()

    def _accept(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            if not self.path.exists():  # the knock of ``close``
                connection.close()
                return
            self._threads.append(threading.Thread(target=self._hear, args=(connection,)))
            self._threads[-1].start()

    def _hear(self, connection: socket.socket) -> None:
        heard = Heard()
        self.heard.append(heard)
        with connection:
            while data := connection.recv(1 << 20):
                heard.hear(data)

    def close(self) -> None:
        if self._listener.fileno() < 0:
            return
        knock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        other = self.path.with_suffix(".closing")
        self.path.rename(other)
        with knock:
            knock.connect(str(other))
            self._acceptor.join()
        for thread in self._threads:
            thread.join()
        self._listener.close()
        self.heard.sort(key=lambda heard: heard.hello.rank if heard.hello else -1)

    def run(
        self, *command: str, environ: dict[str, str] | None = None, timeout: float = 300
    ) -> subprocess.CompletedProcess[str]:
        """Run a Python command with the probe in it and hear it out."""
        own = {SOCKET_VARIABLE: str(self.path), "PYTHONPATH": str(BOOTSTRAP), "OMP_NUM_THREADS": "1"}
        done = run_python(*command, environ={**own, **(environ or {})}, timeout=timeout)
        self.close()
        return done


def run_python(
    *command: str, environ: dict[str, str], timeout: float = 300, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run ``python command``; its output is captured."""
    whole = {**os.environ, "OMP_NUM_THREADS": "1", **environ}
    return subprocess.run(
        [sys.executable, *command], env=whole, capture_output=True, text=True, timeout=timeout, check=False, cwd=cwd
    )


@pytest.fixture(scope="session")
def python() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs ``python command`` with no probe in it."""
    return run_python


@pytest.fixture(scope="session")
def scripts() -> Path:
    """The folder of training scripts."""
    return SCRIPTS


@pytest.fixture(scope="session")
def two_ranks(tmp_path_factory: pytest.TempPathFactory, free_port: Callable[[], int]) -> Callable[[], Forking]:
    """What starts two ranks that share one import of PyTorch, once."""
    return lambda: forking(2, tmp_path_factory.mktemp("ranks"), free_port())


@pytest.fixture(scope="module")
def new_listener(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Listener]]:
    """Makes listeners at sockets of their own; they are closed in the end."""
    made: list[Listener] = []

    def make() -> Listener:
        made.append(Listener(tmp_path_factory.mktemp("socket") / "ranks.sock"))
        return made[-1]

    yield make
    for listener in made:
        listener.close()
