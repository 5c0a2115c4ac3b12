"""The page as an application: Streamlit's own, behind a check of whom it answers.

Rule of this file: Streamlit itself checks connections alone, and before it refuses a foreign ``Origin`` it asks the
internet for this machine's address. So what is foreign is refused before Streamlit hears of it, on every path.
"""

from pathlib import Path

import streamlit as st
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from streamlit import config

from paceline import hosts

HEALTH = "/_stcore/health"
SCRIPT = Path(__file__).with_name("paceline_page.py")


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


def _probed(scope: Scope) -> Scope:
    """``scope``, with a probe of health at the root sent to where the page is: probes know of no base path."""
    base = str(config.get_option("server.baseUrlPath") or "").strip("/")
    if not base or scope["type"] != "http" or scope["path"] != HEALTH:
        return scope
    path = f"/{base}{HEALTH}"
    return {**scope, "path": path, "raw_path": path.encode()}


app = st.App(SCRIPT, middleware=[Middleware(KnownHosts)])
