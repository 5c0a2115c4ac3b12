"""Documents tell the browser where the page's server is; all else goes through as it is."""

import asyncio
import re
from typing import Any

import pytest

from ui.page_app import PATHS, TELL_ADDRESS, OwnAddress

ASKED = [(b"accept", b"text/html,*/*"), (b"accept-encoding", b"gzip")]
PAGE = b"<!doctype html><html><head><title>x</title></head></html>"


def answered(kind: str, *pieces: bytes, **headers: str) -> tuple[dict[bytes, bytes], bytes]:
    """Headers and body of an answer that comes in pieces."""
    sent: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert b"accept-encoding" not in dict(scope["headers"])
        size = str(len(b"".join(pieces)))
        told = {"content-type": kind, "content-length": size, **headers}
        raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in told.items()]
        await send({"type": "http.response.start", "status": 200, "headers": raw})
        for number, piece in enumerate(pieces, 1):
            await send({"type": "http.response.body", "body": piece, "more_body": number < len(pieces)})

    async def send(message: Any) -> None:
        sent.append(dict(message))

    asyncio.run(OwnAddress(app)({"type": "http", "headers": ASKED}, None, send))  # type: ignore[arg-type]
    start, *bodies = sent
    return dict(start["headers"]), b"".join(body["body"] for body in bodies)


def test_a_document_gets_the_script_and_its_length_is_right() -> None:
    headers, body = answered("text/html; charset=utf-8", PAGE)
    assert body == PAGE.replace(b"<head>", b"<head>" + TELL_ADDRESS)
    assert int(headers[b"content-length"]) == len(body)


@pytest.mark.parametrize(
    ("kind", "headers"),
    [("text/javascript", {}), ("application/json", {}), ("text/html", {"content_encoding": "gzip"})],
)
def test_all_else_is_as_it_was(kind: str, headers: dict[str, str]) -> None:
    assert answered(kind, PAGE, b"more", **headers)[1] == PAGE + b"more"


def test_what_is_before_a_pages_name_is_where_the_page_is_served() -> None:
    """Below another path, too, and the pages are those of the menu (tests/docs/test_current.py holds the list)."""
    (pattern,) = re.findall(rb"replace\(/(.*?)/,'/'\)", TELL_ADDRESS)
    served = {path: re.sub(pattern.decode().replace(r"\/", "/"), "/", path) for path in ("/", "/paceline/", "/jobs")}
    assert all(path == at for path, at in served.items())
    for name in PATHS:
        assert re.sub(pattern.decode().replace(r"\/", "/"), "/", f"/below/{name}") == "/below/"
