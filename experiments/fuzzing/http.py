"""HTTP: requests that OpenAPI allows and that it does not, to every route of the forecaster, in process through ASGI.

    python -m experiments.fuzzing.http "http POST /v1/forecast" 20000

Rule of this file: whatever is sent to any route, the answer is one that OpenAPI declares, and never a server error.
"""

import random
import sys
import warnings
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from hypothesis import HealthCheck, given, seed, settings

from forecaster.api.app import application
from forecaster.api.executor import ForecastExecutor
from forecaster.memory import Memory
from forecaster.models import network
from forecaster.models.registry import registry

if TYPE_CHECKING:  # It takes half a second, which those who only want the routes' names need not spend.
    import schemathesis

TOKEN = "let-me-in"


def service() -> FastAPI:
    """The forecaster with its shipped models and no bus."""
    return application(ForecastExecutor(registry(network.shipped()), 1), Memory(), TOKEN)


def names() -> list[str]:
    """A target for each route and method that the service declares."""
    paths: dict[str, dict[str, Any]] = service().openapi()["paths"]
    return [_name(method, path) for path, methods in paths.items() for method in methods]


def operations(schema: Any) -> dict[str, Any]:
    """The operations of a schema that schemathesis has loaded, by the names of their targets."""
    found = [result.ok() for result in schema.get_all_operations()]
    return {_name(operation.method, operation.path): operation for operation in found}


def ask(operation: Any, requests: int, number: int) -> int:
    """Send ``requests`` to a route, seeded by ``number``; how many were sent.

    Raises:
        BaseException: an answer that the interface does not declare, with the request that led to it.
    """
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

    checks = [not_a_server_error, response_schema_conformance, status_code_conformance]
    sent = 0

    @seed(number)
    @settings(max_examples=requests, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy())
    def keeps_its_word(case: "schemathesis.Case[Any]") -> None:
        nonlocal sent
        sent += 1
        # Its own limit is 10 s: half a million numbers take longer where the processors are shared.
        case.call_and_validate(checks=checks, timeout=120)

    keeps_its_word()
    return sent


def _name(method: str, path: str) -> str:
    return f"http {method.upper()} {path}"


def main(name: str, requests: int) -> None:
    """Ask one route of a service of its own."""
    import schemathesis

    number = random.SystemRandom().randrange(2**32)
    print(f"seed {number}", flush=True)
    operation = operations(schemathesis.openapi.from_asgi("/openapi.json", service()))[name]
    print(f"{ask(operation, requests, number)} requests")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(sys.argv[1], int(sys.argv[2]))
