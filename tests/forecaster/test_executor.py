"""Where forecasts are made: threads and worker processes answer alike, by the models that were handed down."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from forecaster.api.executor import MANY, ForecastExecutor
from forecaster.models import network
from forecaster.models.model import UnsuitedError
from forecaster.models.registry import Registry, registry
from forecaster.question import ForecastResult, Question

QUESTION = Question(np.tile([1.0, 2.0, 3.0], 10), 1.0, 2, np.array([0.1, 0.5, 0.9]), model="network")


def other_weights() -> network.Weights:
    """The shipped ones, but every median is five scales higher."""
    weights = network.shipped()
    assert weights is not None
    matrix, bias = weights.decoder[-1]
    higher = bias.copy()
    higher[..., 0] += 5.0
    return replace(weights, decoder=(*weights.decoder[:-1], (matrix, higher)))


def answers(models: Registry, questions: list[Question]) -> list[ForecastResult | UnsuitedError]:
    """What an executor of two processors answers to all of them at once."""

    async def asked() -> list[ForecastResult | UnsuitedError]:
        executor = ForecastExecutor(models, 2)
        try:
            return await executor.submit_all(questions)
        finally:
            executor.close()

    return asyncio.run(asked())


def medians(results: list[ForecastResult | UnsuitedError]) -> set[tuple[float, ...]]:
    """Every different median forecast among them."""
    assert all(isinstance(one, ForecastResult) for one in results)
    return {tuple(one.values[:, 1].tolist()) for one in results if isinstance(one, ForecastResult)}


@pytest.mark.slow
def test_worker_processes_answer_by_the_weights_that_were_handed_down() -> None:
    """A batch that goes through processes has the answers of the threads, not those of the shipped weights."""
    models = registry(other_weights())
    alone = medians(answers(models, [QUESTION]))
    assert medians(answers(models, [QUESTION] * MANY)) == alone
    assert medians(answers(registry(network.shipped()), [QUESTION])) != alone


def test_a_model_that_cannot_answer_is_told_in_its_place() -> None:
    """The others of the batch are answered."""
    first, second = answers(registry(network.shipped()), [replace(QUESTION, model="chronos"), QUESTION])
    assert isinstance(first, UnsuitedError)
    assert isinstance(second, ForecastResult)
