"""What stands before every route: whose requests are answered, and that nobody works for a client that has gone."""

import asyncio
import contextlib
from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from paceline import hosts

from .failures import refusal


class KnownHosts:
    """Refuses requests that ask for, or come from, a host that is not among ``names``; all are answered without any."""

    def __init__(self, app: ASGIApp, names: Sequence[str]) -> None:
        self._app, self._names = app, names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or refuse one request."""
        if self._names and scope["type"] == "http":
            headers = Headers(scope=scope)
            problem = hosts.refusal(headers.get("host"), headers.get("origin"), self._names)
            if problem is not None:
                await refusal(403, problem)(scope, receive, send)
                return
        await self._app(scope, receive, send)


class DropAbandoned:
    """Cancels a request whose client goes away before the answer: what it has queued is never worked on."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, unless its client leaves."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # One message at a time: a body is read no faster than the route takes it.
        messages: asyncio.Queue[Message] = asyncio.Queue(1)
        answered = abandoned = False

        async def sending(message: Message) -> None:
            nonlocal answered
            await send(message)
            answered |= message["type"] == "http.response.body" and not message.get("more_body", False)

        async def listen() -> None:
            nonlocal abandoned
            while True:
                message = await receive()
                if message["type"] == "http.disconnect" and not answered:
                    abandoned = True
                    working.cancel()
                await messages.put(message)

        working = asyncio.ensure_future(self._app(scope, messages.get, sending))
        listening = asyncio.ensure_future(listen())
        try:
            await working
        except asyncio.CancelledError:
            if not abandoned:
                working.cancel()
                raise
        finally:
            listening.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await listening
