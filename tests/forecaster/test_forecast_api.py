"""POST /v1/forecast: what it answers, and how it refuses."""

import json
from typing import Any

import httpx
import numpy as np
import pytest

from forecaster.api.app import PARTS

SHORT = [3.0, 4.0, 5.0, 4.0] * 20


def ask(client: httpx.Client, **changes: Any) -> httpx.Response:
    """The answer to a good question with ``changes``; a change to ``...`` leaves the field out."""
    question = {"values": SHORT, "interval_s": 60.0, "horizon": 5} | changes
    body = json.dumps({name: value for name, value in question.items() if value is not ...})
    return client.post("/v1/forecast", content=body, headers={"content-type": "application/json"})


def problems(response: httpx.Response) -> list[tuple[str, str]]:
    assert response.status_code == 422, response.text
    return [(one["field"], one["reason"]) for one in response.json()["detail"]]


def test_one_row_a_step_one_number_a_quantile(client: httpx.Client, wave: list[float]) -> None:
    """The answer has the shape that was asked for."""
    answer = ask(client, values=wave, horizon=7, quantiles=[0.25, 0.5, 0.75]).json()
    assert answer["quantiles"] == [0.25, 0.5, 0.75]
    assert [len(row) for row in answer["values"]] == [3] * 7


@pytest.mark.long
def test_numbers_of_a_row_ascend(client: httpx.Client, wave: list[float]) -> None:
    """Quantiles never cross, in whatever order they were asked for."""
    answer = ask(client, values=wave, horizon=60, quantiles=[0.9, 0.01, 0.5, 0.99]).json()
    assert answer["quantiles"] == [0.01, 0.5, 0.9, 0.99]
    assert all(row == sorted(row) for row in answer["values"])


@pytest.mark.long
def test_it_says_how_it_did_beside_the_naive(client: httpx.Client, wave: list[float]) -> None:
    """The back-test's two scores, the history seen, the model."""
    answer = ask(client, values=wave, horizon=20).json()
    assert 0 < answer["backtest"]["own"] <= answer["backtest"]["seasonal_naive"]
    assert answer["history"] == 600
    assert answer["season_length"] == 50
    assert answer["model"]


@pytest.mark.long
def test_the_same_question_has_the_same_answer(client: httpx.Client, wave: list[float]) -> None:
    """Nothing is drawn by chance, nothing is remembered."""
    assert ask(client, values=wave).json() == ask(client, values=wave).json()


@pytest.mark.long
@pytest.mark.parametrize("count", [1, 2, 3, 10, 30])
def test_short_histories_are_answered(client: httpx.Client, count: int) -> None:
    """From one sample on there is an answer, and it says that it was not tested."""
    answer = ask(client, values=[5.0] * count, horizon=12).json()
    assert len(answer["values"]) == 12
    assert answer["history"] == count
    assert (answer["backtest"]["own"] is None) == (answer["backtest"]["moments"] == 0)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([5.0], "one value was measured: "),
        ([None, 5.0, None], "one value was "),
        ([5.0] * 9, "all values measured are 5"),
    ],
)
def test_values_that_do_not_vary_are_noted(client: httpx.Client, values: list[float | None], words: str) -> None:
    """Where there was no back-test either: all quantiles are one number, which is no knowledge."""
    notes = ask(client, values=values).json()["notes"]
    assert any(note.startswith(words) and "nothing is known of how the series varies" in note for note in notes)
    assert not any("varies" in note for note in ask(client, values=[4.0, 5.0]).json()["notes"])


@pytest.mark.slow
@pytest.mark.parametrize(("interval", "horizon"), [(1.0, 1), (1.0, 86_400), (60.0, 1440), (3600.0, 24)])
def test_any_horizon_up_to_a_day(client: httpx.Client, interval: float, horizon: int) -> None:
    """From one sample to a day, from seconds to hours."""
    answer = ask(client, interval_s=interval, horizon=horizon, quantiles=[0.1, 0.5, 0.9]).json()
    assert len(answer["values"]) == horizon


@pytest.mark.long
def test_values_stay_in_their_range(client: httpx.Client) -> None:
    """No quantile leaves what the caller calls possible, however steep the trend."""
    answer = ask(client, values=[float(x) for x in range(100)], horizon=60, minimum=0.0, maximum=110.0).json()
    assert np.max(answer["values"]) <= 110.0
    assert np.min(answer["values"]) >= 0.0


