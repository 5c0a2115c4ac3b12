"""The small server of health and metrics: own names only, and no client holds it up."""

import asyncio
import contextlib
import http.client
import socket
import threading

import pytest

from paceline.health import LIMITS, Health, HealthServer, serve
from paceline.http_limits import Limits
from paceline.settings import SettingError
from paceline.small_server import Answer, SmallServer, bound
from tests.patience import PATIENCE_S


@pytest.fixture
def start():
    """Starts a server with these answers; closed at the end."""
    with contextlib.ExitStack() as stack:

        def begin(waits=lambda: None, text=lambda: "numbers 1\n", address="127.0.0.1", limits=LIMITS):
            answers = Health(waits, text, ("127.0.0.1", "::1", "node.example"))
            return stack.enter_context(contextlib.closing(HealthServer(address, 0, answers, limits)))

        yield begin


def get(server, path, method="GET", address="127.0.0.1", **headers):
    """Status and text of what is answered."""
    with contextlib.closing(http.client.HTTPConnection(address, server.port, timeout=PATIENCE_S)) as client:
        client.request(method, path, headers=headers)
        answer = client.getresponse()
        return answer.status, answer.read().decode()


def test_the_three_routes(start):
    """Alive, ready or what is waited for, and the numbers."""
    waits = ["the driver"]
    server = start(waits=lambda: waits[0])
    assert get(server, "/healthz") == (200, "ok\n")
    assert get(server, "/readyz") == (503, "the driver\n")
    waits[0] = None
    assert get(server, "/readyz?verbose") == (200, "ready\n")
    assert get(server, "/metrics") == (200, "numbers 1\n")
    assert get(server, "/")[0] == 404


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/nothing"])
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "node.example:9401"}, 200),
        ({"Host": "evil.example"}, 403),
        ({"Host": ""}, 403),
        ({"Origin": "http://evil.example"}, 403),
    ],
)
def test_only_own_names_are_answered(start, path, headers, status):
    """No page of another site reads them."""
    said = get(start(), path, **headers)[0]
    assert said == (404 if status == 200 and path == "/nothing" else status)


def test_nothing_can_be_changed(start):
    """There is nothing but GET."""
    assert get(start(), "/metrics", method="POST")[0] == 405
    assert get(start(), "/metrics", method="HEAD") == (200, "")


def test_what_breaks_is_no_end(start):
    """A number that cannot be told costs its own answer alone."""
    broken = [True]

    def text():
        if broken[0]:
            raise ValueError("broken")
        return "numbers 1\n"

    server = start(text=text)
    assert get(server, "/metrics")[0] == 500
    broken[0] = False
    assert get(server, "/metrics")[0] == 200


@pytest.mark.parametrize("sent", [b"", b"GET /he"])
def test_clients_that_say_nothing_hold_nobody_up(start, sent):
    """Three times as many as are held at a time, none of them late: who asks for something is answered."""
    server = start(limits=Limits(connections=8, head_s=1e9))
    with contextlib.ExitStack() as stack:
        for _ in range(24):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S))
            with contextlib.suppress(OSError):
                client.sendall(sent)
        assert [get(server, path)[0] for path in ("/healthz", "/readyz", "/metrics")] == [200, 200, 200]


def test_answers_that_do_not_come_leave_health_alone(start):
    """As many scrapes as there are threads wait for a number; the process still says that it lives."""
    go = threading.Event()
    server = start(text=lambda: "numbers 1\n" if go.wait(PATIENCE_S) else "")
    with contextlib.ExitStack() as stack:
        scrapes = [
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S))
            for _ in range(6)
        ]
        for scrape in scrapes:
            scrape.sendall(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert get(server, "/healthz") == (200, "ok\n")
        go.set()
        assert all(scrape.makefile("rb").read().endswith(b"numbers 1\n") for scrape in scrapes)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"\r\n\r\n", 400),
        (b"GET /healthz\r\n\r\n", 400),
        (b"GET /healthz HTTP/2\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n Origin: http://evil.example\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost : 127.0.0.1\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"y" * 20_000, 431),
        (b"\xff\xfe\x00" * 6_000, 431),
    ],
)
def test_what_is_no_request_gets_an_answer_of_its_own(start, sent, status):
    """And never one of another's."""
    with socket.create_connection(("127.0.0.1", start().port), timeout=PATIENCE_S) as client:
        client.sendall(sent)
        assert client.recv(12) == b"HTTP/1.1 %d" % status


def test_the_other_family(monkeypatch):
    """An address of version 6 gets a socket of its family; the machine's own version 6 may be off, and is not used."""
    families = []

    class Socket(socket.socket):
        def __init__(self, family, kind):
            families.append(family)
            super().__init__(socket.AF_INET, kind)

        def bind(self, at):
            assert at[0] == "::1"
            super().bind(("127.0.0.1", at[1]))

    with monkeypatch.context() as patched:
        patched.setattr(socket, "socket", Socket)
        bound("::1", 0).close()
    assert families == [socket.AF_INET6]


def test_its_name_there(start):
    """With the brackets that an address of version 6 has in a URL."""
    server = start()
    assert get(server, "/healthz", Host=f"[::1]:{server.port}") == (200, "ok\n")


def test_a_port_that_is_taken(start):
    """Is a setting that is wrong."""
    port = start().port
    with pytest.raises(SettingError, match=f"--web-port={port} on 127.0.0.1"):
        serve("127.0.0.1", port, Health(lambda: None, str, ()))


def test_what_is_answered_needs_no_server():
    """The decision alone, for services that have a server of their own."""
    told = Health(lambda: "a broker", lambda: "", ("localhost",))
    assert told.answer("/readyz", {"host": "localhost"}) == Answer(503, "a broker\n")
    assert told.answer("/readyz", {}).status == 403


def test_a_client_that_sends_a_letter_now_and_then_is_let_go():
    """Though it never pauses for long, by the server's own clock."""

    async def asked():
        now_s = [0.0]

        async def answer(path, headers):
            return Answer(200, "ok\n")

        server = SmallServer(bound("127.0.0.1", 0), answer, Limits(head_s=5.0), lambda: now_s[0])
        await server.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        letters = 0
        while server.clients or not letters:
            writer.write(b"G")
            await asyncio.sleep(0)
            letters += 1
            now_s[0] += 1.0
            server.look()
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()
        await server.close()
        return letters

    assert 5 <= asyncio.run(asked()) <= 7
