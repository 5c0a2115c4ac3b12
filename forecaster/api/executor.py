"""Where forecasts are made: off the event loop, as many at once as there are processors, slow models one at a time.

Rule of this file: threads for single questions, processes for batches; no rule of forecasting.
"""

import asyncio
import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from ..forecast import POOL, Outlook, Question, ahead, tried
from ..models.model import UnsuitedError
from ..models.registry import MEMBERS

T = TypeVar("T")

#: Questions are worked on so many at a time; batches of fewer than MANY are not worth starting processes for.
PART, MANY = 32, 96


class Desk:
    """Answers questions."""

    def __init__(self, processors: int) -> None:
        self.processors = processors
        self._quick = ThreadPoolExecutor(processors, "forecast")
        self._slow = ThreadPoolExecutor(1, "forecast-slow")
        self._processes: Executor | None = None

    async def ahead(self, question: Question) -> Outlook:
        """The answer to one question.

        Raises:
            UnsuitedError: the named model cannot.
        """
        return await asyncio.get_running_loop().run_in_executor(self._of(question), ahead, question)

    async def all_ahead(self, questions: Sequence[Question]) -> list[Outlook | UnsuitedError]:
        """One answer a question; where the named model cannot, that."""
        loop = asyncio.get_running_loop()
        many = len(questions) >= MANY and self.processors > 1
        asked = []
        for place in range(0, len(questions), PART):
            part = questions[place : place + PART]
            slow = any(self._of(one) is self._slow for one in part)
            where = self._slow if slow else self._pool() if many else self._quick
            asked.append(loop.run_in_executor(where, _each, part))
        try:
            return [one for part in await asyncio.gather(*asked) for one in part]
        except BrokenProcessPool:
            # A worker was killed, for want of memory perhaps: the threads answer, and the next batch starts anew.
            self._processes = None
            return await loop.run_in_executor(self._quick, _each, questions)

    async def work(self, work: Callable[..., T], *arguments: Any) -> T:
        """``work`` on its arguments, off the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self._quick, work, *arguments)

    async def tried(self, question: Question) -> list[tuple[str, float | None, float | None]]:
        """Each quick model's back-test on the question's series: name, loss, coverage of the 80 % interval."""
        return await self.work(tried, question)

    def close(self) -> None:
        """Finish what is under way and end the workers."""
        for executor in (self._quick, self._slow, self._processes):
            if executor is not None:
                executor.shutdown(wait=True, cancel_futures=True)

    def _of(self, question: Question) -> Executor:
        return self._quick if question.model == POOL or question.model in MEMBERS else self._slow

    def _pool(self) -> Executor:
        if self._processes is None:
            context = multiprocessing.get_context("forkserver")
            self._processes = ProcessPoolExecutor(self.processors, context)
        return self._processes


def _each(questions: Sequence[Question]) -> list[Outlook | UnsuitedError]:
    found: list[Outlook | UnsuitedError] = []
    for question in questions:
        try:
            found.append(ahead(question))
        except UnsuitedError as error:
            found.append(error)
    return found
