"""Questions that wait: nobody works for a client that has gone, and nothing else waits with them."""

import contextlib
import json
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from forecaster import job_profiles
from forecaster.api.app import application
from forecaster.api.executor import ForecastExecutor
from forecaster.history import SeriesSubject
from forecaster.job_kinds import JobKindEstimate, classify
from forecaster.memory import Memory
from paceline.events import JobWindow

PATIENCE_S = 120.0
Until = Callable[..., None]
#: Told apart by how far ahead they look.
FIRST, ABANDONED, NEXT = 3, 7, 5


def question(horizon: int) -> dict[str, object]:
    """A question for the model that waits."""
    return {"values": [1.0, 2.0] * 20, "interval_s": 1.0, "horizon": horizon, "model": "statespace"}


def ask(address: str, route: str, asked: dict[str, object]) -> socket.socket:
    """A connection on which a question was sent, and no answer read."""
    host, port = address.removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)))
    body = json.dumps(asked).encode()
    head = f"POST {route} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    connection.sendall(f"{head}\r\n\r\n".encode() + body)
    return connection


@pytest.mark.slow
@pytest.mark.parametrize(
    ("route", "abandoned"),
    [
        ("/v1/forecast", question(ABANDONED)),
        ("/v1/forecast/batch", {"questions": [question(ABANDONED)] * 100}),
    ],
)
def test_abandoned_questions_are_never_worked_on(
    serving: Callable[..., contextlib.AbstractContextManager[str]],
    waiting_executor: ForecastExecutor,
    held_model: Any,
    until: Until,
    route: str,
    abandoned: dict[str, object],
) -> None:
    """Twenty clients that ask and leave cost the next one nothing: what was queued for them is dropped."""
    app = application(waiting_executor, Memory())
    with serving(app) as address, ThreadPoolExecutor(2) as clients:
        first = clients.submit(httpx.post, f"{address}/v1/forecast", json=question(FIRST), timeout=None)
        assert held_model.entered.wait(PATIENCE_S)
        connections = [ask(address, route, abandoned) for _ in range(20)]
        until(lambda: waiting_executor.waiting == 21)
        following = clients.submit(httpx.post, f"{address}/v1/forecast", json=question(NEXT), timeout=None)
        until(lambda: waiting_executor.waiting == 22)
        for connection in connections:
            connection.close()
        until(lambda: waiting_executor.waiting == 2)
        held_model.release.set()
        assert [first.result().status_code, following.result().status_code] == [200, 200]
        assert set(held_model.horizons) == {FIRST, NEXT}
        assert "paceline_forecaster_waiting_questions 0.0" in httpx.get(f"{address}/metrics").text


@pytest.mark.long
def test_a_client_that_stays_is_answered_however_it_sends(address: str) -> None:
    """A body in pieces, and several questions on one connection."""
    body = json.dumps({"values": [1.0, 2.0] * 20, "interval_s": 1.0, "horizon": 2}).encode()
    with httpx.Client(base_url=address, timeout=None) as client:
        for _ in range(3):
            pieces = (body[place : place + 10] for place in range(0, len(body), 10))
            response = client.post("/v1/forecast", content=pieces, headers={"content-type": "application/json"})
            assert response.status_code == 200


def test_profiling_holds_up_neither_events_nor_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a job's kind is computed the memory takes events and answers; the profile is of the moment it was asked."""
    window = JobWindow(
        cluster="c", start_s=99.0, length_s=1.0, job="j", attempt=0, ranks=2, steps=2, first_step=198, last_step=199,
        step_median_s=0.5, step_p95_s=0.6, own_median_s=0.4, own_worst_s=0.5, worst_rank=1, wait_ratio=None,
        phase_median_s={},
    )  # fmt: skip
    entered, release = threading.Event(), threading.Event()

    def held(*arguments: object, **named: object) -> JobKindEstimate:
        entered.set()
        assert release.wait(PATIENCE_S)
        return classify(*arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(job_profiles, "classify", held)
    memory = Memory()
    memory.update(window)
    memory.put(SeriesSubject("k", "W", 60.0, "c"), [60.0], [1.0])

    def ask_everything() -> float:
        memory.update(window)
        assert memory.find("k") is not None
        assert [line.samples for line in memory.lines()] == [1]
        assert memory.keys()
        assert memory.bytes
        end = memory.end("c", "j", 400)
        return 0.0 if end is None else end.time_s

    for profiles in (lambda: memory.profiles("j"), lambda: [state.profile() for state in memory.running()]):
        entered.clear()
        release.clear()
        with ThreadPoolExecutor(2) as pool:
            try:
                profiled = pool.submit(profiles)
                assert entered.wait(PATIENCE_S)
                assert pool.submit(ask_everything).result(PATIENCE_S) > 0.0
                assert not profiled.done()
            finally:
                release.set()
            assert [one.kind for one in profiled.result(PATIENCE_S)] == ["training"]
