"""What clients that are slow, silent or many can do to a service: nothing."""

import asyncio
import contextlib
import http.client
import socket
import threading
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse

from paceline.http_limits import Limits
from paceline.web import shell
from tests.patience import PATIENCE_S
from tests.served_app import served

pytestmark = pytest.mark.slow
#: Nobody is late; each test changes what it means.
PATIENT = Limits(head_s=1e9, body_s=1e9, reader_s=1e9)
MIB = b"x" * 2**20


def application() -> FastAPI:
    app = FastAPI()

    @app.get("/healthz")
    async def healthz() -> str:
        return "ok"

    @app.post("/body")
    async def body(request: Request) -> int:
        return len(await request.body())

    @app.get("/long")
    async def long() -> StreamingResponse:
        return StreamingResponse(MIB for _ in range(1024))

    return app


@pytest.fixture
def start(until: Callable[..., None]) -> Iterator[Callable[[Limits], int]]:
    """Serves the application with such limits; tells the port."""
    with contextlib.ExitStack() as stack:

        def begin(limits: Limits) -> int:
            address = stack.enter_context(served(application(), until, limits))
            return urlsplit(address).port or 0

        yield begin


@contextlib.contextmanager
def running(
    limits: Limits, until: Callable[..., None], app: FastAPI | None = None, on_end: Callable[[], object] = lambda: None
) -> Iterator[tuple[shell.Server, int]]:
    """A server in hand, and its port; it ends with the block."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        server = shell.server(app or application(), limits, on_end, log_level="critical")
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        until(lambda: server.started)
        try:
            yield server, port
        finally:
            server.should_exit = True
            thread.join(PATIENCE_S)
            assert not thread.is_alive(), "it does not end"


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)


def healthy(port: int) -> bool:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)) as client:
        try:
            client.request("GET", "/healthz")
            return client.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False


def is_cut(client: socket.socket) -> bool:
    """Whether nothing comes of it any more."""
    try:
        while client.recv(65536):
            pass
    except ConnectionError:
        pass
    return True


@pytest.mark.parametrize("sent", [b"", b"GET /healthz HT", b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX: y"])
def test_half_a_head_is_cut(start: Callable[[Limits], int], sent: bytes) -> None:
    """Also that of a client that has said nothing at all."""
    with connected(start(PATIENT._replace(head_s=0.01))) as client:
        client.sendall(sent)
        assert is_cut(client)


def test_half_a_body_is_cut(start: Callable[[Limits], int]) -> None:
    """Of a route that reads it before it looks at anything."""
    with connected(start(PATIENT._replace(body_s=0.01))) as client:
        client.sendall(b"POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{")
        assert is_cut(client)


def test_a_reader_that_does_not_read_is_cut(until: Callable[..., None]) -> None:
    """A gigabyte is never sent: it is cut while most of it is still here, and the route's work with it."""
    with (
        running(PATIENT._replace(reader_s=0.01, reader_bytes=10**12), until) as (server, port),
        socket.socket() as client,
    ):
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(PATIENCE_S)
        client.connect(("127.0.0.1", port))
        client.sendall(b"GET /long HTTP/1.1\r\nHost: a\r\n\r\n")
        assert client.recv(100)
        until(lambda: not server.server_state.connections and not server.server_state.tasks)


def test_a_quick_reader_gets_all_of_it(start: Callable[[Limits], int]) -> None:
    """The same limits cut nobody who reads."""
    port = start(PATIENT._replace(reader_s=PATIENCE_S, reader_bytes=1024))
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)) as client:
        client.request("POST", "/body", b"y" * 2**20)
        assert client.getresponse().read() == str(2**20).encode()
        client.request("GET", "/healthz")
        assert client.getresponse().read() == b'"ok"'


@pytest.mark.parametrize("sent", [b"", b"POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n"])
def test_many_that_say_nothing_keep_nobody_out(start: Callable[[Limits], int], sent: bytes) -> None:
    """Four times as many as may be held at a time, none of them late."""
    port = start(PATIENT._replace(connections=8))
    with contextlib.ExitStack() as stack:
        for _ in range(32):
            client = stack.enter_context(connected(port))
            with contextlib.suppress(OSError):
                client.sendall(sent)
        assert healthy(port)


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /healthz HT",
        b"POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{",
        b"GET /long HTTP/1.1\r\nHost: a\r\n\r\n",
    ],
)
def test_nobody_keeps_a_service_from_ending(sent: bytes, until: Callable[..., None]) -> None:
    """Whatever a client has not sent, or does not read; what is to be done first is done first."""
    told = threading.Event()
    with contextlib.ExitStack() as stack:
        client = stack.enter_context(socket.socket())
        server, port = stack.enter_context(running(PATIENT, until, on_end=told.set))
        client.connect(("127.0.0.1", port))
        client.sendall(sent)
        until(lambda: bool(server.server_state.connections))
        assert not told.is_set()
    assert told.is_set()


def test_an_answer_on_its_way_is_still_sent(until: Callable[..., None]) -> None:
    """One that takes less than the end does."""
    app, asked, go = FastAPI(), threading.Event(), threading.Event()

    @app.get("/slow")
    async def slow() -> str:
        asked.set()
        while not go.is_set():
            await asyncio.sleep(0.001)
        return "done"

    with running(PATIENT, until, app, go.set) as (server, port), connected(port) as client:
        client.sendall(b"GET /slow HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        until(asked.is_set)
        server.should_exit = True
        assert client.makefile("rb").read().endswith(b'"done"')


def test_told_to_end_it_waits_for_no_look_at_its_clients(until: Callable[..., None], monkeypatch: pytest.MonkeyPatch):
    """Between two looks, which an idle service makes seldom, it sleeps."""
    monkeypatch.setattr(shell, "LOOK_S", 1e6)
    with running(PATIENT, until) as (server, port):
        assert healthy(port)
        server.should_exit = True
        until(lambda: not server.servers[0].is_serving())
