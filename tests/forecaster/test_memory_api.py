"""What was learned, over HTTP: series, back-tests, jobs, clusters; changes want the token."""

import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import numpy as np
import pytest

from forecaster.api.app import application
from forecaster.api.executor import ForecastExecutor
from forecaster.history import SeriesSubject
from forecaster.memory import Memory
from forecaster.models.registry import Registry
from paceline.events import JobWindow

AUTHORIZED = {"authorization": "Bearer let-me-in"}
SENT = {"interval_s": 60.0, "times_s": [60.0, 120.0, 240.0], "values": [1.0, 2.0, 4.0], "unit": "W"}


@pytest.fixture
def filling(memory: Memory) -> str:
    """A GPU's memory that fills up, a gigabyte of 80 a minute."""
    subject = SeriesSubject("c/device/n/g/fb_used_bytes", "bytes", 60.0, "c", None, "n", "g", 0.0, 80e9)
    memory.put(subject, [60.0 * step for step in range(60)], [1e9 * step for step in range(60)])
    return subject.key


@pytest.mark.long
@pytest.mark.parametrize("method", ["post", "delete"])
def test_a_key_with_a_line_end_is_no_series(client: httpx.Client, method: str) -> None:
    """The answer is one that the interface declares of the route."""
    answer = client.request(method, "/v1/series/a%0Ab", headers=AUTHORIZED)
    declared = client.get("/openapi.json").json()["paths"]["/v1/series/{key}"][method]["responses"]
    assert answer.status_code == 404
    assert "404" in declared


@pytest.mark.long
def test_a_series_is_listed_and_forecast(client: httpx.Client, filling: str) -> None:
    """Its key may hold slashes."""
    rows = client.get("/v1/series").json()["series"]
    assert [row["samples"] for row in rows if row["key"] == filling] == [60]
    answer = client.get(f"/v1/series/{filling}/forecast", params={"horizon": 30}).json()
    assert len(answer["values"]) == 30
    assert answer["time_s"] == 3600.0


@pytest.mark.long
def test_memory_that_fills_up_has_a_time_when_it_is_full(client: httpx.Client, filling: str) -> None:
    """21 minutes are left at a gigabyte a minute."""
    full = client.get(f"/v1/series/{filling}/forecast", params={"horizon": 60}).json()["full"]
    assert full["median_s"] == pytest.approx(21 * 60.0, rel=0.4)


@pytest.mark.long
@pytest.mark.parametrize("field", ["fb_used_bytes", "memory_used_bytes"])
def test_a_leak_that_comes_and_goes_a_little_is_full_almost_surely(
    client: httpx.Client, memory: Memory, field: str
) -> None:
    """Half an hour before it is; nothing is forecast beyond what there is."""
    used = 80e9 * (0.3 + np.arange(390) / 600.0 + 0.01 * np.random.default_rng(1).random(390))
    subject = SeriesSubject(f"c/device/n/leak/{field}", "bytes", 60.0, "c", None, "n", "leak", 0.0, 80e9)
    memory.put(subject, [60.0 * step for step in range(390)], used.tolist())
    answer = client.get(f"/v1/series/{subject.key}/forecast", params={"horizon": 60}).json()
    assert answer["full"]["probability"] > 0.9
    assert answer["full"]["median_s"] == pytest.approx(28 * 60.0, rel=0.2)
    assert np.max(answer["values"]) == 80e9


@pytest.mark.long
def test_a_back_test_ranks_the_models(client: httpx.Client, filling: str) -> None:
    """The best first; on a line the line is as good as exact."""
    models = client.get(f"/v1/backtest/{filling}", params={"horizon": 5}).json()["models"]
    assert {row["model"]: row["loss"] for row in models}["trend"] < 1e5
    losses = [row["loss"] for row in models if row["loss"] is not None]
    assert losses == sorted(losses)


@pytest.mark.long
def test_when_gpus_are_free(client: httpx.Client, memory: Memory) -> None:
    """Four are free all the time, so two are free at the next minute and ninety never."""
    subject = SeriesSubject("c/cluster/free_gpus", "GPUs", 60.0, "c", high=8.0)
    memory.put(subject, [60.0 * step for step in range(80)], [4.0] * 80)
    two = client.get("/v1/clusters/c/free", params={"gpus": 2}).json()
    assert two["now"] == 4.0
    assert two["free"]["median_s"] == 60.0
    assert client.get("/v1/clusters/c/free", params={"gpus": 90}).json()["free"]["median_s"] is None