@pytest.mark.long
def test_a_gap_is_no_zero(client: httpx.Client) -> None:
    """Half of the samples missing does not pull the forecast down."""
    answer = ask(client, values=[80.0 if step % 2 else None for step in range(200)]).json()
    assert np.min(answer["values"]) > 70.0
    assert any("gaps" in note for note in answer["notes"])


@pytest.mark.long
def test_timestamps_make_the_grid(client: httpx.Client) -> None:
    """A missing time is a gap; ISO 8601 and Unix seconds are the same."""
    seconds = [60.0 * step for step in range(80) if step not in (10, 11)]
    iso = [f"1970-01-01T{int(at) // 3600:02}:{int(at) // 60 % 60:02}:00Z" for at in seconds]
    values = SHORT[: len(seconds)]
    first = ask(client, values=values, interval_s=..., timestamps=seconds).json()
    assert first["interval_s"] == 60.0
    assert first["notes"][0].startswith("2 of 80")
    assert ask(client, values=values, interval_s=..., timestamps=iso).json() == first


@pytest.mark.long
def test_a_series_that_rests_has_a_chance_of_being_busy(client: httpx.Client) -> None:
    """Zero-inflated: the probability of being above the minimum, for each step, between 0 and 1."""
    rng = np.random.default_rng(0)
    values = [float(value) for value in (rng.random(400) < 0.3) * 80.0]
    answer = ask(client, values=values, minimum=0.0).json()
    assert len(answer["busy"]) == 5
    assert all(0.15 < chance < 0.5 for chance in answer["busy"])
    assert ask(client).json()["busy"] is None


NAN, INFINITY = float("nan"), float("inf")


@pytest.mark.long
@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"values": [1.0, NAN]}, "values[1]", "NaN"),
        ({"values": [INFINITY, 1.0]}, "values[0]", "Infinity"),
        ({"values": [1.0, -INFINITY]}, "values[1]", "-Infinity"),
        ({"values": []}, "values", "at least 1"),
        ({"values": [None, None]}, "values", "nothing was measured"),
        ({"values": [1.0] * 100_001}, "values", "100000"),
        ({"values": [True, False]}, "values[0]", "number"),
        ({"values": ["1", "2"]}, "values[0]", "number"),
        ({"values": "1,2"}, "values", "array"),
        ({"values": ...}, "values", "required"),
        ({"horizon": 0}, "horizon", "1"),
        ({"horizon": 86_401}, "horizon", "86400"),
        ({"horizon": 1.5}, "horizon", "integer"),
        ({"horizon": True}, "horizon", "integer"),
        ({"horizon": ...}, "horizon", "required"),
        ({"interval_s": ...}, "interval_s", "timestamps"),
        ({"interval_s": 0.0}, "interval_s", "0.001"),
        ({"interval_s": NAN}, "interval_s", ""),
        ({"quantiles": []}, "quantiles", "at least 1"),
        ({"quantiles": [0.0]}, "quantiles[0]", "greater than 0"),
        ({"quantiles": [0.5, 1.0]}, "quantiles[1]", "less than 1"),
        ({"quantiles": [0.5, 0.5]}, "quantiles", "twice"),
        ({"minimum": NAN}, "minimum", "NaN"),
        ({"minimum": 5.0, "maximum": 5.0}, "minimum", "below"),
        ({"values": [1.0, None, 2.0, 10.0], "minimum": 10.0}, "minimum", "below the minimum that you gave, 10: 1, 2"),
        ({"maximum": 3.5}, "maximum", "above the maximum that you gave, 3.5: 4, 5, 4, …"),
        ({"season_length": -1}, "season_length", "0"),
        ({"model": "oracle"}, "model", "oracle"),
        ({"model": "chronos"}, "model", "--chronos"),
        ({"timestamps": [0.0, 60.0]}, "timestamps", "one a value"),
        ({"values": [1.0, 2.0], "timestamps": [60.0, 60.0]}, "timestamps", "ascend"),
        ({"values": [1.0, 2.0], "timestamps": ["yesterday", "today"]}, "timestamps[0]", "ISO 8601"),
        ({"values": [1.0, 2.0], "interval_s": 1.0, "timestamps": [0.0, 1e12]}, "timestamps", "span"),
        ({"horizont": 5}, "horizont", "not permitted"),
    ],
)
def test_a_refusal_names_field_and_reason(
    client: httpx.Client, changes: dict[str, Any], field: str, words: str
) -> None:
    """422, with the field and a reason that says what is wrong with it."""
    reasons = problems(ask(client, **changes))
    assert any(name == field and words in reason for name, reason in reasons), reasons


