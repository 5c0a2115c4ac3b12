"""A series that is forecast again and again: when a choice is made, and what its published intervals teach."""

from collections.abc import Callable

import numpy as np
import pytest

from forecaster import held_forecast
from forecaster.calibration import STEPS
from forecaster.choice import Choice
from forecaster.conformal import Widths
from forecaster.forecast import Repeat, chosen, forecast, repeated
from forecaster.history import SeriesSubject
from forecaster.memory import Memory
from forecaster.models.registry import shipped
from forecaster.question import Question
from forecaster.standing import EVERY, MISSES, Standing
from forecaster.standing_forecasts import CHOOSING_S, StandingForecasts

MODELS = shipped()
LEVELS = np.array(held_forecast.LEVELS)
CHOICE = Choice("pool", {"last_60": 0.6, "network": 0.39, "trend": 0.01}, "naive", 0, factor=1.5)
#: Quantiles whose 80 % interval is from 0 to 1, at each of 60 steps.
PUBLISHED = np.tile([-0.1, 0.0, 0.3, 0.5, 0.7, 1.0, 1.1], (60, 1))
NOISE = np.random.default_rng(4).standard_normal(400)


def started(at: int = 100) -> Standing:
    """A series with a choice, whose intervals from 0 to 1 were published at ``at``."""
    state = Standing()
    state.update(at, np.full(50, 0.5))
    state.choose(CHOICE)
    state.publish(PUBLISHED)
    return state


def test_a_choice_stands_for_so_many_samples() -> None:
    """Then another is due."""
    assert Standing().outdated()
    state = started()
    state.update(100 + EVERY - 1, np.full(50, 0.5))
    assert not state.outdated()
    state.update(100 + EVERY, np.full(50, 0.5))
    assert state.outdated()


def test_misses_in_a_row_end_a_choice() -> None:
    """One value inside, or one that was not measured, and they are not in a row or not known to be."""
    for value, ends in ((9.0, True), (0.5, False)):
        state = started()
        for step in range(1, MISSES + 1):
            state.update(100 + step, np.array([9.0, value if step == 3 else 9.0]))
            state.publish(PUBLISHED)
        assert state.outdated() is ends
    state = started()
    for step in range(1, MISSES + 2):
        state.update(100 + step, np.array([9.0, np.nan if step == 3 else 9.0]))
        state.publish(PUBLISHED)
    assert state.outdated()


def test_small_members_are_left_out_and_the_width_begins_with_the_back_test() -> None:
    """The shares of those that are kept sum to 1."""
    state = started()
    assert state.choice is not None
    assert set(state.choice.shares) == {"last_60", "network"}
    assert sum(state.choice.shares.values()) == pytest.approx(1.0)
    assert state.widths.factors(60)[0] == pytest.approx(1.5)
    assert (np.diff(state.widths.factors(60)) >= 0.0).all()


def test_another_choice_keeps_the_widths_that_were_learned() -> None:
    """Intervals that held too little stay wider."""
    state = started()
    for step in range(1, 30):
        state.update(100 + step, np.array([9.0]))
        state.publish(PUBLISHED)
    learned = state.widths.factors(60)
    assert learned[0] > 2.0
    state.choose(CHOICE)
    assert state.widths.factors(60).tolist() == learned.tolist()
    assert not state.outdated()


@pytest.mark.parametrize("step", STEPS)
def test_a_value_is_compared_with_what_was_published_so_many_steps_before(step: int) -> None:
    """And with no other: each distance ahead learns for itself; a gap between teaches nothing."""
    state = started()
    before = state.widths.factors(64)
    values = np.full(step, np.nan)
    values[-1] = 9.0
    state.update(100 + step, values)
    changed = np.flatnonzero(state.widths.factors(64) != before) + 1
    assert step in changed
    assert {1, 3, 10, 40} & set(changed.tolist()) == {step}


def test_values_that_come_late_or_twice_change_nothing() -> None:
    """The same place again, however different its value."""
    state = started()
    state.update(101, np.array([9.0]))
    learned = state.widths
    state.update(101, np.array([0.5, 0.5]))
    assert state.widths == learned


def test_a_clock_that_runs_back_is_another_series() -> None:
    """It needs a choice, and has no width; one that jumps ahead keeps both, and no interval is compared."""
    state = started()
    state.update(1_000_000, np.full(50, 99.0))
    assert state.widths.factors(1)[0] == pytest.approx(1.5)
    state.update(40, np.full(50, 0.5))
    assert state.choice is None
    assert (state.widths.factors(60) == 1.0).all()


def test_a_short_forecast_is_compared_as_far_as_it_goes() -> None:
    """Steps beyond it were not published."""
    state = Standing()
    state.update(100, np.array([0.5]))
    state.choose(CHOICE)
    state.publish(PUBLISHED[:5])
    before = state.widths
    state.update(140, np.append(np.full(39, np.nan), 9.0))
    assert state.widths == before


@pytest.mark.long
@pytest.mark.parametrize("values", [NOISE, 1e300 * NOISE, np.append(NOISE, [np.nan, np.nan]), np.full(300, 7.0)])
def test_a_choice_repeated_is_the_same_forecast(values: np.ndarray) -> None:
    """As long as nothing has come: values, losses, width, naive part, notes."""
    question = Question(values, 60.0, 30, LEVELS)
    choice, result = chosen(question, MODELS)
    (again,) = repeated([Repeat(question, choice)], MODELS)
    np.testing.assert_allclose(again.values, result.values, rtol=1e-9)
    assert (again.loss, again.naive_loss, again.coverage) == (result.loss, result.naive_loss, result.coverage)
    assert again.weights == pytest.approx(result.weights)
    assert again.notes == result.notes
    np.testing.assert_allclose(result.values, forecast(question, MODELS).values)


