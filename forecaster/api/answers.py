"""What the stateless forecast routes answer."""

from collections.abc import Callable
from typing import Any

from fastapi import Response
from pydantic import BaseModel, Field

from ..question import ForecastResult
from .executor import ForecastExecutor


class BacktestScores(BaseModel):
    """Mean pinball losses at earlier moments of the same series, the median's being the absolute error.

    null: the history was too short to tell.
    """

    own: float | None = Field(description="Of the model that answers.")
    seasonal_naive: float | None = Field(description="Of the seasonal naive forecast; without a season, the naive.")
    coverage_80: float | None = Field(description="Share of values inside the 80 % interval.")
    moments: int = Field(description="How many earlier moments were tried.")
    steps: int = Field(description="How many steps ahead at each.")


class Trust(BaseModel):
    """What an answer rests on."""

    model: str = Field(description="Which answers: `pool`, or the model that the gate let through instead.")
    backtest: BacktestScores
    history: int = Field(description="Measured samples that the answer rests on.")
    notes: list[str]


class ForecastAnswer(Trust):
    """Quantiles for each step ahead."""

    quantiles: list[float] = Field(description="Ascending.")
    values: list[list[float]] = Field(description="One row a step of the horizon, one number a quantile, ascending.")
    interval_s: float
    season_length: int = Field(description="Samples in the season that was used; 0 for none.")
    busy: list[float] | None = Field(
        description="For a series that often rests on its minimum: the probability, a step, that it is above."
    )
    weights: dict[str, float] = Field(description="Each model's share in the answer.")


class BatchAnswer(BaseModel):
    """One answer a question, in their order."""

    answers: list[ForecastAnswer]


async def rendered(executor: ForecastExecutor, make: Callable[..., BaseModel], *arguments: Any) -> Response:
    """What ``make`` makes of its arguments, as JSON: a long answer is made and written off the event loop."""
    content = await executor.run(lambda: make(*arguments).model_dump_json())
    return Response(content, media_type="application/json")


def trust(result: ForecastResult) -> Trust:
    """What ``result`` rests on."""
    return Trust(
        model=result.model,
        backtest=BacktestScores(
            own=result.loss,
            seasonal_naive=result.naive_loss,
            coverage_80=result.coverage,
            moments=result.moments,
            steps=result.steps,
        ),
        history=result.history,
        notes=list(result.notes),
    )


def answered(result: ForecastResult, levels: list[float], interval_s: float) -> ForecastAnswer:
    """``result`` as it goes over the wire."""
    return ForecastAnswer(
        **dict(trust(result)),
        quantiles=levels,
        values=result.values.tolist(),
        interval_s=interval_s,
        season_length=result.season,
        busy=None if result.above_rest is None else result.above_rest.tolist(),
        weights={name: round(share, 6) for name, share in result.weights.items()},
    )