@pytest.mark.long
def test_free_gpus_of_each_hour_of_the_next_day(client: httpx.Client, memory: Memory) -> None:
    """Four are free at night and none by day, every day: so it will be tomorrow. Hours are those of the clock."""
    subject = SeriesSubject("regular/cluster/free_gpus", "GPUs", 60.0, "regular", high=8.0)
    minutes = np.arange(9 * 1440)
    free = np.where(minutes // 60 % 24 < 12, 4.0, 0.0)
    memory.put(subject, (60.0 * minutes).tolist(), free.tolist())
    answer = client.get("/v1/clusters/regular/hours", params={"gpus": 2}).json()
    assert answer["time_s"] == 9 * 86_400.0
    hours = answer["hours"]
    assert [hour["start_s"] for hour in hours] == [answer["time_s"] + 3600.0 * number for number in range(24)]
    assert [hour["probability"] > 0.5 for hour in hours] == [number < 12 for number in range(24)]
    assert [round(hour["median"]) for hour in hours[2:10] + hours[14:22]] == [4] * 8 + [0] * 8
    assert all(hour["low"] <= hour["median"] <= hour["high"] for hour in hours)


def test_a_job_has_a_profile(client: httpx.Client, memory: Memory) -> None:
    """With the number of steps it has an end."""
    window = JobWindow(
        cluster="c", start_s=99.0, length_s=1.0, job="team/resnet", attempt=0, ranks=2, steps=2, first_step=198,
        last_step=199, step_median_s=0.5, step_p95_s=0.6, own_median_s=0.4, own_worst_s=0.5, worst_rank=1,
        wait_ratio=None, phase_median_s={},
    )  # fmt: skip
    memory.update(window)
    answer = client.get("/v1/jobs/team/resnet/profile", params={"total_steps": 1200}).json()
    assert answer["kind"] == "training"
    assert answer["end_s"] == pytest.approx(600.0)


@pytest.mark.parametrize(
    "path", ["/v1/series/none/forecast", "/v1/backtest/none", "/v1/jobs/none/profile", "/v1/nothing"]
)
def test_what_is_not_there_is_not_found(client: httpx.Client, path: str) -> None:
    """404, in the shape of every refusal."""
    response = client.get(path)
    assert response.status_code == 404
    assert response.json()["detail"][0]["reason"]


@pytest.mark.long
def test_values_from_elsewhere_are_kept(client: httpx.Client) -> None:
    """With the token; they are a series like others, gaps included."""
    assert client.post("/v1/series/my/own", json=SENT, headers=AUTHORIZED).json() == {"kept": 3}
    other = client.post("/v1/series/my/own", json=SENT | {"interval_s": 300.0}, headers=AUTHORIZED)
    assert (other.status_code, other.json()["detail"][0]["field"]) == (422, "interval_s")
    assert "60 s long" in other.json()["detail"][0]["reason"]
    (row,) = [row for row in client.get("/v1/series").json()["series"] if row["key"] == "my/own"]
    assert (row["samples"], row["unit"]) == (4, "W")
    assert client.delete("/v1/series/my/own", headers=AUTHORIZED).status_code == 204
    assert client.delete("/v1/series/my/own", headers=AUTHORIZED).status_code == 404


@pytest.mark.long
@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer wrong"}, {"authorization": "let-me-in"}])
def test_nothing_changes_without_the_token(client: httpx.Client, headers: dict[str, str]) -> None:
    """401, whatever the body is, and the series is not there."""
    assert client.post("/v1/series/stolen", json=SENT, headers=headers).status_code == 401
    assert client.post("/v1/series/stolen", json={}, headers=headers).status_code == 401, (
        "asked before the body is read"
    )
    assert client.delete("/v1/series/stolen", headers=headers).status_code == 401
    assert client.get("/v1/series/stolen/forecast").status_code == 404


def test_a_value_that_is_none_is_refused(client: httpx.Client) -> None:
    """By its place."""
    body = '{"interval_s": 60.0, "times_s": [60.0, 120.0], "values": [1.0, NaN]}'
    headers = AUTHORIZED | {"content-type": "application/json"}
    response = client.post("/v1/series/x", content=body, headers=headers)
    assert response.status_code == 422
    assert response.json()["detail"][0]["field"] == "values[1]"


@pytest.mark.parametrize(
    ("key", "changes", "reason"),
    [
        ("c/cluster/free_gpus", {"values": [1.0, -3.0, 4.0]}, "-3.0 is not between 0 and 3e+38"),
        ("c/cluster/free_gpus_15min", {"values": [1.0, -3.0, 4.0]}, "-3.0 is not between 0 and 3e+38"),
        ("c/node/n/cpu_ratio", {"values": [0.1, 50.0, 0.3]}, "50.0 is not between 0 and 1"),
        ("mine", {"values": [0.1, 1.5, 0.3], "unit": "ratio, 0 to 1"}, "1.5 is not between 0 and 1"),
        ("mine", {"minimum": 2.0, "values": [2.0, 1.5, 3.0]}, "1.5 is not between 2 and 3e+38"),
        ("c/cluster/free_gpus", {"minimum": -9.0, "maximum": 2.0, "values": [0.0, -1.0, 1.0]}, "not between 0 and 2"),
    ],
)
def test_values_beyond_their_bounds_are_refused(
    client: httpx.Client, key: str, changes: dict[str, Any], reason: str
) -> None:
    """Those of names that Paceline writes itself, of units that have bounds, and those that are sent along."""
    response = client.post(f"/v1/series/{key}", json=SENT | {"unit": ""} | changes, headers=AUTHORIZED)
    assert response.status_code == 422
    (problem,) = response.json()["detail"]
    assert problem["field"] == "values[1]"
    assert reason in problem["reason"]


def test_bounds_that_are_none_are_refused(client: httpx.Client) -> None:
    """A range without values, and one beyond what the series can have."""
    for key, changes in (("mine", {"minimum": 2.0, "maximum": 1.0}), ("c/cluster/free_gpus", {"maximum": -1.0})):
        response = client.post(f"/v1/series/{key}", json=SENT | changes, headers=AUTHORIZED)
        assert (response.status_code, response.json()["detail"][0]["field"]) == (422, "minimum")


@pytest.mark.long
def test_a_cycle_of_events_and_of_a_signal(client: httpx.Client) -> None:
    """Evaluations every 30 s are found from their times and from the dips of the power."""
    events = client.post("/v1/cycle", json={"events_s": [30.0 * number for number in range(12)]}).json()
    assert events["period_s"] == pytest.approx(30.0)
    power = [float(x) for x in np.tile([700.0] * 12 + [300.0] * 3, 30)]
    signal = client.post("/v1/cycle", json={"values": power, "interval_s": 2.0}).json()
    assert signal["period_s"] == pytest.approx(30.0, rel=0.05)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "values"),
        ({"values": [1.0], "events_s": [1.0], "interval_s": 1.0}, "values"),
        ({"values": [1.0, 2.0]}, "interval_s"),
        ({"events_s": [2.0, 1.0]}, "events_s"),
    ],
)
def test_a_wrong_question_about_a_cycle_is_refused(client: httpx.Client, body: dict[str, object], field: str) -> None:
    """With the field."""
    response = client.post("/v1/cycle", json=body)
    assert response.status_code == 422
    assert response.json()["detail"][0]["field"] == field


