"""What bodies take of the service's memory: what is held at a time is bounded, whatever is in them."""

import asyncio
import gc
import json
import threading
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, HTTPException
from pydantic import ValidationError

from forecaster.api.app import MEMORY, application
from forecaster.api.executor import ForecastExecutor
from forecaster.api.forecasts import _questions
from forecaster.api.jobs import KindQuestion
from forecaster.api.questions import BATCH_VALUES, BatchQuestion, ForecastQuestion, Strict
from forecaster.grid import LONGEST
from forecaster.memory import Memory
from forecaster.models.registry import Registry
from paceline.web.bodies import BYTE_BYTES, PART_BYTES
from paceline.web.failures import RefusedError

QUESTION = {"values": [3.0, 4.0, 5.0] * 10, "interval_s": 60.0, "horizon": 1, "model": "naive"}
#: What a short number with its comma counts as.
EACH = len(b"1,") * BYTE_BYTES + PART_BYTES
Test = Callable[[httpx.AsyncClient], Awaitable[None]]


@pytest.fixture
def service(models: Registry) -> FastAPI:
    """The service, of which nobody has asked anything."""
    return application(ForecastExecutor(models, 1), Memory())


def run(service: FastAPI, test: Test) -> None:
    async def asked() -> None:
        transport = httpx.ASGITransport(service)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=None) as client:
            await test(client)

    asyncio.run(asked())


class OpenBody:
    """A body of ``count`` short numbers that is sent and does not end before it is told to."""

    def __init__(self, client: httpx.AsyncClient, count: int) -> None:
        self._count = count
        self.sent, self.end = asyncio.Event(), asyncio.Event()
        headers = {"content-type": "application/json"}
        self.answer = asyncio.ensure_future(client.post("/v1/forecast", content=self._pieces(), headers=headers))

    async def _pieces(self) -> AsyncIterator[bytes]:
        yield b"1," * self._count
        self.sent.set()
        await self.end.wait()


async def gone(bodies: list[OpenBody]) -> None:
    """Their clients go away."""
    for body in bodies:
        body.answer.cancel()
    await asyncio.gather(*(body.answer for body in bodies), return_exceptions=True)


@pytest.mark.long
def test_who_goes_beyond_the_bound_waits_until_another_is_done(service: FastAPI) -> None:
    """Bodies that are begun fill what there is: the next one is told when to ask again, and then answered."""

    async def test(client: httpx.AsyncClient) -> None:
        each = MEMORY // EACH // 3
        bodies = [OpenBody(client, each) for _ in range(3)]
        await asyncio.gather(*(body.sent.wait() for body in bodies))
        refused = await client.post("/v1/forecast", json=QUESTION)
        assert refused.status_code == 503
        assert refused.headers["Retry-After"] == "1"
        bodies[0].end.set()
        assert (await bodies[0].answer).status_code == 413
        answered = await client.post("/v1/forecast", json=QUESTION)
        assert answered.status_code == 200, answered.text
        await gone(bodies)

    run(service, test)


