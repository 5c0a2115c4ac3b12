"""What people say to suggestions, and what came of whatever was asked."""

from collections.abc import Callable
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field

from paceline.command_rules import suggestion_target
from paceline.events import ANSWERABLE
from paceline.web.failures import NOT_FOUND, RefusedError
from paceline.web.token import GUARDED

from ..book import Book
from .publishes import Publishes
from .shapes import AWAY, BODY, CONFLICT, Asker, Because


class Asked(BaseModel):
    """A command on its way; `GET /v1/commands/{id}` tells what came of it."""

    command: str = Field(examples=["5f0c8a8e3a1b2c4d"])


class Answers(BaseModel):
    """What came of a command: one entry of the topic `audit` for each service that received it."""

    command: str
    answers: list[dict[str, Any]]


def router(book: Book, outgoing: Publishes, allowed: Callable[..., None]) -> APIRouter:
    """The routes over ``book``, whose changes only who is ``allowed`` may ask for."""
    routes = APIRouter(prefix="/v1", tags=["suggestions"])
    token = [Depends(allowed)]

    @routes.get("/suggestions")
    def suggestions() -> dict[str, list[dict[str, Any]]]:
        """All suggestions, as the topic `suggestion` has them."""
        return {"suggestions": [msgspec.to_builtins(one) for one in book.suggestions()]}

    @routes.post(
        "/suggestions/{id}/{said}",
        status_code=202,
        dependencies=token,
        responses={**GUARDED, **NOT_FOUND, **CONFLICT, **BODY, **AWAY},
    )
    def say(id: str, said: str, asker: Asker, sent: Because | None = None) -> Asked:  # noqa: A002
        """Accept or dismiss a suggestion."""
        if said not in ANSWERABLE:
            raise RefusedError(404, "path", f"{said[:40]!r} is not an answer; possible: {', '.join(ANSWERABLE)}")
        suggestion = book.suggestion(id)
        if suggestion is None:
            raise RefusedError(404, "id", f"no suggestion {id[:100]!r}; `paceline suggestions` lists them")
        if suggestion.state not in ANSWERABLE[said]:
            raise RefusedError(409, "state", f"it is {suggestion.state.replace('_', ' ')}: {said} changes nothing")
        because = {"because": sent.because if sent else ""}
        return Asked(command=outgoing.command(suggestion_target(id), said, because, asker, suggestion.cluster))

    @routes.get("/commands/{id}")
    def command(id: str) -> Answers:  # noqa: A002
        """What came of a command so far; nothing where no service has answered yet, or it is not known."""
        return Answers(command=id, answers=[msgspec.to_builtins(entry) for entry in book.answers(id)])

    @routes.get("/audit")
    def audit(limit: Annotated[int, Query(ge=1, le=1000)] = 100) -> dict[str, list[dict[str, Any]]]:
        """Who asked for what within a day, and what came of it; the newest first."""
        return {"entries": [msgspec.to_builtins(entry) for entry in book.audit(limit)]}

    return routes
