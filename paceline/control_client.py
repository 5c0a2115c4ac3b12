"""Asking control: sessions, captures, suggestions and thresholds over HTTP.

Rule of this file: the standard library alone, no proxy, no redirect; every failure is a ``ControlError`` of one line.
"""

import http.client
import json
import ssl
from collections.abc import Mapping
from typing import IO, Any
from urllib.parse import quote, urlsplit

from paceline.http_login import cause
from paceline.settings import CONTROL_TOKEN, CONTROL_URL, TLS_CAFILE
from paceline.visible import visible, without_login

#: How long control may think about an answer; the most that is read of one that is not a file.
ANSWER_S, MOST_BYTES = 30.0, 64 * 1024 * 1024
#: A file is sent only when it is complete: how long that may take.
FILE_S = 600.0
_PIECE = 256 * 1024
WHERE_TOKEN = (
    f"set {CONTROL_TOKEN.name} to what control was started with; without that control keeps its token in "
    "~/.local/share/paceline/control.token of the user who runs it"
)


class ControlError(Exception):
    """Control refuses, or does not answer: why, in one line. ``status`` is HTTP's, 0 without an answer."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def segment(name: str) -> str:
    """``name`` as one part of a path."""
    return quote(name, safe="")


class ControlClient:
    """Asks the control at ``url``; changes are asked for with ``token``, on behalf of ``issuer``.

    ``trust`` says whose certificates are trusted where it is asked by HTTPS; the system's authorities without.
    """

    def __init__(self, url: str, token: str = "", issuer: str = "", trust: ssl.SSLContext | None = None) -> None:
        #: As it is shown.
        self.url, self._url = without_login(url), url
        self._trust = trust
        self._headers = {"Accept": "application/json"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        if issuer:
            self._headers["X-Paceline-Issuer"] = quote(issuer, safe=" @._-")[:200]

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None, timeout_s: float = ANSWER_S) -> Any:
        """What control answers to ``method`` on ``path``: JSON; None where it answers nothing.

        Raises:
            ControlError: it refuses, or there is none.
        """
        connection, answer = self._ask(method, path, body, timeout_s)
        try:
            content = answer.read(MOST_BYTES)
            return json.loads(content) if content else None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise ControlError(answer.status, f"control at {self.url} broke off: {cause(error)}") from error
        finally:
            connection.close()

    def download(self, path: str, file: IO[bytes], timeout_s: float = FILE_S) -> int:
        """Write what is at ``path`` to ``file``; how many bytes that were.

        Raises:
            ControlError: it refuses, or breaks off.
            OSError: ``file`` cannot be written.
        """
        connection, answer = self._ask("GET", path, None, timeout_s)
        written = 0
        try:
            while True:
                try:
                    piece = answer.read(_PIECE)
                except (OSError, http.client.HTTPException) as error:
                    raise ControlError(answer.status, f"control at {self.url} broke off: {cause(error)}") from error
                if not piece:
                    break
                file.write(piece)
                written += len(piece)
        finally:
            connection.close()
        expected = answer.getheader("Content-Length")
        if expected is not None and expected.isdigit() and int(expected) != written:
            raise ControlError(answer.status, f"control at {self.url} broke off after {written} of {expected} bytes")
        return written

    def _ask(
        self, method: str, path: str, body: Mapping[str, Any] | None, timeout_s: float
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        try:
            parts = urlsplit(self._url)
            at, port = parts.hostname or "", parts.port
        except ValueError as error:
            raise ControlError(0, f"no control at {self.url}: {cause(error)}; correct {CONTROL_URL.name}") from error
        connection = (
            http.client.HTTPSConnection(at, port, timeout=timeout_s, context=self._trust)
            if parts.scheme == "https"
            else http.client.HTTPConnection(at, port, timeout=timeout_s)
        )
        headers, content = dict(self._headers), None
        if body is not None:
            headers["Content-Type"], content = "application/json", json.dumps(body).encode()
        try:
            connection.request(method, parts.path.rstrip("/") + path, content, headers)
            answer = connection.getresponse()
            refused = answer.read(_PIECE) if answer.status >= 300 else b""
        except (OSError, http.client.HTTPException, ValueError) as error:
            connection.close()
            mend = f"start it with `paceline control`, or set {CONTROL_URL.name}"
            if isinstance(error, ssl.SSLCertVerificationError):
                mend = f"set {TLS_CAFILE.name} to the authority that signed it"
            elif isinstance(error, ssl.SSLError):
                mend = f"it may speak no TLS: correct {CONTROL_URL.name}"
            raise ControlError(0, f"no control at {self.url}: {cause(error)}; {mend}") from error
        if answer.status >= 300:
            connection.close()
            raise ControlError(answer.status, _said(answer.status, refused))
        return connection, answer


def _said(status: int, content: bytes) -> str:
    try:
        problems = json.loads(content)["detail"]
        said = "; ".join(f"{problem['field']}: {problem['reason']}" for problem in problems)
    except (ValueError, KeyError, TypeError):
        said = f"control answers {status}"
    mend = f"; {WHERE_TOKEN}" if status == 401 else ""
    return visible(said)[:1000] + mend
