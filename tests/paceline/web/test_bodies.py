"""What is read at a time is bounded: bytes of all bodies together, and the parts of one."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from starlette.exceptions import HTTPException

from paceline.web.bodies import BoundedBodies

Answer = Callable[[Any], Awaitable[None]]


class Request:
    """One request whose pieces are handed over as the test says; ``read`` is what the route got."""

    def __init__(self, bounded: BoundedBodies) -> None:
        self.pieces: asyncio.Queue[bytes] = asyncio.Queue()
        self.task = asyncio.ensure_future(bounded({"type": "http"}, self._receive, self._send))

    async def give(self, piece: bytes) -> None:
        await self.pieces.put(piece)
        for _ in range(5):
            await asyncio.sleep(0)

    async def _receive(self) -> dict[str, Any]:
        return {"type": "http.request", "body": await self.pieces.get(), "more_body": True}

    async def _send(self, message: Any) -> None:
        raise AssertionError(message)


async def route(scope: Any, receive: Any, send: Any) -> None:
    """Reads until an empty piece comes."""
    while (await receive())["body"]:
        pass


def bounded() -> BoundedBodies:
    return BoundedBodies(route, in_flight=100, parts=10)


def status(request: Request) -> int:
    error = request.task.exception()
    assert isinstance(error, HTTPException)
    return error.status_code


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(test())  # type: ignore[arg-type]


def test_bodies_share_what_there_is_and_the_one_beyond_it_is_asked_to_wait() -> None:
    async def test() -> None:
        all_of_them = bounded()
        first, second = Request(all_of_them), Request(all_of_them)
        await first.give(b"x" * 60)
        await second.give(b"x" * 40)
        assert not second.task.done()
        await second.give(b"x")
        assert status(second) == 503
        assert all_of_them.held == 60
        await first.give(b"x" * 40)
        await first.give(b"")
        assert first.task.done()
        assert all_of_them.held == 0

    run(test)


def test_one_alone_may_be_as_large_as_its_own_limit_allows() -> None:
    async def test() -> None:
        alone = Request(bounded())
        await alone.give(b"x" * 1000)
        assert not alone.task.done()
        await alone.give(b"")
        assert alone.task.exception() is None

    run(test)


@pytest.mark.parametrize("sign", [b",", b"[", b"{", b":"])
def test_a_body_of_too_many_parts_is_refused_before_it_is_whole(sign: bytes) -> None:
    async def test() -> None:
        all_of_them = bounded()
        request = Request(all_of_them)
        await request.give(sign * 10)
        assert not request.task.done()
        await request.give(sign)
        assert status(request) == 413
        assert all_of_them.held == 0

    run(test)


def test_a_client_that_goes_away_gives_its_share_back() -> None:
    async def test() -> None:
        all_of_them = bounded()
        request = Request(all_of_them)
        await request.give(b"x" * 90)
        request.task.cancel()
        await asyncio.gather(request.task, return_exceptions=True)
        assert all_of_them.held == 0

    run(test)