def test_the_answer_counts_too(service: FastAPI) -> None:
    """A question of a hundred bytes may ask for a million numbers."""
    large = QUESTION | {"horizon": 86_400, "quantiles": [level / 12 for level in range(1, 12)]}

    async def test(client: httpx.AsyncClient) -> None:
        bodies = [OpenBody(client, MEMORY * 8 // 10 // EACH // 3) for _ in range(3)]
        await asyncio.gather(*(body.sent.wait() for body in bodies))
        assert (await client.post("/v1/forecast", json=large)).status_code == 503
        assert (await client.post("/v1/forecast/batch", json={"questions": [large]})).status_code == 503
        assert (await client.post("/v1/forecast", json=QUESTION)).status_code == 200
        await gone(bodies)

    run(service, test)


def test_others_are_answered_while_a_body_is_parsed(service: FastAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it takes."""
    entered, release = threading.Event(), threading.Event()
    real = Strict.from_json.__func__  # type: ignore[attr-defined]

    def waits(model: type[Strict], body: bytes) -> Any:
        entered.set()
        assert release.wait(120.0)
        return real(model, body)

    async def test(client: httpx.AsyncClient) -> None:
        parsed = asyncio.ensure_future(client.post("/v1/forecast", json=QUESTION))
        try:
            while not entered.is_set():
                await asyncio.sleep(0)
            assert (await client.get("/healthz")).status_code == 200
            assert not parsed.done()
        finally:
            release.set()
        assert (await parsed).status_code == 200

    monkeypatch.setattr(Strict, "from_json", classmethod(waits))
    run(service, test)


DAYS = [f"{1970 + day // 336}{day // 28 % 12 + 1:02}{day % 28 + 1:02}" for day in range(1_000)]
TIMED = {"values": [1] * len(DAYS), "interval_s": 86_400.0, "horizon": 1}
CONTENTS: dict[str, dict[str, Any]] = {
    "short numbers": {"values": [1] * 4_000, "interval_s": 60.0, "horizon": 1},
    "long numbers": {"values": [0.12345678901234567] * 4_000, "interval_s": 60.0, "horizon": 1},
    "gaps": {"values": [1, *[None] * 4_000], "interval_s": 60.0, "horizon": 1},
    "seconds": TIMED | {"timestamps": [86_400 * day for day in range(len(DAYS))]},
    "dates": TIMED | {"timestamps": DAYS},
}


@pytest.mark.long
@pytest.mark.parametrize("content", CONTENTS)
def test_a_batch_takes_no_more_than_it_counts_as(content: str) -> None:
    """Parsed and on its grid, beside what one question takes while it is parsed."""
    one = json.dumps(CONTENTS[content], separators=(",", ":")).encode()
    body = b'{"questions":[' + b",".join([one] * 8) + b"]}"
    parts = sum(body.count(sign) for sign in (b",", b"[", b"{"))
    BatchQuestion.from_json(body)
    gc.collect()
    tracemalloc.start()
    try:
        _questions(BatchQuestion.from_json(body))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most <= (BYTE_BYTES * len(body) + PART_BYTES * parts) // 2 + 150 * len(CONTENTS[content]["values"])


@pytest.mark.parametrize("name", ["values", "timestamps"])
def test_a_list_of_wrong_values_is_refused_for_its_first(name: str) -> None:
    """A reason takes a kilobyte, and there may be a hundred thousand of them."""
    with pytest.raises(ValidationError) as refusal:
        ForecastQuestion.from_json(json.dumps(QUESTION | {name: [[]] * 900}).encode())
    assert {problem["loc"][:2] for problem in refusal.value.errors()} == {(name, 0)}


def test_the_reasons_of_a_question_are_bounded() -> None:
    """Of thousands of fields that there are not no list is made."""
    body = json.dumps({f"field{number}": 1 for number in range(2_000)}).encode()
    with pytest.raises(ValidationError) as refusal:
        ForecastQuestion.from_json(body)
    assert [problem["msg"] for problem in refusal.value.errors()] == ["2,002 values or fields are wrong"]


@pytest.mark.parametrize(
    ("model", "body"),
    [
        (ForecastQuestion, b'{"values":[' + b"1," * 210_000 + b"1]}"),
        (BatchQuestion, b'{"questions":3,"more":[' + b"1," * 210_000 + b"1]}"),
        (KindQuestion, b'{"series":{' + b'"a":1,' * 2_000 + b'"a":1}}'),
    ],
)
def test_what_takes_much_to_refuse_is_not_parsed(model: type[Strict], body: bytes) -> None:
    """It is counted, and that is that."""
    with pytest.raises(HTTPException) as refusal:
        model.from_json(body)
    assert refusal.value.status_code == 413


@pytest.mark.parametrize("inner", [b"[]", b"{}"])
def test_a_question_has_few_lists_and_objects(inner: bytes) -> None:
    """Each takes a hundred times what it takes in the body."""
    with pytest.raises(ValidationError, match="lists and objects"):
        ForecastQuestion.from_json(b'{"values":[' + inner + (b"," + inner) * 2_000 + b"]}")


def test_gaps_between_times_count_as_values() -> None:
    """Two times that lie far apart make as long a grid as all values between them would."""
    far = {"values": [1, 2], "timestamps": [0, LONGEST - 2], "interval_s": 1.0, "horizon": 1}
    count = BATCH_VALUES // (LONGEST - 1)
    made = [_questions(BatchQuestion(questions=[ForecastQuestion.from_json(json.dumps(far).encode())] * count))]
    assert len(made[0]) == count
    with pytest.raises(RefusedError, match="gaps"):
        _questions(BatchQuestion(questions=[ForecastQuestion.from_json(json.dumps(far).encode())] * (count + 1)))


@pytest.mark.parametrize("text", ["}", "}{", "]},{", '"}', "\\", "a,b"])
def test_a_batch_is_parted_whatever_its_texts_hold(text: str) -> None:
    """A brace in a text ends no question."""
    questions = [QUESTION | {"model": text}, QUESTION]
    with pytest.raises(ValidationError) as refusal:
        BatchQuestion.from_json(json.dumps({"questions": questions[::-1]}, indent=1).encode())
    assert [problem["loc"][:2] for problem in refusal.value.errors()] == [("questions", 1)]
    assert "there is none called" in str(refusal.value)


def test_a_batch_may_hold_blanks() -> None:
    """As JSON allows it."""
    one = json.dumps(QUESTION).encode()
    made = BatchQuestion.from_json(b' { "questions" :\n[ ' + one + b" ,\n" + one + b" ] } ")
    assert len(made.questions) == 2


def test_no_question_of_a_batch_may_hold_objects() -> None:
    """One is refused with its place; of many the end of the question is not looked for."""
    with pytest.raises(ValidationError, match=r"questions\.0\.model"):
        BatchQuestion.from_json(json.dumps({"questions": [QUESTION | {"model": {}}]}).encode())
    with pytest.raises(HTTPException, match="no objects"):
        BatchQuestion.from_json(json.dumps({"questions": [QUESTION | {"model": [{}] * 9}]}).encode())
