"""The forecaster answers its own names only, on every route, in the shape of every refusal."""

import contextlib
from collections.abc import Callable, Iterator

import httpx
import pytest

from forecaster.api.app import application
from forecaster.api.executor import ForecastExecutor
from forecaster.memory import Memory
from forecaster.models.registry import Registry
from paceline import hosts


@pytest.fixture(scope="module")
def named(serving: Callable[..., contextlib.AbstractContextManager[str]], models: Registry) -> Iterator[httpx.Client]:
    """A service as it is on every address, with one more name."""
    names = hosts.answered("0.0.0.0", ("forecaster.example",))
    with (
        serving(application(ForecastExecutor(models, 1), Memory(), names=names)) as address,
        httpx.Client(base_url=address, timeout=None) as client,
    ):
        yield client


@pytest.mark.long
@pytest.mark.parametrize("path", ["/v1/series", "/healthz", "/metrics", "/docs", "/openapi.json", "/v1/nothing"])
@pytest.mark.parametrize(
    "headers", [{"host": "evil.example"}, {"origin": "http://evil.example"}, {"origin": "null"}, {"host": ""}]
)
def test_a_foreign_name_is_refused(named: httpx.Client, path: str, headers: dict[str, str]) -> None:
    """403 with the header and the setting, on every path alike."""
    response = named.get(path, headers=headers)
    assert response.status_code == 403
    (problem,) = response.json()["detail"]
    assert problem["field"] == next(iter(headers))
    assert "PACELINE_ALLOWED_HOSTS" in problem["reason"]


def test_a_foreign_page_cannot_make_it_work(named: httpx.Client) -> None:
    """A question that a web page of another site sends is not computed."""
    question = {"values": [1.0, 2.0], "interval_s": 1.0, "horizon": 1}
    assert named.post("/v1/forecast", json=question, headers={"origin": "https://evil.example"}).status_code == 403


@pytest.mark.long
@pytest.mark.parametrize(
    "headers", [{}, {"host": "forecaster.example:8000"}, {"host": "localhost"}, {"origin": "http://localhost:8501"}]
)
def test_own_names_are_answered(named: httpx.Client, headers: dict[str, str]) -> None:
    """Loopback's, and those of the setting."""
    assert named.get("/healthz", headers=headers).status_code == 200
