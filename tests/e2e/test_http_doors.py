"""Every port that a service opens: over TLS, its routes only read or want the token, and no foreign name is answered.

What changes nothing and what computes from what is sent along is named here; a route that is neither, and new, fails.
"""

import asyncio
import contextlib
import http.client
import json
import os
import re
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from paceline.health import Health
from streams import health
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.e2e
TOKEN = "right-token"
UNSAFE = ("POST", "PUT", "PATCH", "DELETE")
#: They compute from what they are sent and keep nothing, so that any program may ask: docs/forecaster.md.
STATELESS = {
    ("forecaster", "/v1/forecast"),
    ("forecaster", "/v1/forecast/batch"),
    ("forecaster", "/v1/cycle"),
    ("forecaster", "/v1/job-type"),
}
#: Streamlit's own paths that take more than GET.
OF_STREAMLIT = ("/", "/_stcore/health", "/_stcore/upload_file/a/b", "/_stcore/stream", "/media/x", "/component/x")
FOREIGN = (
    {"Host": "evil.example"},
    {"Origin": "https://evil.example"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"},
)


class Answer(NamedTuple):
    status: int
    body: bytes


class Door(NamedTuple):
    """A service that runs, and how it is asked."""

    name: str
    port: int
    trust: ssl.SSLContext | None

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Answer:
        """The answer; status 0 where the connection is closed without one."""
        if self.trust is None:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        else:
            connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=PATIENCE_S, context=self.trust)
        with contextlib.closing(connection):
            try:
                connection.request(method, path, body, headers)
                answer = connection.getresponse()
                return Answer(answer.status, answer.read())
            except (ConnectionError, http.client.BadStatusLine):
                return Answer(0, b"")


STARTED = {
    "control": ["control", "--port"],
    "forecaster": ["forecaster", "--no-bus", "--port"],
    "page": ["ui", "--port"],
    "collect": ["collect", "--web-port"],
    "alerts": ["alerts", "--web-port"],
}
HEALTH = {"collect", "alerts"}


