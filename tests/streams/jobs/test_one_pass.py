"""What is worked out for all ticks of a message in one pass is what one tick at a time gives, to the last bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.events import OP_INDEX, OPS
from streams.ingest.microbatches import Pairs
from streams.ingest.steps import Step
from streams.jobs import lateness_bar
from streams.jobs.cohorts import Cohorts
from streams.jobs.lateness import late_ranks
from streams.jobs.pace import Pace, PaceConfig
from streams.jobs.straggler_config import StragglerConfig
from streams.jobs.structure import Structure, StructureConfig
from streams.jobs.tick_history import TickHistory
from streams.jobs.ticks import Ticks

CONFIG = StragglerConfig()
LOOKS = (3, 5, 10, 20, 40)


def steps_of(seed, count, ranks, missing=0.0, late_s=0.03):
    """Steps of a job with a rank that turns late; some ranks are not heard in some steps."""
    rng = np.random.default_rng(seed)
    made = []
    for number in range(count):
        seconds = np.zeros((len(OPS), ranks))
        forward = 0.1 * (1 + 0.02 * rng.standard_normal(ranks))
        if number > count // 3:
            forward[seed % ranks] += late_s
        seconds[OP_INDEX["forward"]] = forward
        seconds[OP_INDEX["backward"]] = 2 * forward * (1 + 0.01 * rng.standard_normal(ranks))
        seconds[OP_INDEX["cpu_wait"]] = 0.01 * rng.random(ranks)
        own = seconds[OP_INDEX["forward"]] + seconds[OP_INDEX["backward"]]
        seconds[OP_INDEX["communication"]] = own.max() - own + 0.002
        seconds[OP_INDEX["step"]] = own.max() + 0.01
        seconds[:, rng.random(ranks) < missing] = np.nan
        made.append(Step(number, seconds, np.zeros(ranks)))
    return made


def parted(values, sizes):
    """``values`` in parts of these ``sizes``, over and over."""
    at = turn = 0
    while at < len(values):
        yield values[at : at + sizes[turn % len(sizes)]]
        at, turn = at + sizes[turn % len(sizes)], turn + 1


def cohorts(staged, ranks):
    made = Cohorts()
    if staged:
        made.place(range(ranks), [rank % 2 for rank in range(ranks)], [rank // 2 for rank in range(ranks)])
    return made


JOBS = {
    "seed": st.integers(0, 1000),
    "ranks": st.integers(2, 6),
    "missing": st.sampled_from([0.0, 0.0, 0.3]),
    "sizes": st.lists(st.integers(1, 30), min_size=1, max_size=4),
}


@pytest.mark.slow
@given(**JOBS, staged=st.booleans())
@settings(max_examples=15)
def test_ticks_of_a_run_are_those_of_one_step_at_a_time(seed, ranks, missing, sizes, staged):
    steps = steps_of(seed, 60, ranks, missing)
    one, run = Ticks(0.5, cohorts(staged, ranks)), Ticks(0.5, cohorts(staged, ranks))
    alone = [one.update(step) for step in steps]
    together = [tick for part in parted(steps, sizes) for tick in run.run(part)]
    for this, that in zip(alone, together, strict=True):
        assert (this is None) == (that is None)
        for mine, other in zip(this or (), that or (), strict=True):
            np.testing.assert_array_equal(mine, other)
    for name, value in one.state().items():
        np.testing.assert_array_equal(value, run.state()[name])


@pytest.mark.slow
@given(**JOBS, explained=st.booleans())
@settings(max_examples=4)
def test_looks_at_ticks_taken_together_are_those_at_one_tick_at_a_time(seed, ranks, missing, sizes, explained):
    ticks = [tick for tick in map(Ticks(0.0, Cohorts()).update, steps_of(seed, 56, ranks, missing)) if tick]
    one, taken = TickHistory(), TickHistory()
    why = (lambda rank: rank == 0) if explained else None
    for part in parted(ticks, sizes):
        taken.take(part)
        for tick in part:
            one.push(tick)
            taken.push(tick)
            for look in LOOKS:
                for mine, other in zip(
                    late_ranks(one, look, CONFIG, why), late_ranks(taken, look, CONFIG, why), strict=True
                ):
                    np.testing.assert_array_equal(mine, other)
    for name, value in one.state().items():
        np.testing.assert_array_equal(value, taken.state()[name])


@pytest.mark.slow
@given(**JOBS, staged=st.booleans(), accused=st.lists(st.sets(st.integers(0, 7)), min_size=1, max_size=3))
@settings(max_examples=15)
def test_the_pace_of_ticks_taken_together_is_that_of_one_at_a_time(seed, ranks, missing, sizes, staged, accused):
    """Also where who is accused changes between two of them, and where one rank alone is left to be counted."""
    ticks = [tick for tick in map(Ticks(0.0, Cohorts()).update, steps_of(seed, 60, ranks, missing)) if tick]
    one, taken = Pace(PaceConfig()), Pace(PaceConfig())
    for part in parted(ticks, sizes):
        taken.take(part)
        for tick in part:
            without = accused[tick.first_step // 5 % len(accused)]
            one.update(tick, without, staged=staged)
            taken.update(tick, without, staged=staged)
    np.testing.assert_array_equal(one.history, taken.history)


@pytest.mark.long
@pytest.mark.parametrize("sizes", [[1], [7, 40], [80]])
def test_a_pace_that_falls_and_rises_is_told_of_ticks_taken_together_as_of_one_at_a_time(sizes):
    """What changes is worked out ahead while the history is full, and no longer once it is cut."""
    told = []
    for taken_together in (False, True):
        steps = [
            step._replace(seconds=step.seconds * (1.4 if 200 <= step.step < 300 or 470 <= step.step < 520 else 1.0))
            for step in steps_of(7, 600, 4, late_s=0.0)
        ]
        ticks = [tick for tick in map(Ticks(0.0, Cohorts()).update, steps) if tick]
        pace, seen = Pace(PaceConfig()), []
        for part in parted(ticks, sizes):
            if taken_together:
                pace.take(part)
            episodes = [
                pace.update(tick, {0} if tick.first_step in (330, 331) else set(), staged=False) for tick in part
            ]
            seen += [(one.state, one.first_step, one.measured) for one in episodes if one]
        told.append(seen)
    assert {state for state, _, _ in told[0]} >= {"suspected", "confirmed", "recovered"}
    assert told[0] == told[1]


@pytest.mark.long
def test_a_rank_that_is_late_is_near_and_nobody_else_is_judged(monkeypatch):
    """Counting finds every rank that a look would, and spares the look where it finds none."""
    ticks = [tick for tick in map(Ticks(0.0, Cohorts()).update, steps_of(3, 70, 5)) if tick]
    history, judged = TickHistory(), []
    monkeypatch.setattr(lateness_bar, "bar", lambda *args: judged.append(args) or bar(*args))
    seen = set()
    for tick in ticks:
        history.push(tick)
        before = len(judged)
        late = set(np.flatnonzero(late_ranks(history, 10, CONFIG).late).tolist())
        seen |= late
        assert late <= history.near(10, CONFIG)
        assert history.near(10, CONFIG) or len(judged) == before
    assert seen == {3}


bar = lateness_bar.bar


def test_ranks_that_join_between_runs_are_no_mix_up():
    """A run has equally many ranks; the next may have more."""
    few, many = steps_of(1, 30, 3), steps_of(1, 60, 5)[30:]
    one, run = Ticks(0.3, Cohorts()), Ticks(0.3, Cohorts())
    alone = [one.update(step) for step in [*few, *many]]
    together = [*run.run(few), *run.run(many)]
    for this, that in zip(alone, together, strict=True):
        for mine, other in zip(this or (), that or (), strict=True):
            np.testing.assert_array_equal(mine, other)


@pytest.mark.slow
def test_a_message_of_very_many_ticks_is_judged_like_many_messages():
    """What one pass takes is bounded, and counts of a byte do not overflow."""
    ticks = [tick for tick in map(Ticks(0.0, Cohorts()).update, steps_of(2, 700, 2)) if tick]
    one, taken = TickHistory(), TickHistory()
    taken.take(ticks)
    for tick in ticks:
        one.push(tick)
        taken.push(tick)
        assert taken.near(10, CONFIG) == one.near(10, CONFIG)
        np.testing.assert_array_equal(late_ranks(one, 10, CONFIG).margin, late_ranks(taken, 10, CONFIG).margin)


@pytest.mark.parametrize("staged", [False, True])
def test_sums_of_some_steps_are_those_of_each(staged):
    """Also where some of them tell of micro-batches, and some ranks of neither pass."""
    steps = steps_of(4, 12, 4, missing=0.2)
    steps[3].seconds[OP_INDEX["backward"], 1] = 0.0
    pairs = Pairs(np.array([0, 0, 1, 1]), np.array([0.1, 0.2, 0.1, 0.3]), np.array([0.2, 0.4, 0.2, np.nan]))
    steps[5] = steps[5]._replace(pairs=pairs)
    together, alone = (Structure(StructureConfig(), cohorts(staged, 4)) for _ in range(2))
    for sums in together.sums_of(steps):
        together.add(sums)
    for step in steps:
        alone.add(*alone.sums_of([step]))
    np.testing.assert_array_equal(together.pairs, alone.pairs)
    assert together.held_back_s == alone.held_back_s
    assert together.pairs[0].tolist() == pytest.approx(alone.pairs[0].tolist())
    assert together.pairs[0, 0] > 0
