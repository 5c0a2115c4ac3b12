"""``/healthz``, ``/readyz`` and ``/metrics`` of a service: what is answered, and a small server.

Rule of this file: it only reads. Whether a request may be answered is ``hosts``' affair, for every service alike. A
server here has few threads and no patience: whatever a client does, the service beside it goes on.
"""

import argparse
import contextlib
import logging
import socket
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from socketserver import ThreadingMixIn
from typing import Any, NamedTuple

from . import hosts
from .settings import SettingError

log = logging.getLogger(__name__)
PLAIN = "text/plain; charset=utf-8"
#: The text form that every Prometheus reads.
METRICS = "text/plain; version=0.0.4; charset=utf-8"
#: Requests that are answered at a time; how long a client may pause, and take for all of one.
MOST_REQUESTS, PATIENCE_S, LONGEST_S = 8, 5.0, 20.0


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


class Answer(NamedTuple):
    """What a request gets."""

    status: int
    text: str
    content_type: str = PLAIN


class Health(NamedTuple):
    """What a service tells: ``waits`` says what it waits for, None while it works; ``text`` is that of its metrics.

    Only requests for one of ``names`` are answered.
    """

    waits: Callable[[], str | None]
    text: Callable[[], str]
    names: Sequence[str]

    def answer(self, path: str, host: str | None, origin: str | None) -> Answer:
        """What a GET of ``path`` gets, with these two headers."""
        problem = hosts.refusal(host, origin, self.names)
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

    def __init__(self, address: str, port: int, health: Health) -> None:
        self._server = _Server(address, port, health)
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, name="health", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Answer nobody any more."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def serve(address: str, port: int, health: Health) -> HealthServer:
    """Serve ``health`` on ``--web-port`` of a command.

    Raises:
        SettingError: the port is taken, or no such address.
    """
    try:
        return HealthServer(address, port, health)
    except OSError as error:
        raise SettingError(f"--web-port={port} on {address}: {error.strerror}; allowed: a free port") from error


class _Server(ThreadingMixIn, HTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: str, port: int, health: Health) -> None:
        self.health = health
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._free = threading.BoundedSemaphore(MOST_REQUESTS)
        super().__init__((address, port), _Handler)

    def server_bind(self) -> None:
        """Bind, and ask nobody what this machine is called."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread; with too many at a time this one is let go."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, and make room; who sends a letter now and then is not waited for either."""
        end = threading.Timer(LONGEST_S, _cut, (request,))
        end.daemon = True
        end.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            end.cancel()
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news; what broke here is."""
        log.debug("a request for health or metrics was not answered", exc_info=True)


def _cut(request: socket.socket) -> None:
    with contextlib.suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    timeout = PATIENCE_S
    server: _Server

    def do_GET(self) -> None:
        """Answer one request."""
        headers = self.headers
        try:
            answer = self.server.health.answer(self.path.partition("?")[0], headers.get("Host"), headers.get("Origin"))
        except Exception:
            log.exception("%s could not be told", "health or metrics")
            answer = Answer(500, "it could not be told; the log says why\n")
        content = answer.text.encode()
        with contextlib.suppress(OSError):
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.content_type)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    def version_string(self) -> str:
        """Nobody needs to know which Python this is."""
        return "paceline"

    def log_message(self, *args: Any) -> None:
        """Scrapes come every few seconds: none is worth a line."""
