"""Bounds on what is being read at a time: bytes of all bodies together, and how much one of them makes to parse.

Rule of this file: counted as it arrives, whatever a client announced; refused before anything is parsed. Parsing holds
the interpreter from begin to end, so that a body of too many parts would stop every other answer.
"""

from fastapi import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

#: What begins or divides a value of JSON: so many parts are built when it is parsed.
_DIVIDING = (b",", b"[", b"{", b":")


class BoundedBodies:
    """Lets through bodies of at most ``parts`` parts each and ``in_flight`` bytes in all; the first always has room.

    A body counts from its first byte until its request is answered.
    """

    def __init__(self, app: ASGIApp, in_flight: int, parts: int) -> None:
        self._app, self._in_flight, self._parts = app, in_flight, parts
        #: Bytes that are held now.
        self.held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        held = parts = 0

        async def counted() -> Message:
            nonlocal held, parts
            message = await receive()
            piece = message.get("body", b"") if message["type"] == "http.request" else b""
            held += len(piece)
            self.held += len(piece)
            parts += sum(piece.count(sign) for sign in _DIVIDING)
            self._check(held, parts)
            return message

        try:
            await self._app(scope, counted, send)
        finally:
            self.held -= held

    def _check(self, held: int, parts: int) -> None:
        if parts > self._parts:
            raise HTTPException(413, f"more than {self._parts:,} values; ask in several requests")
        if self.held > self._in_flight and self.held > held:
            said = f"other requests hold {(self.held - held) >> 20:,} MiB; ask again in a moment"
            raise HTTPException(503, said, headers={"Retry-After": "1"})
