"""The answers of one device to the questions of ``queries``, with all that is remembered between two rounds.

Rule of this file: no answer is None with a reason, never 0 and never an error. Time is an argument.
"""

from typing import Any

from paceline.gpu.driver import Driver
from paceline.gpu.limits import limit, possible
from paceline.gpu.queries import Ask, Query
from paceline.gpu.readings import Value
from paceline.gpu.refusals import Refusals


class Answers:
    """What ``handle`` answers. ``lost`` says why the whole device is gone, as of the last question."""

    def __init__(self, driver: Driver, handle: Any) -> None:
        self.lost: str | None = None
        self._driver = driver
        self._handle = handle
        self._refusals = Refusals()
        self._way: dict[str, Ask] = {}
        self._asked: dict[str, tuple[float, tuple[Value, ...]]] = {}
        #: Columns whose last number cannot be, and that in words.
        self.impossible: dict[str, str] = {}

    def ask(self, query: Query, now_s: float, *, even_lost: bool = False) -> tuple[Value, ...] | None:
        """One value a column, or None where there is no answer.

        ``even_lost`` is for questions that a lost device still answers: their failure does not say that it is lost.
        """
        question = query.question
        asked_s, values = self._asked.get(question, (float("-inf"), ()))
        if values and now_s - asked_s < query.every_s:
            return values
        if not self._refusals.due(question, now_s):
            return None
        refused: Exception | None = None
        for way in self._ways(query):
            try:
                values = way(self._driver.library, self._handle)
            except self._driver.errors() as error:
                refused = refused or error
                if self._driver.is_lost(error) and not even_lost:
                    self.lost = self._driver.reason(error)
                    return None
                continue
            if query.kind == "value":
                values = tuple(self.judged(column, value) for column, value in zip(query.columns, values, strict=True))
            self._way[question] = way
            self._asked[question] = (now_s, values)
            self._refusals.answered(question)
            return values
        # Next time every way is tried again.
        self._way.pop(question, None)
        self._asked.pop(question, None)
        if refused is not None:
            passing = self._driver.is_passing(refused)
            self._refusals.refused(question, self._driver.reason(refused), now_s, passing=passing)
        return None

    def judged(self, column: str, value: Value) -> Value:
        """``value``, or None, *not measured*, where ``column`` cannot be that."""
        if possible(column, value):
            self.impossible.pop(column, None)
            return value
        low, high, unit = limit(column)
        self.impossible[column] = f"the driver gives {value:g}, which cannot be (from {low:g} to {high:g} {unit})"
        return None

    def _ways(self, query: Query) -> tuple[Ask, ...]:
        way = self._way.get(query.question)
        return query.ways if way is None else (way,)

    def reason(self, question: str) -> str | None:
        """Why ``question`` has no answer, or None where it has."""
        return self._refusals.reason(question)

    def restart(self) -> None:
        """Ask everything again: what was refused while the device was lost is of the past."""
        self._refusals = Refusals()
