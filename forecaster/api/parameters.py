"""Query parameters that a route has not are refused, as fields of a body are: ignored, they would change the question.

Rule of this file: one dependency of all routes below ``/v1``. Which parameters a route has is read from its signature.
"""

from collections.abc import Iterator
from typing import Any

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from paceline.web.failures import REFUSALS, RefusedError

#: What OpenAPI says of every route that has the dependency.
UNKNOWN: dict[int | str, dict[str, Any]] = {422: REFUSALS[422]}


def known_parameters(request: Request) -> None:
    """Let requests through that have no other query parameters than their route.

    Raises:
        RefusedError: there is one.
    """
    route = request.scope.get("route")
    if not request.query_params or not isinstance(route, APIRoute):
        return
    names = list(_names(route.dependant))
    for name in request.query_params:
        if name not in names:
            has = f"it has {', '.join(names)}" if names else "it has none"
            raise RefusedError(422, name[:100], f"not a query parameter of this route: {has}")


def _names(of: Dependant) -> Iterator[str]:
    yield from (field.alias for field in of.query_params)
    for dependency in of.dependencies:
        yield from _names(dependency)