@pytest.mark.long
def test_the_kind_of_a_job(client: httpx.Client) -> None:
    """Idle where nothing runs; training where there are steps; a series that is none is refused."""
    idle = {"series": {"utilization_ratio": [0.0] * 120}, "interval_s": 1.0}
    assert client.post("/v1/job-type", json=idle).json()["kind"] == "idle"
    assert client.post("/v1/job-type", json=idle | {"has_steps": True}).json()["kind"] == "training"
    wrong = client.post("/v1/job-type", json={"series": {"mood": [1.0]}, "interval_s": 1.0})
    assert wrong.status_code == 422
    assert "mood" in wrong.json()["detail"][0]["reason"]


@pytest.mark.long
def test_health_and_metrics(client: httpx.Client) -> None:
    """The probes answer, and requests are counted by route."""
    assert client.get("/healthz").status_code == 200
    assert client.get("/readyz").text == "ready\n"
    client.get("/v1/series")
    text = client.get("/metrics").text
    assert 'paceline_forecaster_requests_total{route="/v1/series",status="200"}' in text
    assert "paceline_forecaster_history_bytes" in text
    assert "paceline_forecaster_ready 1.0" in text


@pytest.mark.long
def test_metrics_tell_lag_gaps_and_restarts(
    serving: Callable[..., contextlib.AbstractContextManager[str]], models: Registry
) -> None:
    """How the service stands with the bus, by topic and thread; 0 while /readyz is 503."""
    memory = Memory()
    memory.counts.lag, memory.counts.missing = {"window": 17}, {"device": 4}
    app = application(
        ForecastExecutor(models, 1), memory, ready=lambda: "a broker", restarts=lambda: {"consumer": 2, "publisher": 0}
    )
    with serving(app) as address:
        told = set(httpx.get(f"{address}/metrics").text.splitlines())
    assert {
        "paceline_forecaster_ready 0.0",
        'paceline_forecaster_lag_messages{topic="window"} 17.0',
        'paceline_forecaster_missing_messages_total{topic="device"} 4.0',
        'paceline_forecaster_restarts_total{thread="consumer"} 2.0',
        'paceline_forecaster_restarts_total{thread="publisher"} 0.0',
    } <= told


@pytest.mark.long
def test_a_slow_question_does_not_hold_up_the_probes(
    serving: Callable[..., contextlib.AbstractContextManager[str]],
    waiting_executor: ForecastExecutor,
    held_model: Any,
) -> None:
    """Forecasts are made off the event loop: probes are answered while one is being made."""
    question = {"values": [1.0, 2.0] * 20, "interval_s": 1.0, "horizon": 5, "model": "statespace"}
    with serving(application(waiting_executor, Memory())) as address, ThreadPoolExecutor(1) as pool:
        try:
            slow = pool.submit(httpx.post, f"{address}/v1/forecast", json=question, timeout=None)
            assert held_model.entered.wait(120.0)
            for probe in ("/healthz", "/readyz", "/metrics"):
                assert httpx.get(f"{address}{probe}", timeout=120.0).status_code == 200
            assert not slow.done()
        finally:
            held_model.release.set()
        assert slow.result().status_code == 200
