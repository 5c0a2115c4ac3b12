"""Bounds on what requests hold at a time: bytes of memory of all together, and how much one body makes to parse.

Rule of this file: counted as it arrives, whatever a client announced, and as what it may become; refused before
anything is parsed. Parsing holds the interpreter from begin to end, so that a body of too many parts would stop every
other answer.
"""

from fastapi import HTTPException, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

#: What begins or divides a value of JSON: so many parts are built when it is parsed, names beside their values.
_DIVIDING = (b",", b"[", b"{")
#: A byte is held as it came and in the body that is put together of them, or in the text of a question. A part may
#: become a float in a list.
BYTE_BYTES, PART_BYTES = 2, 40
#: An answer is handed on in such pieces: each waits until the client has read most of those before, so that its request
#: counts for as long.
PIECE = 256 * 1024
_SCOPE = "paceline.share"


class Share:
    """What one request holds of what there is for all."""

    def __init__(self, room: "BoundedBodies") -> None:
        self._room = room
        self.held = 0

    def take(self, size: int) -> None:
        """Hold ``size`` bytes more until the request is answered.

        Raises:
            HTTPException: there is no room beside the other requests.
        """
        self.held += size
        self._room.held += size
        if self._room.held > self._room.memory and self._room.held > self.held:
            # At once: others that send at the same time would be refused for the sake of one that is.
            self.give_back()
            said = f"other requests hold {self._room.held >> 20:,} MiB; ask again in a moment"
            raise HTTPException(503, said, headers={"Retry-After": "1"})

    def give_back(self) -> None:
        """Hold nothing any more."""
        self._room.held -= self.held
        self.held = 0


def share_of(request: Request) -> Share:
    """The share of a request, for a route that knows how large its answer may be."""
    share: Share = request.scope[_SCOPE]
    return share


class BoundedBodies:
    """Lets through bodies of at most ``parts`` parts each, which hold ``memory`` bytes in all; the first always has
    room.

    A request counts from the first byte of its body until its answer is on its way.
    """

    def __init__(self, app: ASGIApp, memory: int, parts: int) -> None:
        self._app, self.memory, self._parts = app, memory, parts
        #: Bytes that are held now.
        self.held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        share = scope[_SCOPE] = Share(self)
        parts = 0

        async def counted() -> Message:
            nonlocal parts
            message = await receive()
            piece = message.get("body", b"") if message["type"] == "http.request" else b""
            more = sum(piece.count(sign) for sign in _DIVIDING)
            parts += more
            if parts > self._parts:
                raise HTTPException(413, f"more than {self._parts:,} values; ask in several requests")
            share.take(BYTE_BYTES * len(piece) + PART_BYTES * more)
            return message

        try:
            await self._app(scope, counted, _in_pieces(send))
        finally:
            share.give_back()


def _in_pieces(send: Send) -> Send:
    async def sent(message: Message) -> None:
        body = message.get("body", b"")
        if message["type"] != "http.response.body" or len(body) <= PIECE:
            await send(message)
            return
        for place in range(0, len(body), PIECE):
            more = message.get("more_body", False) or place + PIECE < len(body)
            await send({**message, "body": body[place : place + PIECE], "more_body": more})

    return sent
