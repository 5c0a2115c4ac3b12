"""What the doors of alerts send to: a receiver, a message for it, and certificates of an authority of our own."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from paceline.alerts.book import AlertBook
from paceline.alerts.message import Entry, Message
from tests.derived_events import finding
from tests.http_receiver import Receiver


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as running:
        yield running


@pytest.fixture
def message() -> Message:
    """A message of one finding."""
    book = AlertBook()
    book.update(finding(), 1000.0)
    return Message(("c", "train"), (Entry(book.alerts["finding:f1"], "firing", "", None),))


class Certificates(NamedTuple):
    """PEM files: of the authority, and of a server called localhost."""

    authority: Path
    certificate: Path
    key: Path


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    folder = tmp_path_factory.mktemp("certificates")
    (folder / "san").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    for command in (
        "openssl req -newkey rsa:2048 -nodes -days 2 -x509 -keyout ca.key -out ca.pem -subj /CN=tests",
        "openssl req -newkey rsa:2048 -nodes -keyout server.key -out csr -subj /CN=localhost",
        "openssl x509 -req -days 2 -in csr -CA ca.pem -CAkey ca.key -CAcreateserial -extfile san -out server.pem",
    ):
        subprocess.run(command.split(), cwd=folder, check=True, capture_output=True)
    return Certificates(folder / "ca.pem", folder / "server.pem", folder / "server.key")


@pytest.fixture
def trusting(certificates: Certificates, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Makes this process trust the authority of the tests, as an operator would."""
    return lambda: monkeypatch.setenv("SSL_CERT_FILE", str(certificates.authority))
