"""HTTP for the API server of the tests: requests in, JSON or the lines of a watch out.

Rule of this file: it knows no object. A watch is chunked, as the real one is; a connection breaks where it is told to.
"""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any, NamedTuple, Protocol
from urllib.parse import parse_qsl, urlsplit

from tests.annotator.api_objects import Object, RefusedError


class Asked(NamedTuple):
    """A request as it came."""

    method: str
    path: str
    query: dict[str, str]
    body: Any
    content_type: str


class Answers(Protocol):
    """Who answers."""

    def answer(self, asked: Asked, token: str) -> tuple[int, Any]: ...


def handler(server: Answers) -> type[BaseHTTPRequestHandler]:  # noqa: C901
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def _serve(self) -> None:
            url = urlsplit(self.path)
            size = int(self.headers.get("Content-Length") or 0)
            raw = self.rfile.read(size)
            query = {**dict(parse_qsl(url.query)), "accept": self.headers.get("Accept", "")}
            body = json.loads(raw) if raw else None
            asked = Asked(self.command, url.path, query, body, self.headers.get("Content-Type", ""))
            token = self.headers.get("Authorization", "").removeprefix("Bearer ").removeprefix("bearer ")
            try:
                status, told = server.answer(asked, token)
                if isinstance(told, Iterator):
                    self._stream(told)
                else:
                    self._send(status, told, {})
            except RefusedError as refusal:
                self._send(refusal.code, refusal.status, refusal.headers)
            except (ConnectionError, BrokenPipeError):
                self.close_connection = True
                self.connection.close()

        do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _serve  # noqa: N815 - the library's names

        def _send(self, status: int, told: Any, headers: dict[str, str]) -> None:
            """What is long is sent in chunks, as Go's server does; bytes are a log."""
            content = told if isinstance(told, bytes) else json.dumps(told).encode()
            form = "text/plain" if isinstance(told, bytes) else "application/json"
            self.send_response(status)
            long = len(content) > 2048
            size = {"Transfer-Encoding": "chunked"} if long else {"Content-Length": str(len(content))}
            for name, value in {"Content-Type": form, **size, **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            for at in range(0, len(content) if long else 0, 4096):
                self._chunk(content[at : at + 4096])
            self.wfile.write(b"0\r\n\r\n" if long else content)

        def _chunk(self, part: bytes) -> None:
            self.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")

        def _stream(self, told: Iterator[Object | None]) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for one in told:
                if one is None:
                    raise ConnectionError
                self._chunk(json.dumps(one).encode() + b"\n")
                self.wfile.flush()
            self.wfile.write(b"0\r\n\r\n")

        def log_message(self, *_: Any) -> None:
            pass

    return Handler
