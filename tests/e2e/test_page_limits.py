"""What clients that are slow, silent or many can do to the page: nothing to its other visitors."""

import contextlib
import http.client
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from paceline.http_limits import Limits
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.e2e
UPGRADE = (
    "GET /_stcore/stream HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nOrigin: http://127.0.0.1:{port}\r\n"
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: x3JJHMbDL1EzLkh9GBhXDw==\r\n\r\n"
)


def health(port: int) -> int:
    """The status of its health; 0 while it does not answer."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)) as connection:
        try:
            connection.request("GET", "/_stcore/health")
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return 0


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory, free_port: Callable[[], int]) -> Iterator[int]:
    """The port of a page without brokers."""
    home, port = tmp_path_factory.mktemp("home"), free_port()
    command = [sys.executable, "-W", "ignore", "-m", "paceline", "ui", "--port", str(port)]
    environ = {**os.environ, "HOME": str(home), "PACELINE_BROKERS": "127.0.0.1:1"}
    with subprocess.Popen(command, env=environ, cwd=Path(home)) as process:
        try:
            yield port
        finally:
            process.terminate()


def gone(client: socket.socket) -> bool:
    """Whether the page has let go of ``client``."""
    client.setblocking(False)
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def test_more_silent_connections_than_there_may_be_keep_nobody_from_the_page(
    page: int, until: Callable[..., object]
) -> None:
    """The one that has been silent for longest makes room."""
    until(lambda: health(page) == 200)
    with contextlib.ExitStack() as stack:
        silent = [
            stack.enter_context(socket.create_connection(("127.0.0.1", page))) for _ in range(Limits().connections + 20)
        ]
        assert health(page) == 200
        until(lambda: gone(silent[0]))


def test_half_a_head_is_cut_and_who_has_the_page_open_stays(page: int, until: Callable[..., object]) -> None:
    """A browser's own connection is silent for longer than a head may take."""
    until(lambda: health(page) == 200)
    with socket.create_connection(("127.0.0.1", page)) as browser, contextlib.ExitStack() as stack:
        browser.sendall(UPGRADE.format(port=page).encode())
        browser.settimeout(PATIENCE_S)
        assert browser.recv(12) == b"HTTP/1.1 101"
        for _ in range(2):
            slow = stack.enter_context(socket.create_connection(("127.0.0.1", page)))
            slow.sendall(b"GET / HTTP/1.1\r\nHost:")
            until(lambda slow=slow: gone(slow))
        browser.settimeout(PATIENCE_S)
        browser.sendall(b"\x89\x80\x00\x00\x00\x00")  # A ping, masked by nothing.
        while not (said := browser.recv(4096)).endswith(b"\x8a\x00"):
            assert said
