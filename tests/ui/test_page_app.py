"""Documents tell the browser where the page's server is; all else goes through as it is."""

import asyncio
import re
from typing import Any

import pytest

from ui.page_app import PATHS, TELL_ADDRESS, FewVisitors, OwnAddress

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


def test_one_visitor_more_than_there_may_be_is_refused_until_another_leaves() -> None:
    """Each browser is a run of the script; requests without one are answered all the same."""

    async def serve() -> list[str]:
        sent: list[str] = []
        leave = [asyncio.Event() for _ in range(4)]

        async def inside(scope: Any, receive: Any, send: Any) -> None:
            sent.append(f"{scope['type']} {scope['path']}")
            await leave[int(scope["path"])].wait()

        async def send(message: Any) -> None:
            sent.append(f"{message['type']} {message['code']}")

        async def receive() -> Any:
            return {"type": "websocket.connect"}

        few = FewVisitors(inside, most=2)
        first, second = (
            asyncio.create_task(few({"type": "websocket", "path": str(at)}, receive, send)) for at in range(2)
        )
        await asyncio.sleep(0)
        await few({"type": "websocket", "path": "2"}, receive, send)
        leave[3].set()
        await few({"type": "http", "path": "3"}, receive, send)
        leave[0].set()
        await first
        leave[2].set()
        await few({"type": "websocket", "path": "2"}, receive, send)
        leave[1].set()
        await second
        return sent

    assert asyncio.run(serve()) == [
        *("websocket 0", "websocket 1", "websocket.close 1013"),
        *("http 3", "websocket 2"),
    ]
