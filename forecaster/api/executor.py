"""Where forecasts are made: off the event loop, as many at a time as there are processors, slow models one at a time.

Rule of this file: threads for single questions, processes for batches; no rule of forecasting. A worker process holds
nothing: the models travel with each part of a batch.
"""

import asyncio
import contextlib
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from ..forecast import backtests, forecast
from ..models.model import UnsuitedError
from ..models.registry import Registry
from ..question import ENSEMBLE, ForecastResult, Question

T = TypeVar("T")

#: Questions are worked on so many at a time; batches of fewer than MANY are not worth starting processes for.
PART, MANY = 32, 96


class ForecastExecutor:
    """Answers questions with ``models``."""

    def __init__(self, models: Registry, processors: int) -> None:
        self.processors = processors
        #: Requests that are queued or worked on.
        self.waiting = 0
        self._models = models
        self._quick = ThreadPoolExecutor(processors, "forecast")
        self._slow = ThreadPoolExecutor(1, "forecast-slow")
        self._processes: Executor | None = None
        #: Where bodies are parsed, one at a time.
        self.parsing = ThreadPoolExecutor(1, "parse")

    async def submit(self, question: Question) -> ForecastResult:
        """The answer to one question.

        Raises:
            UnsuitedError: the named model cannot.
        """
        with self._counted():
            return await self._work(self._threads(question), forecast, question, self._models)

    async def submit_all(self, questions: Sequence[Question]) -> list[ForecastResult | UnsuitedError]:
        """One answer a question; where the named model cannot, that."""
        many = len(questions) >= MANY and self.processors > 1
        answers = []
        for place in range(0, len(questions), PART):
            part = questions[place : place + PART]
            if any(self._threads(one) is self._slow for one in part):
                answers.append(self._work(self._slow, _each, part, self._models))
            elif many:
                answers.append(self._work(self._workers(), _each, part, self._models.quick()))
            else:
                answers.append(self._work(self._quick, _each, part, self._models))
        with self._counted():
            try:
                return [one for part in await asyncio.gather(*answers) for one in part]
            except BrokenProcessPool:
                # A worker was killed, perhaps for want of memory: threads answer, and the next batch starts new ones.
                self._processes = None
                return await self._work(self._quick, _each, questions, self._models)

    async def run(self, work: Callable[..., T], *arguments: Any) -> T:
        """``work`` on its arguments, off the event loop."""
        with self._counted():
            return await self._work(self._quick, work, *arguments)

    @staticmethod
    def _work(where: Executor, work: Callable[..., T], *arguments: Any) -> "asyncio.Future[T]":
        """What is still queued when its asker is cancelled is never begun: the pool's own future is cancelled too."""
        return asyncio.get_running_loop().run_in_executor(where, work, *arguments)

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        self.waiting += 1
        try:
            yield
        finally:
            self.waiting -= 1

    async def backtests(self, question: Question) -> list[tuple[str, float | None, float | None]]:
        """Each member's back-test on the question's series: name, loss, coverage of the 80 % interval."""
        return await self.run(backtests, question, self._models)

    def close(self) -> None:
        """Finish what is under way and end the workers."""
        for executor in (self.parsing, self._quick, self._slow, self._processes):
            if executor is not None:
                executor.shutdown(wait=True, cancel_futures=True)

    def _threads(self, question: Question) -> Executor:
        return self._quick if question.model == ENSEMBLE or question.model in self._models.members else self._slow

    def _workers(self) -> Executor:
        if self._processes is None:
            context = multiprocessing.get_context("forkserver")
            self._processes = ProcessPoolExecutor(self.processors, context, _leave_with_the_service)
        return self._processes


def _leave_with_the_service() -> None:
    """A worker process begins: see to it that it ends. Where the service is killed, no pool tells it to."""
    service = multiprocessing.parent_process()
    assert service is not None

    def leave() -> None:
        service.join()
        os._exit(1)

    threading.Thread(target=leave, name="forecast-leave", daemon=True).start()


def _each(questions: Sequence[Question], models: Registry) -> list[ForecastResult | UnsuitedError]:
    answers: list[ForecastResult | UnsuitedError] = []
    for question in questions:
        try:
            answers.append(forecast(question, models))
        except UnsuitedError as error:
            answers.append(error)
    return answers
