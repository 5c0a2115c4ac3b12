"""The forecasts of all series that are held, as they are published: a choice is made of a few at a time.

Rule of this file: it keeps the states and calls the decisions; it does no I/O. One thread uses it.
"""

import time
from collections.abc import Callable, Container, Iterable
from typing import NamedTuple

from paceline.events import Forecast, IntervalScore

from . import calibration, held_forecast
from .forecast import Repeat, chosen, repeated
from .memory import Held, Memory
from .models.registry import Registry
from .question import ForecastResult, Question
from .standing import Standing

#: So much of a round's processor time may go to choices; the other series are forecast by the choice they have.
CHOOSING_S = 10.0
_SCORED = [held_forecast.LEVELS.index(level) for level in calibration.LEVELS]


class StandingForecasts:
    """Series -> its state."""

    def __init__(self, memory: Memory, models: Registry, clock: Callable[[], float] = time.thread_time) -> None:
        self._memory, self._models, self._clock = memory, models, clock
        self._states: dict[str, Standing] = {}
        self._choosing_s = 0.0

    def __len__(self) -> int:
        return len(self._states)

    def begin(self, keys: Container[str]) -> None:
        """A round begins, with time for choices; series that are not among ``keys`` are gone."""
        self._states = {key: state for key, state in self._states.items() if key in keys}
        self._choosing_s = 0.0

    def forecasts(self, keys: Iterable[str]) -> dict[str, Forecast]:
        """Series -> its forecast; without those that are too short for one, or gone."""
        asked, results, repeats = dict[str, _Asked](), dict[str, ForecastResult](), dict[str, Repeat]()
        for key in keys:
            held = self._memory.find(key)
            if held is None or len(held.values) < held_forecast.FEWEST:
                continue
            state = self._states.setdefault(key, Standing())
            state.update(round(held.time_s / held.subject.interval_s) - 1, held.values)
            question = held_forecast.question(held)
            asked[key] = _Asked(held, question, state)
            widths = None if state.choice is None else state.widths
            if state.outdated() and self._choosing_s < CHOOSING_S:
                began_s = self._clock()
                choice, results[key] = chosen(question, self._models, widths)
                state.choose(choice)
                self._choosing_s += self._clock() - began_s
            else:
                repeats[key] = Repeat(question, state.choice, widths)
        results |= zip(repeats, repeated(list(repeats.values()), self._models), strict=True)
        return {key: _published(one, results[key]) for key, one in asked.items()}


class _Asked(NamedTuple):
    held: Held
    question: Question
    state: Standing


def _published(asked: _Asked, result: ForecastResult) -> Forecast:
    subject = asked.held.subject
    asked.state.publish(held_forecast.within(result.values[:, _SCORED], subject.low, subject.high))
    levels = list(calibration.LEVELS)
    scores = [
        IntervalScore(
            steps=one.steps,
            values=one.values,
            inside_80_ratio=round(one.inside_80_ratio, 4),
            levels=levels,
            below_ratios=one.below_ratios.round(4).tolist(),
        )
        for one in asked.state.scored()
    ]
    return held_forecast.event(asked.held, asked.question, result, scores)
