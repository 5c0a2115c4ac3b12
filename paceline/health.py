"""``/healthz``, ``/readyz`` and ``/metrics`` of a service: what is answered, and a small server.

Rule of this file: it only reads. Whether a request may be answered is ``hosts``' affair, for every service alike, and
how long a client may take that of the server: whatever it does, the service beside it goes on.
"""

import argparse
import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from . import hosts
from .http_limits import Limits
from .settings import SettingError
from .small_server import Answer, SmallServer, bound

#: The text form that every Prometheus reads.
METRICS = "text/plain; version=0.0.4; charset=utf-8"
#: Of a service that has a port for health alone: probes, scrapers, and room for clients that say nothing.
LIMITS = Limits(connections=64, head_bytes=16 * 1024, head_s=5.0, reader_s=10.0)
#: Answers that are made at a time.
MOST_ANSWERS = 2


def add_web_options(parser: argparse.ArgumentParser) -> None:
    """The options of a service that serves health and metrics where it is asked to."""
    parser.add_argument(
        "--web-port", type=_port, default=0, metavar="N", help="serve health and metrics on port N (default: none)"
    )
    parser.add_argument("--web-address", default="127.0.0.1", metavar="IP", help="on this address (default: loopback)")


def _port(raw: str) -> int:
    if not raw.isdecimal() or not 0 <= int(raw) <= 65535:
        raise argparse.ArgumentTypeError(f"{raw!r}; allowed: 0 (none) to 65535")
    return int(raw)


class Health(NamedTuple):
    """What a service tells: ``waits`` says what it waits for, None while it works; ``text`` is that of its metrics.

    Only requests for one of ``names`` are answered.
    """

    waits: Callable[[], str | None]
    text: Callable[[], str]
    names: Sequence[str]

    def answer(self, path: str, headers: Mapping[str, str]) -> Answer:
        """What a GET of ``path`` gets, with these headers."""
        problem = hosts.refusal(headers, self.names)
        if problem is not None:
            return Answer(403, ": ".join(problem) + "\n")
        if path == "/healthz":
            return Answer(200, "ok\n")
        if path == "/readyz":
            waiting = self.waits()
            return Answer(503 if waiting else 200, f"{waiting or 'ready'}\n")
        if path == "/metrics":
            return Answer(200, self.text(), METRICS)
        return Answer(404, "not found: /healthz, /readyz and /metrics are here\n")


class HealthServer:
    """Serves ``health`` from a thread of its own until it is closed.

    Raises:
        OSError: the port is taken, or no such address.
    """

    def __init__(self, address: str, port: int, health: Health, limits: Limits = LIMITS) -> None:
        self._health = health
        self._server = SmallServer(bound(address, port), self._answer, limits)
        self._pool = ThreadPoolExecutor(MOST_ANSWERS, "health-answer")
        self._loop, self._ending = asyncio.new_event_loop(), asyncio.Event()
        self.port = self._server.port
        self._thread = threading.Thread(target=self._run, name="health", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Answer nobody any more."""
        self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        await self._server.start()
        await self._ending.wait()
        await self._server.close()

    async def _answer(self, path: str, headers: Mapping[str, str]) -> Answer:
        if path == "/healthz":  # Whatever an answer waits for, this one says that the process lives.
            return self._health.answer(path, headers)
        return await self._loop.run_in_executor(self._pool, self._health.answer, path, headers)


def serve(address: str, port: int, health: Health) -> HealthServer:
    """Serve ``health`` on ``--web-port`` of a command.

    Raises:
        SettingError: the port is taken, or no such address.
    """
    try:
        return HealthServer(address, port, health)
    except OSError as error:
        raise SettingError(f"--web-port={port} on {address}: {error.strerror}; allowed: a free port") from error
