"""The page as an application: Streamlit's own, behind a check of whom it answers.

Rule of this file: Streamlit itself checks connections alone, and before it refuses a foreign ``Origin`` it asks the
internet for this machine's address. So what is foreign is refused before Streamlit sees it, on every path.
"""

from pathlib import Path

import streamlit as st
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit import config

from paceline import hosts

HEALTH = "/_stcore/health"
#: Browsers, a tab each, that have the page open at a time.
VISITORS = 200
SCRIPT = Path(__file__).with_name("paceline_page.py")
#: The pages' names in addresses; what is before one of them is where the page is served.
PATHS = ("fleet", "job", "rank", "collectives", "forecast", "suggestions", "history", "sessions", "health")
TELL_ADDRESS = (
    "<script>window.__streamlit={BACKEND_BASE_URL:location.origin+"
    f"location.pathname.replace(/\\/({'|'.join(PATHS)})\\/?$/,'/')}}</script>"
).encode()


class KnownHosts:
    """Refuses requests and connections that ask for, or come from, a host not among ``server.allowedHosts``."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or refuse one request or connection."""
        if scope["type"] in ("http", "websocket"):
            headers = Headers(scope=scope)
            names = config.get_option("server.allowedHosts")
            problem = hosts.refusal(headers, names)
            if problem is not None and scope["type"] == "websocket":
                await receive()
                await send({"type": "websocket.close", "code": 1008})  # Before it is accepted: the answer is 403.
                return
            if problem is not None:
                await PlainTextResponse(f"{': '.join(problem)}\n", status_code=403)(scope, receive, send)
                return
        await self._app(_probed(scope), receive, send)


class FewVisitors:
    """Refuses a connection of one more browser than ``most``: each is a run of the script, and its memory."""

    def __init__(self, app: ASGIApp, most: int = VISITORS) -> None:
        self._app, self._most, self._here = app, most, 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or refuse one request or connection."""
        if scope["type"] != "websocket":
            await self._app(scope, receive, send)
            return
        if self._here >= self._most:
            await receive()
            await send({"type": "websocket.close", "code": 1013})
            return
        self._here += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._here -= 1


def _probed(scope: Scope) -> Scope:
    """``scope``, with a probe of health at the root sent to where the page is: probes know of no base path."""
    base = str(config.get_option("server.baseUrlPath") or "").strip("/")
    if not base or scope["type"] != "http" or scope["path"] != HEALTH:
        return scope
    path = f"/{base}{HEALTH}"
    return {**scope, "path": path, "raw_path": path.encode()}


class OwnAddress:
    """Tells the browser where the page's server is: Streamlit asks below a page's own address first, in vain."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer; a document gets the script at its head."""
        begun: list[Message] = []

        async def told(message: Message) -> None:
            if message["type"] == "http.response.start" and _is_document(message):
                begun.append(message)
            elif begun and message["type"] == "http.response.body":
                body = bytes(message.get("body", b"")).replace(b"<head>", b"<head>" + TELL_ADDRESS, 1)
                if len(begun) == 1:
                    begun.append(message)
                    headers = MutableHeaders(scope=begun[0])
                    if "content-length" in headers:
                        grown = len(body) - len(message.get("body", b""))
                        headers["content-length"] = str(int(headers["content-length"]) + grown)
                    await send(begun[0])
                await send({**message, "body": body})
            else:
                await send(message)

        if scope["type"] == "http" and "text/html" in Headers(scope=scope).get("accept", ""):
            # As it is, for what is packed cannot be added to.
            headers = [(name, value) for name, value in scope["headers"] if name != b"accept-encoding"]
            await self._app({**scope, "headers": headers}, receive, told)
        else:
            await self._app(scope, receive, send)


def _is_document(message: Message) -> bool:
    headers = Headers(raw=message["headers"])
    return headers.get("content-type", "").startswith("text/html") and "content-encoding" not in headers


app = st.App(SCRIPT, middleware=[Middleware(KnownHosts), Middleware(FewVisitors), Middleware(OwnAddress)])
