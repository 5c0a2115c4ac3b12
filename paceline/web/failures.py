"""Refusals: one shape for all of them, naming the field and the reason, and nothing of what was sent."""

import re
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from .parsing import InvalidBodyError


class Problem(BaseModel):
    """One reason."""

    field: str = Field(examples=["values[17]"])
    reason: str = Field(examples=["NaN is not a measured number; send null for a gap"])


class Refusal(BaseModel):
    """Why a request was refused."""

    detail: list[Problem]


class RefusedError(Exception):
    """A request that cannot be answered: the status, the field and the reason."""

    def __init__(self, status: int, field: str, reason: str) -> None:
        super().__init__(reason)
        self.status, self.field, self.reason = status, field, reason


#: What OpenAPI says of routes that read a body.
REFUSALS: dict[int | str, dict[str, Any]] = {
    413: {"description": "The body is too large, or holds too many values."},
    422: {"model": Refusal, "description": "The question is refused: which field, and why."},
}
NOT_FOUND: dict[int | str, dict[str, Any]] = {404: {"model": Refusal, "description": "There is no such thing."}}


def refusal(status: int, *problems: tuple[str, str]) -> JSONResponse:
    """The answer that tells them."""
    rows = [{"field": field, "reason": reason} for field, reason in problems]
    return JSONResponse({"detail": rows}, status_code=status)


def install(app: FastAPI) -> None:
    """Make every refusal of ``app`` one of ours."""

    @app.exception_handler(RefusedError)
    async def refused(request: Request, error: RefusedError) -> JSONResponse:
        return refusal(error.status, (error.field, error.reason))

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        problems = [_problem(one) for one in error.errors()[:20]]
        reason = _no_json(request.headers.get("content-type", ""))
        if reason and any(one["loc"] == ("body",) for one in error.errors()):
            problems = [("body", reason)]
        return refusal(422, *problems)

    @app.exception_handler(InvalidBodyError)
    async def invalid_body(request: Request, error: InvalidBodyError) -> JSONResponse:
        return refusal(422, *(_problem(one) for one in error.problems[:20]))

    @app.exception_handler(HTTPException)
    async def other(request: Request, error: HTTPException) -> JSONResponse:
        # A body that is not even text is as wrong as one that is not JSON.
        status = 422 if error.status_code == 400 else error.status_code
        response = refusal(status, ("body" if status in (413, 422, 503) else "path", str(error.detail)))
        response.headers.update(error.headers or {})
        return response


def _no_json(content_type: str) -> str | None:
    """Why a body is not read as JSON; None where it is.

    >>> _no_json("application/json; charset=utf-8"), _no_json("application/merge-patch+json")
    (None, None)
    >>> _no_json("text/plain")
    'the content-type is another; send JSON with content-type: application/json'
    """
    kind = content_type.partition(";")[0].strip()
    if re.fullmatch(r"application/([^/]+\+)?json", kind, re.I):
        return None
    return f"the content-type is {'another' if kind else 'missing'}; send JSON with content-type: application/json"


def _problem(error: dict[str, Any]) -> tuple[str, str]:
    context = error.get("ctx") or {}
    where = [part for part in error["loc"] if part not in ("body", "query", "path")]
    # Of a choice of types pydantic adds the type's name to the place.
    where = [part for part in where if not (isinstance(part, str) and ("[" in part or part in ("float", "str")))]
    if error["type"] == "json_invalid":
        where = ["body"]
    field = ""
    for part in [*where, *([context["field"]] if error["type"] == "refused" else [])]:
        field += f"[{part}]" if isinstance(part, int) else f".{part}" if field else part
    return field or "body", str(context.get("reason") or error["msg"])