@pytest.mark.long
def test_together_each_series_gets_the_forecast_that_it_gets_alone() -> None:
    """Whatever the others are: short, constant, with a season, with gaps, without a choice, by members that cannot."""
    daily = np.tile(np.random.default_rng(3).random(48), 8)
    gapped = np.where(np.arange(len(NOISE)) % 7 == 3, np.nan, NOISE)
    asked = [Question(one, 1800.0, 30, LEVELS) for one in (NOISE, NOISE[:40], daily, gapped, np.full(300, 7.0))]
    repeats = [Repeat(one, chosen(one, MODELS)[0], Widths.of(1.5)) for one in asked]
    repeats += [
        Repeat(asked[0], None),
        Repeat(Question(NOISE[:13], 60.0, 5, LEVELS), Choice("pool", {"profile": 1.0}, "naive", 288)),
    ]
    for one, made in zip(repeats, repeated(repeats, MODELS), strict=True):
        (alone,) = repeated([one], MODELS)
        np.testing.assert_allclose(made.values, alone.values, rtol=1e-4, atol=1e-6)
        assert (made.loss, made.notes, dict(made.weights)) == (alone.loss, alone.notes, dict(alone.weights))
    assert repeated([], MODELS) == []


def test_a_choice_of_members_that_cannot_forecast_counts_as_none() -> None:
    """The series was dropped and has begun again: the profile of a season that is not there yet."""
    question = Question(NOISE[:13], 60.0, 5, LEVELS)
    (result,) = repeated([Repeat(question, Choice("pool", {"profile": 1.0}, "naive", 288))], MODELS)
    assert np.isfinite(result.values).all()
    assert result.notes[-1] == "no back-test yet"
    assert sum(result.weights.values()) == pytest.approx(1.0)


class _Clock:
    """A thread's processor time, which passes only while a choice is made."""

    def __init__(self, each_s: float) -> None:
        self._now_s, self._each_s = 0.0, each_s

    def __call__(self) -> float:
        self._now_s += self._each_s
        return self._now_s


@pytest.fixture
def memory() -> Memory:
    """One that has heard nothing of other tests."""
    return Memory()


@pytest.fixture
def fleet(memory: Memory) -> Callable[[int], list[str]]:
    """Some GPUs of noise, each ``minute`` minutes long."""

    def grown(minutes: int) -> list[str]:
        for gpu in range(6):
            subject = SeriesSubject(f"c/device/n/{gpu}/sm_active_ratio", "ratio", 60.0, "c", None, "n", str(gpu))
            values = np.random.default_rng(gpu).uniform(0.2, 0.8, minutes)
            memory.put(subject, [60.0 * minute for minute in range(minutes)], values.tolist())
        return [f"c/device/n/{gpu}/sm_active_ratio" for gpu in range(6)]

    return grown


@pytest.mark.long
def test_a_round_makes_as_many_choices_as_there_is_time_for(memory: Memory, fleet: Callable[[int], list[str]]) -> None:
    """All series are forecast; those without a choice say so, and get theirs in the rounds that follow."""
    keys = fleet(100)
    standing = StandingForecasts(memory, MODELS, _Clock(CHOOSING_S / 2.0))
    waiting = []
    for minutes in (100, 101, 102, 103):
        fleet(minutes)
        standing.begin(keys)
        events = standing.forecasts(keys).values()
        waiting.append(sum("no back-test yet" in event.notes for event in events))
        assert len(events) == len(keys)
        assert all(np.isfinite(event.values).all() for event in events)
    assert waiting == [4, 2, 0, 0]


@pytest.mark.long
@pytest.mark.parametrize("used", [84_987_740_161.0, 41_233_874_947.0, 1.0 / 3.0, 0.0])
def test_a_series_that_stays_as_it_is_forecast_right_and_keeps_its_choice(memory: Memory, used: float) -> None:
    """However many digits it has, and where single precision is a little above the size of the memory."""
    standing, key = StandingForecasts(memory, MODELS), "c/device/n/0/fb_used_bytes"
    for minutes in range(100, 110):
        subject = SeriesSubject(key, "bytes", 60.0, "c", None, "n", "0", 0.0, max(used, 1.0))
        memory.put(subject, [60.0 * minute for minute in range(minutes)], [used] * minutes)
        made = standing.forecasts([key])[key]
    assert [(one.steps, one.inside_80_ratio) for one in made.interval_scores] == [(1, 1.0), (3, 1.0)]
    assert made.interval_scores[0].below_ratios == pytest.approx(made.interval_scores[0].levels)
    assert not standing._states[key].outdated()


@pytest.mark.long
def test_a_series_that_is_gone_takes_no_memory(memory: Memory, fleet: Callable[[int], list[str]]) -> None:
    """Nor one that is too short for a forecast."""
    keys = fleet(100)
    standing = StandingForecasts(memory, MODELS)
    standing.begin(keys)
    standing.forecasts(keys)
    assert len(standing) == len(keys)
    memory.forget(keys[0])
    assert keys[0] not in standing.forecasts(keys)
    standing.begin(keys[1:])
    assert len(standing) == len(keys) - 1
    subject = SeriesSubject("short", "W", 60.0, "c")
    memory.put(subject, [60.0 * minute for minute in range(11)], [1.0] * 11)
    assert standing.forecasts(["short"]) == {}
    assert len(standing) == len(keys) - 1
