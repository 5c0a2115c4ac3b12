import argparse
import asyncio
import contextlib
import http.client
import os
import socket
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

import ui
from paceline.settings import SettingError
from tests.patience import PATIENCE_S
from ui import page_app
from ui.__main__ import base_path, main, options, parser


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    """The page's brokers go on to Streamlit's script in the environment: the command changes it."""
    monkeypatch.setenv("PACELINE_BROKERS", "127.0.0.1:9")


@pytest.mark.slow
def test_no_module_is_named_like_a_library():
    """Streamlit puts ui/ first on sys.path: a module named like a library would hide it."""
    folder = Path(ui.__file__).parent
    ours = {path.stem for path in folder.iterdir() if path.suffix == ".py" or path.is_dir()} - {"__init__", "__main__"}
    ours -= {"__pycache__", ".streamlit"}
    assert not ours & (set(sys.stdlib_module_names) | set(packages_distributions()))


def test_a_wrong_broker_names_the_variable():
    """A wrong address is told before anything starts."""
    with pytest.raises(SettingError, match=r"'nowhere' is not host:port"):
        main(["--brokers", "nowhere"])


def test_a_taken_port_is_one_line_and_status_2(capsys):
    """Who else listens there is not our business; the option to change is."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        assert main(["--port", str(other.getsockname()[1])]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("port", ["0", "65536"])
def test_an_impossible_port_is_status_2(port):
    """Ports end at 65535."""
    assert main(["--port", port]) == 2


def test_no_statistics_are_sent_and_loopback_answers_only_its_names():
    """The page reports to nobody and is not reachable through another site's name."""
    chosen = options("127.0.0.1", 8501)
    assert chosen["browser.gatherUsageStats"] is False
    assert "localhost" in chosen["server.allowedHosts"]


@pytest.fixture
def page(free_port, until):
    """A page that listens on every address; its port."""
    port = free_port()
    command = [sys.executable, "-m", "ui", "--address", "0.0.0.0", "--port", str(port), "--brokers", "127.0.0.1:9"]
    own = {**os.environ, "PACELINE_ALLOWED_HOSTS": "page.example.com"}
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=own)
    try:
        until(lambda: process.poll() is None and handshake(port, f"127.0.0.1:{port}", None) == 101)
        yield port
    finally:
        process.terminate()
        assert process.wait() == 0


def handshake(port, host, origin):
    """The status of a WebSocket handshake with the page under these headers; None while nobody answers."""
    headers = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13", "Host": host}
    headers |= {"Sec-WebSocket-Key": "MDEyMzQ1Njc4OWFiY2RlZg=="} | ({"Origin": origin} if origin else {})
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)) as connection:
        try:
            connection.request("GET", "/_stcore/stream", headers=headers)
            return connection.getresponse().status
        except OSError:
            return None


@pytest.mark.e2e
def test_a_foreign_host_or_origin_opens_no_session(page):
    """A page on every address answers its own names and those of the setting, and no web page of another site."""
    own = {
        (host, origin): handshake(page, host, origin)
        for host, origin in [
            (f"127.0.0.1:{page}", f"http://127.0.0.1:{page}"),
            (f"localhost:{page}", None),
            (f"{socket.gethostname()}:{page}", f"http://{socket.gethostname()}:{page}"),
            ("page.example.com", "https://page.example.com"),
        ]
    }
    assert set(own.values()) == {101}, own
    foreign = {
        (host, origin): handshake(page, host, origin)
        for host, origin in [
            (f"evil.example:{page}", f"http://evil.example:{page}"),
            ("evil.example", None),
            ("127.0.0.1.evil.example", "http://127.0.0.1.evil.example"),
            (f"127.0.0.1:{page}", "http://evil.example"),
        ]
    }
    assert set(foreign.values()) == {403}, foreign
    for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}):
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", page, timeout=PATIENCE_S)) as connection:
            connection.request("GET", "/", headers=headers)
            answer = connection.getresponse()
            assert (answer.status, b"PACELINE_ALLOWED_HOSTS" in answer.read()) == (403, True)


def test_help_has_examples(capsys):
    """--help shows how it is used."""
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "examples:" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("raw", "path"),
    [("/tools/pace/", "tools/pace"), ("paceline", "paceline"), ("/", ""), ("", ""), ("a-b/c_d.e~f", "a-b/c_d.e~f")],
)
def test_a_base_path_is_streamlits(raw, path):
    """The page is served below it; without one nothing is said to Streamlit."""
    assert base_path(raw) == path
    assert options("127.0.0.1", 8501, path=base_path(raw)).get("server.baseUrlPath", "") == path


@pytest.mark.parametrize("raw", [".", "a/.", "./a", "/a//b", "a b", "http://host/x", "/a/../b", "/x?y", "/x#y", "\n"])
def test_what_is_no_path_is_refused(raw):
    """With what is allowed."""
    with pytest.raises(argparse.ArgumentTypeError, match="not a path"):
        base_path(raw)


def test_streamlits_own_variable_is_not_ignored(monkeypatch):
    """It is the default, checked alike; the option counts more."""
    monkeypatch.setenv("STREAMLIT_SERVER_BASE_URL_PATH", "/proxied/")
    assert parser().parse_args([]).base_path == "proxied"
    assert parser().parse_args(["--base-path", "/mine"]).base_path == "mine"


@pytest.mark.parametrize(
    ("base", "asked", "answered"),
    [
        ("tools/pace", "/_stcore/health", "/tools/pace/_stcore/health"),
        ("tools/pace", "/tools/pace/x", "/tools/pace/x"),
        ("", "/_stcore/health", "/_stcore/health"),
    ],
)
def test_probes_find_the_page_below_its_path(base, asked, answered, monkeypatch):
    """Those of images, charts and doctor ask at the root."""
    monkeypatch.setattr(page_app.config, "get_option", lambda name: {"server.baseUrlPath": base}.get(name, ["h"]))
    seen = []

    async def inner(scope, receive, send):
        seen.append(scope["path"])

    scope = {"type": "http", "path": asked, "headers": [(b"host", b"h")]}
    asyncio.run(page_app.KnownHosts(inner)(scope, None, None))
    assert seen == [answered]