class Doors(dict[str, Door]):
    """By name, each started when it is first asked for: ring 1 asks for one alone."""

    def __init__(self, start: Callable[[str], Door]) -> None:
        self._start = start

    def __missing__(self, name: str) -> Door:
        self[name] = self._start(name)
        return self[name]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a key, a certificate for loopback, and one of its kind that signed nothing."""
    folder = tmp_path_factory.mktemp("certificate")
    for name in ("own", "other"):
        command = f"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN={name}"
        command += f" -addext subjectAltName=IP:127.0.0.1 -keyout {name}.key -out {name}.pem"
        subprocess.run(command.split(), cwd=folder, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def doors(
    certificate: Path, tmp_path_factory: pytest.TempPathFactory, free_port: Callable[[], int]
) -> Iterator[Mapping[str, Door]]:
    """What serves HTTP, with tokens, and page, forecaster and control with a certificate; no brokers are there."""
    home = tmp_path_factory.mktemp("home")
    environ = {
        **os.environ,
        "HOME": str(home),
        "PACELINE_BROKERS": "127.0.0.1:1",
        "PACELINE_TLS_CERTFILE": str(certificate / "own.pem"),
        "PACELINE_TLS_KEYFILE": str(certificate / "own.key"),
        "PACELINE_CONTROL_TOKEN": TOKEN,
        "PACELINE_FORECASTER_TOKEN": TOKEN,
        "PACELINE_UI_TOKEN": TOKEN,
        "PACELINE_ALERTS_TO": "http://127.0.0.1:1/",
    }
    trust = ssl.create_default_context(cafile=str(certificate / "own.pem"))
    with contextlib.ExitStack() as stack:

        def start(name: str) -> Door:
            door = Door(name, free_port(), None if name in HEALTH else trust)
            command = [sys.executable, "-W", "ignore", "-m", "paceline", *STARTED[name], str(door.port)]
            log = stack.enter_context((home / f"{name}.log").open("wb"))
            process = stack.enter_context(subprocess.Popen(command, stdout=log, stderr=log, env=environ, cwd=home))
            stack.callback(process.terminate)
            return door

        yield Doors(start)


def up(door: Door, until: Callable[..., object]) -> Door:
    path = "/_stcore/health" if door.name == "page" else "/healthz"
    until(lambda: door.ask("GET", path).status == 200)
    return door


def routes(door: Door) -> list[tuple[str, str]]:
    """Methods and paths, with a word in place of each parameter."""
    if door.name in HEALTH:
        return [("GET", path) for path in ("/healthz", "/readyz", "/metrics")]
    if door.name == "page":
        return [("GET", path) for path in OF_STREAMLIT]
    described = json.loads(door.ask("GET", "/openapi.json").body)["paths"]
    return [(method.upper(), path) for path, methods in described.items() for method in methods]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.landing] if name == "control" else []) for name in STARTED]
)
def test_what_changes_something_wants_the_token(
    doors: Mapping[str, Door], name: str, until: Callable[..., object]
) -> None:
    """Without one, with a wrong one, and with the right one said in another way."""
    door = up(doors[name], until)
    told = routes(door)
    assert told
    unsafe = [(method, path, re.sub(r"\{[^}]*\}", "x", path)) for method, path in told if method in UNSAFE]
    for method, path, at in unsafe:  # Before any wrong token: after ten of those, whoever asks from here waits.
        if (name, path) in STATELESS:
            assert door.ask(method, at, b"{}").status == 422, path
        else:
            assert door.ask(method, at, b"{}", Authorization=f"Bearer {TOKEN}").status not in (401, 403, 429), path
    for method, path, at in unsafe:
        for said in ("", "Bearer", f"Basic {TOKEN}", f"Bearer {TOKEN[:-1]}") if (name, path) not in STATELESS else ():
            headers = {"Authorization": said} if said else {}
            answer = door.ask(method, at, b"{}", **{"Content-Type": "application/json", **headers})
            assert answer.status in (401, 429), (method, path, said)  # 429: too many wrong ones from here
    assert {path for service, path in STATELESS if service == name} <= {path for _, path in told}


@pytest.mark.parametrize("name", STARTED)
def test_nothing_else_is_taken(doors: Mapping[str, Door], name: str, until: Callable[..., object]) -> None:
    """On a path that reads, another method is refused, whatever it brings."""
    door = up(doors[name], until)
    told = routes(door)
    for path in {path for _, path in told}:
        at = re.sub(r"\{[^}]*\}", "x", path)
        for method in set(UNSAFE) - {method for method, named in told if named == path}:
            assert not 200 <= door.ask(method, at, b"{}").status < 300, (method, path)


@pytest.mark.parametrize("name", STARTED)
def test_no_route_answers_a_foreign_name(doors: Mapping[str, Door], name: str, until: Callable[..., object]) -> None:
    """Neither one that it is asked by, nor one of a page that asks or shows what it answers as a picture; with the
    token, too, and where no route is."""
    door = up(doors[name], until)
    for method, path in [*routes(door), ("GET", "/docs"), ("GET", "/none")]:
        at = re.sub(r"\{[^}]*\}", "x", path)
        for headers in FOREIGN:
            told = {"Authorization": f"Bearer {TOKEN}", **headers}
            assert door.ask(method, at, b"{}" if method in UNSAFE else None, **told).status == 403, (method, path)


def test_the_pages_own_connection_answers_no_foreign_name(
    doors: Mapping[str, Door], until: Callable[..., object]
) -> None:
    """What a visitor does on the page goes over a websocket: it is opened by TLS, from the page's own name alone."""
    door = up(doors["page"], until)
    asked = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "x3JJHMbDL1EzLkh9GBhXDw==",
    }
    for headers in FOREIGN:
        assert door.ask("GET", "/_stcore/stream", **{**asked, **headers}).status == 403
    connection = http.client.HTTPSConnection("127.0.0.1", door.port, timeout=PATIENCE_S, context=door.trust)
    with contextlib.closing(connection):
        connection.request("GET", "/_stcore/stream", headers={**asked, "Origin": f"https://127.0.0.1:{door.port}"})
        assert connection.getresponse().status == 101


@pytest.mark.parametrize("name", ["control", "forecaster", "page"])
def test_who_speaks_no_tls_gets_nothing(doors: Mapping[str, Door], name: str, until: Callable[..., object]) -> None:
    door = up(doors[name], until)
    assert Door(name, door.port, None).ask("GET", "/healthz").status == 0


@pytest.mark.parametrize("name", ["control", "forecaster"])
def test_a_body_has_a_bound(doors: Mapping[str, Door], name: str, until: Callable[..., object]) -> None:
    """Said before it is sent: nobody reads more than that."""
    door = up(doors[name], until)
    path = {"control": "/v1/sessions", "forecaster": "/v1/forecast"}[name]
    answer = door.ask("POST", path, None, **{"Content-Length": str(2**40), "Authorization": f"Bearer {TOKEN}"})
    assert answer.status == 413


