"""A query parameter that a route has not is refused, with those that it has."""

import httpx
import pytest

AUTHORIZED = {"authorization": "Bearer let-me-in"}


@pytest.mark.parametrize(
    ("method", "path", "has"),
    [
        ("GET", "/v1/clusters/c/hours?gpu=8", "gpus"),
        ("GET", "/v1/clusters/c/free?gpus=8&gpu=8", "gpus, horizon"),
        ("GET", "/v1/series?gpu=8", "none"),
        ("GET", "/v1/series/a/b/forecast?gpu=8", "horizon, model"),
        ("GET", "/v1/backtest/a/b?gpu=8", "horizon"),
        ("GET", "/v1/jobs/a/b/profile?gpu=8", "cluster, total_steps"),
        ("POST", "/v1/forecast?gpu=8", "none"),
        ("POST", "/v1/forecast/batch?gpu=8", "none"),
        ("POST", "/v1/cycle?gpu=8", "none"),
        ("POST", "/v1/job-type?gpu=8", "none"),
        ("POST", "/v1/series/a/b?gpu=8", "none"),
        ("DELETE", "/v1/series/a/b?gpu=8", "none"),
    ],
)
def test_a_parameter_that_a_route_has_not_is_refused(client: httpx.Client, method: str, path: str, has: str) -> None:
    """422 names it and those that exist, whatever else is wrong with the request."""
    answer = client.request(method, path, headers=AUTHORIZED)
    assert answer.status_code == 422
    assert answer.json()["detail"] == [{"field": "gpu", "reason": f"not a query parameter of this route: it has {has}"}]


@pytest.mark.long
def test_every_route_declares_that_it_refuses(client: httpx.Client) -> None:
    """In the one shape of refusals."""
    paths = client.get("/openapi.json").json()["paths"]
    routes = [(path, route) for path, methods in paths.items() if path.startswith("/v1") for route in methods.values()]
    assert len(routes) >= 12
    for path, route in routes:
        assert route["responses"]["422"]["content"]["application/json"]["schema"]["$ref"].endswith("/Refusal"), path


@pytest.mark.long
@pytest.mark.parametrize("path", ["/docs", "/openapi.json", "/metrics", "/healthz", "/readyz"])
def test_others_answer_as_before(client: httpx.Client, path: str) -> None:
    """Probes and scrapers send parameters of their own."""
    assert client.get(path, params={"any": "thing"}).status_code == 200
