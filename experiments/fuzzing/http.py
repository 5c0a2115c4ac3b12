"""HTTP: requests that OpenAPI allows and that it does not, to every route of the forecaster, in process through ASGI.

    python -m experiments.fuzzing.http "http POST /v1/forecast" 20000

Rule of this file: whatever is sent to any route, the answer is one that OpenAPI declares, and never a server error.
"""

import random
import sys
import warnings
from typing import Any

from fastapi import FastAPI
from hypothesis import HealthCheck, given, seed, settings

from forecaster.api.app import application
from forecaster.api.executor import ForecastExecutor
from forecaster.memory import Memory
from forecaster.models import network
from forecaster.models.registry import registry

TOKEN = "let-me-in"


def service() -> FastAPI:
    """The forecaster with its shipped models and no bus."""
    return application(ForecastExecutor(registry(network.shipped()), 1), Memory(), TOKEN)


def names() -> list[str]:
    """A target for each route and method that the service declares."""
    paths: dict[str, dict[str, Any]] = service().openapi()["paths"]
    return [f"http {method.upper()} {path}" for path, methods in paths.items() for method in methods]


NAMES = names()


def ask(name: str, requests: int, number: int) -> None:
    """Send ``requests`` to the route called ``name``; ``number`` seeds them.

    Raises:
        BaseException: an answer that the interface does not declare, with the request that led to it.
    """
    import schemathesis
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

    checks = [not_a_server_error, response_schema_conformance, status_code_conformance]
    schema = schemathesis.openapi.from_asgi("/openapi.json", service())
    (operation,) = [
        made
        for result in schema.get_all_operations()
        if f"http {(made := result.ok()).method.upper()} {made.path}" == name
    ]

    @seed(number)
    @settings(max_examples=requests, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy())
    def keeps_its_word(case: schemathesis.Case) -> None:
        counted.append(None)
        case.call_and_validate(checks=checks)

    counted: list[None] = []
    keeps_its_word()
    print(f"{len(counted)} requests")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    chosen = random.SystemRandom().randrange(2**32)
    print(f"seed {chosen}")
    ask(sys.argv[1], int(sys.argv[2]), chosen)