def test_streams_tells_and_takes_nothing() -> None:
    """Its port has another server than the others'."""

    async def asked() -> list[int]:
        names = ("127.0.0.1",)
        runner = await health.serve("127.0.0.1", 0, lambda: None, lambda: lambda: "m 1\n", names)
        port = runner.port
        door, statuses = Door("streams", port, None), []
        for path in ("/healthz", "/readyz", "/metrics"):
            statuses.append((await asyncio.to_thread(door.ask, "GET", path)).status)
            for headers in FOREIGN:
                statuses.append((await asyncio.to_thread(lambda: door.ask("GET", path, **headers))).status)  # noqa: B023
            for method in UNSAFE:
                statuses.append((await asyncio.to_thread(door.ask, method, path, b"{}")).status)
        await runner.close()
        return statuses

    assert asyncio.run(asked()) == [200, 403, 403, 403, 405, 405, 405, 405] * 3
    assert Health(lambda: None, str, ("127.0.0.1",)).answer("/healthz", {"host": "evil.example"}).status == 403


def paceline(certificate: Path, door: Door, trusted: str, *words: str) -> "subprocess.CompletedProcess[str]":
    environ = {
        **os.environ,
        "PACELINE_CONTROL_URL": f"https://127.0.0.1:{door.port}",
        "PACELINE_CONTROL_TOKEN": TOKEN,
        "PACELINE_TLS_CAFILE": str(certificate / trusted),
    }
    command = [sys.executable, "-W", "ignore", "-m", "paceline", *words]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)


def test_commands_ask_control_by_tls(
    doors: Mapping[str, Door], certificate: Path, until: Callable[..., object]
) -> None:
    """Whom they trust is a setting; a control that shows another certificate gets no token."""
    door = up(doors["control"], until)
    listed = paceline(certificate, door, "own.pem", "session", "list", "--json")
    assert (listed.returncode, json.loads(listed.stdout)) == (0, [])
    refused = paceline(certificate, door, "other.pem", "session", "list")
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (1, "", 1)
    assert "set PACELINE_TLS_CAFILE to the authority that signed it" in refused.stderr
    missing = paceline(certificate, door, "none.pem", "session", "list")
    assert (missing.returncode, missing.stderr.count("\n")) == (2, 1)
    assert "PACELINE_TLS_CAFILE=" in missing.stderr


def test_the_doctor_asks_by_tls(doors: Mapping[str, Door], certificate: Path, until: Callable[..., object]) -> None:
    door = up(doors["forecaster"], until)
    told = paceline(certificate, door, "own.pem", "doctor", "--ask", f"https://127.0.0.1:{door.port}/readyz")
    assert f"ok    service          https://127.0.0.1:{door.port}/readyz: ready" in told.stdout


@pytest.mark.parametrize("name", ["control", "forecaster", "page"])
def test_a_certificate_that_cannot_be_used_is_a_sentence(name: str, certificate: Path) -> None:
    """At the start, with status 2; a key that wants a password is not asked about."""
    encrypted = f"openssl ec -in {certificate}/own.key -aes128 -passout pass:x -out {certificate}/locked.key"
    subprocess.run(encrypted.split(), check=True, capture_output=True)
    own, key, other = (str(certificate / name) for name in ("own.pem", "own.key", "other.key"))
    for options, said in [
        (["--tls-cert", own, "--tls-key", str(certificate / "locked.key")], "the key wants a password"),
        (["--tls-cert", own], "PACELINE_TLS_KEYFILE='': certificate and key go together"),
        (["--tls-key", key], "PACELINE_TLS_CERTFILE='': certificate and key go together"),
        (["--tls-cert", own, "--tls-key", "/none"], "PACELINE_TLS_KEYFILE='/none': no such file"),
        (["--tls-cert", own, "--tls-key", other], "allowed: a PEM pair"),
    ][: 5 if name == "control" else 1]:
        command = [sys.executable, "-W", "ignore", "-m", "paceline", STARTED[name][0], *options]
        ran = subprocess.run(
            command,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PACELINE_BROKERS": "127.0.0.1:1"},
            check=False,
        )
        assert (ran.returncode, ran.stderr.count("\n")) == (2, 1), ran.stderr
        assert said in ran.stderr
