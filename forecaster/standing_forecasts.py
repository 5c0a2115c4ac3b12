"""The forecasts of all series that are held, as they are published: a choice is made of a few at a time.

Rule of this file: it keeps the states and calls the decisions; it does no I/O. One thread uses it.
"""

import time
from collections.abc import Callable, Container

from paceline.events import Forecast, IntervalScore

from . import held_forecast
from .forecast import chosen, repeated
from .memory import Memory
from .models.registry import Registry
from .standing import Standing

#: So much of a round's processor time may go to choices; the other series are forecast by the choice they have.
CHOOSING_S = 10.0
_LOW, _HIGH = held_forecast.LEVELS.index(0.1), held_forecast.LEVELS.index(0.9)


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

    def forecast(self, key: str) -> Forecast | None:
        """The forecast of a series; None where it is too short for one, or gone.

        Raises:
            UnsuitedError: no member can forecast it.
        """
        held = self._memory.find(key)
        if held is None or len(held.values) < held_forecast.FEWEST:
            return None
        state = self._states.setdefault(key, Standing())
        state.update(round(held.time_s / held.subject.interval_s) - 1, held.values)
        question = held_forecast.question(held)
        widths = None if state.choice is None else state.widths
        if state.outdated() and self._choosing_s < CHOOSING_S:
            began_s = self._clock()
            choice, result = chosen(question, self._models, widths)
            state.choose(choice)
            self._choosing_s += self._clock() - began_s
        else:
            result = repeated(question, state.choice, self._models, widths)
        state.publish(result.values[:, _LOW], result.values[:, _HIGH])
        scores = [
            IntervalScore(steps=one.steps, values=one.values, inside_80_ratio=round(one.inside / one.values, 4))
            for one in state.scored()
        ]
        return held_forecast.event(held, question, result, scores)
