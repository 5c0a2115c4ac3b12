"""``POST /v1/forecast`` and ``POST /v1/forecast/batch``: stateless, with no broker."""

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from fastapi import APIRouter, Depends, Response

from paceline.web.bodies import Share, share_of
from paceline.web.failures import REFUSALS, RefusedError
from paceline.web.parsing import off_loop

from ..grid import GridError, gridded
from ..models.model import UnsuitedError
from ..question import ForecastResult, Question
from ..series import Array
from .answers import BatchAnswer, ForecastAnswer, answered, rendered
from .executor import ForecastExecutor
from .questions import BATCH_VALUES, BatchQuestion, ForecastQuestion, Sampled

#: Bytes of a sample on its grid, and of a number of the answer: in an array, as a float in a list, and as text.
GRID_BYTES, ANSWER_BYTES = 8, 96
ALL = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]


def sampled(asked: Sampled, field: str = "") -> tuple[Array, float]:
    """The values on their grid, NaN for gaps, and its interval.

    Raises:
        RefusedError: the times make no grid.
    """
    if asked.timestamps is None:
        assert asked.interval_s is not None  # the question's own check
        return asked.values, asked.interval_s
    try:
        return gridded(asked.values, asked.timestamps, asked.interval_s)
    except GridError as error:
        raise RefusedError(422, f"{field}timestamps", str(error)) from error


def question(asked: ForecastQuestion, field: str = "") -> Question:
    """``asked`` as the decision takes it.

    Raises:
        RefusedError: the times make no grid.
    """
    values, interval_s = sampled(asked, field)
    return Question(
        values=values,
        interval_s=interval_s,
        horizon=asked.horizon,
        levels=np.sort(np.array(asked.quantiles, dtype=np.float64)),
        low=asked.minimum,
        high=asked.maximum,
        season=asked.season_length,
        model=asked.model,
    )


def router(executor: ForecastExecutor) -> APIRouter:
    """The routes, answered by ``executor``."""
    routes = APIRouter(prefix="/v1", tags=["forecast"], route_class=off_loop(executor.parsing))

    @routes.post("/forecast", responses=REFUSALS, response_model=ForecastAnswer)
    async def forecast(asked: ForecastQuestion, share: Annotated[Share, Depends(share_of)]) -> Response:
        """Quantiles of a series that is sent along. Nothing is kept."""
        ready = await executor.run(question, asked)
        share.take(_becomes(ready))
        try:
            result = await executor.submit(ready)
        except UnsuitedError as error:
            raise RefusedError(422, "model", f"{asked.model}: {error}") from error
        return await rendered(executor, answered, result, ready.levels.tolist(), ready.interval_s)

    @routes.post("/forecast/batch", responses=REFUSALS, response_model=BatchAnswer)
    async def batch(asked: BatchQuestion, share: Annotated[Share, Depends(share_of)]) -> Response:
        """Many series in one request, shared out over the processors."""
        ready = await executor.run(_questions, asked)
        share.take(sum(map(_becomes, ready)))
        results = await executor.submit_all(ready)
        return await rendered(executor, _answers, ready, results)

    return routes


def _questions(asked: BatchQuestion) -> list[Question]:
    """The questions.

    Raises:
        RefusedError: times of one make no grid, or the grids are too long together: two times make one as well.
    """
    ready, values = [], 0
    for place, one in enumerate(asked.questions):
        ready.append(question(one, f"questions[{place}]."))
        values += len(ready[-1].values)
        if values > BATCH_VALUES:
            reason = f"with gaps there are more than {BATCH_VALUES} values up to here; ask in several requests"
            raise RefusedError(422, f"questions[{place}].timestamps", reason)
    return ready


def _becomes(ready: Question) -> int:
    """Bytes that a question's grid and its answer take at most."""
    return GRID_BYTES * len(ready.values) + ANSWER_BYTES * ready.horizon * len(ready.levels)


def _answers(ready: Sequence[Question], results: Sequence[ForecastResult | UnsuitedError]) -> BatchAnswer:
    answers = []
    for place, (one, result) in enumerate(zip(ready, results, strict=True)):
        if isinstance(result, UnsuitedError):
            raise RefusedError(422, f"questions[{place}].model", f"{one.model}: {result}")
        answers.append(answered(result, one.levels.tolist(), one.interval_s))
    return BatchAnswer(answers=answers)
