"""A small HTTP server for answers that fit into memory: GET, one request a connection, on asyncio.

Rule of this file: it knows no route. A silent client costs a descriptor until it is cut and keeps nobody else waiting;
what is answered is asked for only when a whole head has come.
"""

import asyncio
import logging
import socket
import time
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import NamedTuple

from .http_limits import Limits, Patience, Phase, weakest

log = logging.getLogger(__name__)
PLAIN = "text/plain; charset=utf-8"
#: How often clients are looked at.
LOOK_S = 0.5
#: Headers of which a second one makes a request ambiguous.
_ONCE = ("host", "origin", "sec-fetch-site")


class Answer(NamedTuple):
    """What a request gets."""

    status: int
    text: str
    content_type: str = PLAIN


#: What a GET of a path gets, with these headers (names in small letters).
Answering = Callable[[str, Mapping[str, str]], Awaitable[Answer]]


def bound(address: str, port: int) -> socket.socket:
    """A socket that listens at ``address``; nobody is asked what this machine is called.

    Raises:
        OSError: the port is taken, or no such address.
    """
    listening = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((address, port))
        listening.listen(128)
        listening.setblocking(False)
    except OSError:
        listening.close()
        raise
    return listening


class SmallServer:
    """Answers on ``listening`` by ``answering``, on the running event loop, from ``start`` to ``close``."""

    def __init__(
        self,
        listening: socket.socket,
        answering: Answering,
        limits: Limits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.answering, self.limits, self.clock = answering, limits or Limits(), clock
        self.port = int(listening.getsockname()[1])
        self.clients: set[_Client] = set()
        self._listening = listening
        self._server: asyncio.Server | None = None
        self._looking: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        """Begin to answer."""
        self._server = await asyncio.get_running_loop().create_server(lambda: _Client(self), sock=self._listening)
        self._look_later()

    async def close(self) -> None:
        """Answer nobody any more."""
        if self._looking is not None:
            self._looking.cancel()
        if self._server is not None:
            self._server.close()
        self._listening.close()
        for client in list(self.clients):
            client.cut()
        await asyncio.sleep(0)  # Those that are cut hear of it.

    def admit(self, client: "_Client") -> None:
        """Take in a client; with too many, one that has sent no request makes room, or it goes itself."""
        self.clients.add(client)
        if len(self.clients) > self.limits.connections:
            (weakest(one for one in self.clients if one is not client) or client).cut()

    def look(self) -> None:
        """Cut those who have had their time."""
        now_s = self.clock()
        for client in list(self.clients):
            if client.is_late(now_s):
                client.cut()

    def _look_later(self) -> None:
        self._looking = asyncio.get_running_loop().call_later(LOOK_S, self._look_and_go_on)

    def _look_and_go_on(self) -> None:
        self.look()
        self._look_later()


class _Client(asyncio.Protocol):
    def __init__(self, server: SmallServer) -> None:
        self._server = server
        self._patience = Patience(server.limits, server.clock())
        self._head = bytearray()
        self._task: asyncio.Task[None] | None = None
        self._transport: asyncio.Transport | None = None
        self.phase: Phase = "head"

    @property
    def since_s(self) -> float:
        return self._patience.since_s

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._server.admit(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.clients.discard(self)
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        if self.phase != "head" or self._transport is None:
            return  # What follows a head is for nobody: this server reads no body.
        self._head += data
        head, ended, _ = self._head.partition(b"\r\n\r\n")
        if ended or len(self._head) > self._server.limits.head_bytes:
            self.phase = "answer"
            asked = _parsed(bytes(head)) if ended else Answer(431, "the head of the request is too large\n")
            self._task = asyncio.ensure_future(self._answer(asked))

    def is_late(self, now_s: float) -> bool:
        """Whether it has had its time."""
        waiting = self._transport is None or self._transport.get_write_buffer_size() > 0
        return bool(self._patience.observe(0, self.phase, 0, waiting, now_s))

    def cut(self) -> None:
        """Let go of it, whatever it has not read yet."""
        self._server.clients.discard(self)
        if self._transport is not None:
            self._transport.abort()

    async def _answer(self, asked: "_Asked | Answer") -> None:
        try:
            answer = asked if isinstance(asked, Answer) else await self._server.answering(asked.path, asked.headers)
        except Exception:
            log.exception("a request could not be answered")
            answer = Answer(500, "it could not be answered; the log says why\n")
        content = answer.text.encode()
        reason = HTTPStatus(answer.status).phrase
        allow = "Allow: GET, HEAD\r\n" if answer.status == 405 else ""
        head = (
            f"HTTP/1.1 {answer.status} {reason}\r\nServer: paceline\r\nContent-Type: {answer.content_type}\r\n"
            f"Content-Length: {len(content)}\r\n{allow}Connection: close\r\n\r\n"
        )
        if self._transport is not None and not self._transport.is_closing():
            bare = isinstance(asked, _Asked) and asked.method == "HEAD"
            self._transport.write(head.encode() + (b"" if bare else content))
            self._transport.close()


class _Asked(NamedTuple):
    method: str
    path: str
    headers: Mapping[str, str]


def _parsed(head: bytes) -> _Asked | Answer:
    """What is asked for, or why it cannot be."""
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        return Answer(400, "not a request of HTTP/1\n")
    if words[0] not in ("GET", "HEAD"):
        return Answer(405, "only GET and HEAD are answered here\n")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        name = name.lower()
        if not colon or not name or name != name.strip() or (name in headers and name in _ONCE):
            return Answer(400, "a header that is invalid or repeated\n")
        headers[name] = value.strip()
    return _Asked(words[0], words[1].partition("?")[0], headers)
