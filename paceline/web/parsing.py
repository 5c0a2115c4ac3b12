"""Bodies are parsed off the event loop, one after the other and in pieces.

Rule of this file: a parser holds the interpreter for as long as a piece takes, so that every other answer waits for no
longer than for one piece: its model's ``from_json`` sees to it that they are short.
"""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from functools import partial
from typing import Any

from fastapi import HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError


class InvalidBodyError(HTTPException):
    """A body that is not what its route asks for; ``problems`` are pydantic's."""

    def __init__(self, error: ValidationError) -> None:
        super().__init__(422)
        self.problems: list[Any] = error.errors(include_url=False, include_input=False)


def off_loop(executor: Executor) -> type[APIRoute]:
    """A kind of route whose body ``executor`` makes a model of; with one thread, one body at a time."""

    class OffLoop(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            handle = super().get_route_handler()
            model = None if self.body_field is None else self.body_field.field_info.annotation
            if not (isinstance(model, type) and issubclass(model, BaseModel)):
                return handle
            make = partial(_made, model)

            async def handled(request: Request) -> Response:
                parsed = _Parsed(request, executor, make)
                try:
                    return await handle(parsed)
                except RequestValidationError:
                    if parsed.error is None:
                        raise
                    raise InvalidBodyError(parsed.error) from parsed.error

            return handled

    return OffLoop


def _made(model: type[BaseModel], body: bytes) -> BaseModel:
    make: Callable[[bytes], BaseModel] = getattr(model, "from_json", model.model_validate_json)
    return make(body)


class _Parsed(Request):
    """A request whose JSON is the model already: checking it again is to look at its type.

    What is no such model becomes a text, which no model takes: the route refuses it after it has asked who is there.
    """

    def __init__(self, request: Request, executor: Executor, make: Callable[[bytes], BaseModel]) -> None:
        super().__init__(request.scope, request.receive, request._send)
        self._executor, self._make = executor, make
        self.error: ValidationError | None = None

    async def json(self) -> Any:
        body = await self.body()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, self._make, body)
        except ValidationError as error:
            self.error = error
            return ""
