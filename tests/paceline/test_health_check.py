"""A service is asked whether it is well, over HTTP or HTTPS: by a container of itself, and by the doctor."""

import http.server
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from paceline import health_check


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a certificate that signed itself, for a name that no test asks by."""
    folder = tmp_path_factory.mktemp("certificate")
    for key, own in (("key", "own"), ("another-key", "another")):
        command = f"openssl req -newkey rsa:2048 -nodes -days 2 -x509 -keyout {key}.pem -out {own}.pem"
        named = ["-subj", "/CN=page.example", "-addext", "subjectAltName=DNS:page.example"]
        subprocess.run([*command.split(), *named], cwd=folder, check=True, capture_output=True)
    return folder


@pytest.fixture
def served() -> Iterator[Callable[..., int]]:
    """Serves one status for every path, over TLS where given a certificate's folder; tells its port."""
    running: list[http.server.HTTPServer] = []

    def start(status: int, folder: Path | None = None) -> int:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(status)
                self.end_headers()
                self.wfile.write(f"asked for {self.path}\n".encode() + b"more" * 10_000)

            def log_message(self, *_: object) -> None:
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if folder is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(folder / "own.pem", folder / "key.pem")
            server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        running.append(server)
        return int(server.server_address[1])

    yield start
    for server in running:
        server.shutdown()
        server.server_close()


def asked(port: int, path: str, *how: str) -> int:
    return health_check.main([*how, f"http://127.0.0.1:{port}{path}"])


@pytest.mark.parametrize(("status", "exits"), [(200, 0), (503, 1), (404, 1)])
def test_well_is_who_answers_200(
    status: int, exits: int, served: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    """The first line of the answer is told, and no more."""
    assert asked(served(status), "/readyz") == exits
    assert capsys.readouterr().out == "asked for /readyz\n"


def test_where_nobody_listens_is_nobody_well(free_port: Callable[[], int], capsys: pytest.CaptureFixture[str]) -> None:
    assert asked(free_port(), "/readyz") == 1
    assert "refused" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("authority", [True, False])
def test_a_service_with_a_certificate_for_another_name_is_asked_by_tls(
    authority: bool, pair: Path, served: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """That name is for others; one that shows a certificate of somebody else's is not well."""
    monkeypatch.setenv("PACELINE_TLS_CERTFILE", str(pair / "own.pem"))
    if authority:
        monkeypatch.setenv("PACELINE_TLS_CAFILE", str(pair / "own.pem"))
    assert asked(served(200, pair), "/healthz", "https-if-set") == 0
    assert asked(served(200), "/healthz") == 0, "its health port has no TLS"


@pytest.mark.slow
def test_a_stranger_s_certificate_is_not_trusted(
    pair: Path, served: Callable[..., int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PACELINE_TLS_CERTFILE", str(pair / "own.pem"))
    monkeypatch.setenv(
        "PACELINE_TLS_CAFILE", ssl.get_default_verify_paths().cafile or "/etc/ssl/certs/ca-certificates.crt"
    )
    assert asked(served(200, pair), "/healthz", "https-if-set") == 1
    assert "certificate verify failed" in capsys.readouterr().out