@pytest.mark.long
@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"null", b"[1]", b'"x"', b"\xff\xfe", b"[" * 50_000, b'{"values": [1' + b"0" * 400 + b"]}"],
    ids=["empty", "torn", "null", "list", "text", "no UTF-8", "deep", "huge number"],
)
def test_any_body_is_refused_in_the_same_shape(client: httpx.Client, body: bytes) -> None:
    """What is no question at all is refused like a wrong one; nothing is a server error."""
    response = client.post("/v1/forecast", content=body, headers={"content-type": "application/json"})
    assert problems(response)


@pytest.mark.parametrize(
    ("body", "headers", "words"),
    [
        (b"hello", {}, "missing; "),
        (b"hello", {"content-type": "application/x-www-form-urlencoded"}, "another; "),
        (b'{"values": [1.0]}', {"content-type": "text/plain"}, "another; "),
        (b"", {}, "missing; "),
    ],
)
def test_a_body_that_is_not_sent_as_json_is_refused_with_the_header(
    client: httpx.Client, body: bytes, headers: dict[str, str], words: str
) -> None:
    """The reason is what a client has to change; JSON that is none is refused as such."""
    for path in ("forecast", "forecast/batch", "cycle"):
        ((field, reason),) = problems(client.post(f"/v1/{path}", content=body, headers=headers))
        assert (field, reason) == ("body", f"the content-type is {words}send JSON with content-type: application/json")
    ((field, reason),) = problems(
        client.post("/v1/forecast", content=b"hello", headers={"content-type": "application/json"})
    )
    assert field == "body"
    assert "Invalid JSON" in reason


@pytest.mark.long
def test_a_body_beyond_the_limit_is_not_read(client: httpx.Client) -> None:
    """413 where the body is larger than any question can be."""
    assert client.post("/v1/forecast", content=b" " * (65 * 1024 * 1024)).status_code == 413


@pytest.mark.long
@pytest.mark.parametrize(
    "values",
    [[0.0] * 100, [1e308, -1e308] * 60, [5e-324] * 100, [-1e308] * 50 + [1e308] * 50, [1e-300, 1e300] * 50],
    ids=["zeros", "largest", "smallest", "a jump", "all sizes"],
)
def test_extreme_numbers_give_finite_answers(client: httpx.Client, values: list[float]) -> None:
    """No overflow, no NaN, whatever finite numbers come."""
    answer = ask(client, values=values, horizon=30).json()
    assert np.isfinite(answer["values"]).all()


@pytest.mark.slow
def test_a_batch_is_answered_in_order(client: httpx.Client, wave: list[float]) -> None:
    """Each answer is the one that the question gets alone."""
    questions = [{"values": wave[: 100 + 10 * place], "interval_s": 60.0, "horizon": 3} for place in range(40)]
    answers = client.post("/v1/forecast/batch", json={"questions": questions}).json()["answers"]
    assert [one["history"] for one in answers] == [100 + 10 * place for place in range(40)]
    assert answers[7] == client.post("/v1/forecast", json=questions[7]).json()


@pytest.mark.long
def test_a_wrong_question_in_a_batch_is_named(client: httpx.Client) -> None:
    """The place of the question is part of the field."""
    questions = [{"values": [1.0], "interval_s": 60.0, "horizon": horizon} for horizon in (1, 0)]
    assert problems(client.post("/v1/forecast/batch", json={"questions": questions}))[0][0] == "questions[1].horizon"


@pytest.mark.long
def test_a_body_of_too_many_values_is_not_parsed(client: httpx.Client) -> None:
    """It would hold the interpreter for seconds, and nobody else would be answered."""
    body = b'{"values":[' + b"1," * (PARTS + 1) + b'1],"interval_s":1}'
    response = client.post("/v1/forecast", content=body, headers={"content-type": "application/json"})
    assert response.status_code == 413
    assert response.json()["detail"] == [
        {"field": "body", "reason": f"more than {PARTS:,} values; ask in several requests"}
    ]
