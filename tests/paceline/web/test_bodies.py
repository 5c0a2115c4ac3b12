"""What is held at a time is bounded: memory of all requests together, and the parts of one body."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import fastapi
import pytest
from starlette.exceptions import HTTPException

from paceline.web.bodies import BYTE_BYTES, PART_BYTES, PIECE, BoundedBodies, share_of

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
    return BoundedBodies(route, memory=100 * BYTE_BYTES, parts=10)


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
        assert all_of_them.held == 60 * BYTE_BYTES
        await first.give(b"x" * 40)
        await first.give(b"")
        assert first.task.done()
        assert all_of_them.held == 0

    run(test)


def test_of_those_that_come_at_the_same_time_as_many_as_fit_are_let_through() -> None:
    async def takes_its_time_to_refuse(scope: Any, receive: Any, send: Any) -> None:
        try:
            await route(scope, receive, send)
        except HTTPException:
            for _ in range(20):
                await asyncio.sleep(0)
            raise

    async def test() -> None:
        all_of_them = BoundedBodies(takes_its_time_to_refuse, memory=100 * BYTE_BYTES, parts=10)
        requests = [Request(all_of_them) for _ in range(4)]
        for _ in range(5):
            for request in requests:
                request.pieces.put_nowait(b"x" * 8)
            for _ in range(5):
                await asyncio.sleep(0)
        for _ in range(50):
            await asyncio.sleep(0)
        assert [request.task.done() for request in requests].count(False) == 2
        for request in requests:
            request.task.cancel()
        await asyncio.gather(*(request.task for request in requests), return_exceptions=True)

    run(test)


def test_one_alone_may_be_as_large_as_its_own_limit_allows() -> None:
    async def test() -> None:
        alone = Request(bounded())
        await alone.give(b"x" * 1000)
        assert not alone.task.done()
        await alone.give(b"")
        assert alone.task.exception() is None

    run(test)


@pytest.mark.parametrize("sign", [b",", b"[", b"{"])
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


def test_parts_count_as_what_they_become() -> None:
    async def test() -> None:
        all_of_them = bounded()
        request = Request(all_of_them)
        await request.give(b"1,1,")
        assert all_of_them.held == 4 * BYTE_BYTES + 2 * PART_BYTES
        await request.give(b"")
        assert all_of_them.held == 0

    run(test)


def test_an_answer_for_which_there_is_no_room_is_not_made() -> None:
    async def answers(scope: Any, receive: Any, send: Any) -> None:
        share_of(fastapi.Request(scope)).take(150)
        await route(scope, receive, send)

    async def test() -> None:
        all_of_them = BoundedBodies(answers, memory=200, parts=10)
        first, second = Request(all_of_them), Request(all_of_them)
        await second.give(b"")
        assert status(second) == 503
        await first.give(b"")
        assert first.task.exception() is None
        third = Request(all_of_them)
        await third.give(b"")
        assert third.task.exception() is None

    run(test)


def test_an_answer_counts_until_its_client_has_read_most_of_it() -> None:
    sent: list[dict[str, Any]] = []

    async def answers(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.body", "body": bytes(2 * PIECE + 1), "more_body": False})

    async def test() -> None:
        async def send(message: Any) -> None:
            sent.append(message)

        await BoundedBodies(answers, memory=200, parts=10)({"type": "http"}, no_body, send)

    async def no_body() -> Any:
        raise AssertionError("it has none")

    run(test)
    assert [(len(one["body"]), one["more_body"]) for one in sent] == [(PIECE, True), (PIECE, True), (1, False)]
