"""The largest bodies hold up nobody: parsed in a thread of their own, one after the other, a question at a time."""

import json
import threading
from typing import Any

import httpx
import pytest

from forecaster.api import questions
from forecaster.api.questions import BatchQuestion, ForecastQuestion, Strict
from tests.forecaster.conftest import TOKEN

QUESTION: dict[str, Any] = {"values": [1.0, 2.0] * 20, "interval_s": 60.0, "horizon": 1}
BODIES: dict[str, dict[str, Any]] = {
    "/v1/forecast": QUESTION,
    "/v1/forecast/batch": {"questions": [QUESTION, QUESTION]},
    "/v1/cycle": {"values": [1.0, 2.0] * 20, "interval_s": 1.0},
    "/v1/job-type": {"series": {"utilization_ratio": [0.5] * 60}, "interval_s": 1.0},
    "/v1/series/mine": {"interval_s": 1.0, "times_s": [1.0], "values": [1.0]},
}


@pytest.mark.long
@pytest.mark.parametrize("path", BODIES)
def test_no_body_is_parsed_on_the_event_loop(client: httpx.Client, path: str, monkeypatch: pytest.MonkeyPatch):
    """Every route that reads one, whatever model it asks for."""
    threads: list[str] = []
    real = Strict.from_json.__func__  # type: ignore[attr-defined]

    def seen(model: type[Strict], body: bytes) -> Any:
        threads.append(threading.current_thread().name)
        return real(model, body)

    monkeypatch.setattr(Strict, "from_json", classmethod(seen))
    assert client.post(path, json=BODIES[path], headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert {name.rpartition("_")[0] for name in threads} == {"parse"}


def test_a_batch_is_parsed_a_question_at_a_time(monkeypatch: pytest.MonkeyPatch):
    """No piece is larger than one question, so that others get their turn between two."""
    pieces: list[int] = []
    real = ForecastQuestion.model_validate_json

    def seen(body: bytes) -> ForecastQuestion:
        pieces.append(len(body))
        return real(body)

    monkeypatch.setattr(ForecastQuestion, "model_validate_json", seen)
    one = json.dumps(QUESTION).encode()
    made = BatchQuestion.from_json(b'{"questions": [' + b",".join([one] * 50) + b"]}")
    assert len(made.questions) == 50
    assert pieces == [len(one)] * 50


@pytest.mark.parametrize("path", ["/v1/forecast", "/v1/forecast/batch"])
def test_a_question_of_too_many_bytes_is_refused_before_it_is_parsed(
    client: httpx.Client, path: str, monkeypatch: pytest.MonkeyPatch
):
    """Alone, and in a batch."""
    monkeypatch.setattr(questions, "QUESTION_BYTES", 100)
    answer = client.post(path, json=BODIES[path])
    assert answer.status_code == 413
    assert "for one question" in answer.text


@pytest.mark.long
@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"", "body"),
        (b"{", "body"),
        (b"\xff\xfe", "body"),
        (b"[]", "body"),
        (b"null", "body"),
        (b'{"questions": 3}', "questions"),
        (b'{"questions": []}', "questions"),
        (b'{"questions": [1]}', "questions[0]"),
        (b'{"questions": [], "more": 1}', "more"),
        (b'{"questions": [{"values": [NaN], "interval_s": 1.0, "horizon": 1}]}', "questions[0].values"),
        (b'{"questions": [{"values": ["\\ud800"], "interval_s": 1.0, "horizon": 1}]}', "body"),
        (b'{"questions": [{"interval_s": 1.0, "horizon": 1}]}', "questions[0].values"),
        (b'{"questions": [' + b"[" * 5000 + b"]" * 5000 + b"]}", "body"),
    ],
)
def test_what_is_no_batch_is_refused_with_its_place(client: httpx.Client, body: bytes, field: str):
    """Whichever of the two parsers finds it."""
    answer = client.post("/v1/forecast/batch", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 422, answer.text
    assert field in {problem["field"] for problem in answer.json()["detail"]}, answer.text


@pytest.mark.slow
def test_more_questions_than_are_allowed_are_counted_and_not_all_parsed(client: httpx.Client):
    """The reason says how many may be asked, and what is beyond is not looked at."""
    one = json.dumps(QUESTION)
    body = '{"questions": [' + ",".join([one] * 1_001 + ["7"] * 1_000) + "]}"
    answer = client.post("/v1/forecast/batch", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 422
    assert [(each["field"], "at most 1000" in each["reason"]) for each in answer.json()["detail"]] == [
        ("questions", True)
    ]
