"""What stands before every route: whose requests are answered, and that nobody works for a client that has gone."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence

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
            problem = hosts.refusal(headers, self._names)
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
        request = _Request(receive, send)
        working = asyncio.ensure_future(self._app(scope, request.receive, request.send))
        listening = asyncio.ensure_future(request.listen(working.cancel))
        try:
            await working
        except asyncio.CancelledError:
            if not request.abandoned:
                working.cancel()
                raise
        finally:
            listening.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await listening


class _Request:
    """One request, with somebody who listens for its client while the route works."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive, self._send = receive, send
        # One message at a time: a body is read no faster than the route takes it.
        self._messages: asyncio.Queue[Message | Exception] = asyncio.Queue(1)
        self._answered = self.abandoned = False

    async def receive(self) -> Message:
        message = await self._messages.get()
        if isinstance(message, Exception):
            raise message
        return message

    async def send(self, message: Message) -> None:
        await self._send(message)
        self._answered |= message["type"] == "http.response.body" and not message.get("more_body", False)

    async def listen(self, gone: Callable[[], object]) -> None:
        while True:
            try:
                message = await self._receive()
            except Exception as error:  # A body beyond the limit: whoever reads it is to be told, not we.
                await self._messages.put(error)
                return
            if message["type"] == "http.disconnect" and not self._answered:
                self.abandoned = True
                gone()
            await self._messages.put(message)
