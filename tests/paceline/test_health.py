"""The small server of health and metrics: own names only, and no client holds it up."""

import contextlib
import http.client
import socket

import pytest

from paceline import health
from paceline.health import MOST_REQUESTS, Answer, Health, HealthServer, serve
from paceline.settings import SettingError
from tests.patience import PATIENCE_S


@pytest.fixture
def start():
    """Starts a server with these answers; closed at the end."""
    with contextlib.ExitStack() as stack:

        def begin(waits=lambda: None, text=lambda: "numbers 1\n", address="127.0.0.1"):
            answers = Health(waits, text, ("127.0.0.1", "::1", "node.example"))
            return stack.enter_context(contextlib.closing(HealthServer(address, 0, answers)))

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
    assert get(start(), "/metrics", method="POST")[0] == 501


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


@pytest.mark.slow
def test_clients_that_say_nothing_hold_nobody_up(start, until):
    """More than are answered at a time: the server has room again when they have been let go."""
    server = start()
    with contextlib.ExitStack() as stack:
        for _ in range(MOST_REQUESTS + 4):
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S))

        def answered():
            with contextlib.suppress(OSError, http.client.HTTPException):
                return get(server, "/healthz")[0] == 200

        until(answered)


def test_the_other_family(start, monkeypatch):
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
        server = start(address="::1")
    assert families == [socket.AF_INET6]
    assert get(server, "/healthz", Host=f"[::1]:{server.port}") == (200, "ok\n")


def test_a_port_that_is_taken(start):
    """Is a setting that is wrong."""
    port = start().port
    with pytest.raises(SettingError, match=f"--web-port={port} on 127.0.0.1"):
        serve("127.0.0.1", port, Health(lambda: None, str, ()))


def test_what_is_answered_needs_no_server():
    """The decision alone, for services that have a server of their own."""
    told = Health(lambda: "a broker", lambda: "", ("localhost",))
    assert told.answer("/readyz", "localhost", None) == Answer(503, "a broker\n")
    assert told.answer("/readyz", None, None).status == 403


def test_a_client_that_sends_a_letter_now_and_then_is_let_go(start, monkeypatch, until):
    """Though it never pauses for long."""
    monkeypatch.setattr(health, "LONGEST_S", 0.3)
    server = start()
    with socket.create_connection(("127.0.0.1", server.port)) as slow:
        slow.settimeout(0.02)  # it is to run out, between two letters

        def cut():
            try:
                slow.sendall(b"G")
                return slow.recv(1) == b""
            except TimeoutError:
                return False
            except OSError:
                return True

        until(cut)
