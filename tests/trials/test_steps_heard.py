"""Steps of a recording that grows: counted once, after the warm-up, of the newest attempt alone."""

import msgspec
import numpy as np
import pytest

from paceline.events import Column, JobDescribed, Speakers, StepTimings
from trials import steps_heard
from trials.steps_heard import StepsHeard

BASE = {"cluster": "c", "producer": "p", "sequence": 0}


def column(kind, values):
    return Column(kind, np.asarray(values, dtype=f"<{kind}").tobytes())


def timings(steps, step_s, rank=0, attempt=0, phases=None, left_out=None):
    count = len(steps)
    return StepTimings(
        **BASE,
        job="j",
        attempt=attempt,
        node="n",
        t0_s=1e9,
        speakers=Speakers(ranks=column("u4", [rank]), world_sizes=column("u4", [2]), devices=["cpu"]),
        rank=column("u4", [rank] * count),
        step=column("u4", steps),
        start_s=column("f4", [0.0] * count),
        step_s=column("f8", step_s),
        phases={name: column("f8", spent) for name, spent in (phases or {}).items()},
        left_out=None if left_out is None else column("u1", left_out),
    )


def described(batch_size, attempt=0):
    return JobDescribed(
        **BASE,
        job="j",
        attempt=attempt,
        node="n",
        world_size=2,
        backend="gloo",
        framework="torch",
        started_s=1e9,
        places=[],
        batch_size=batch_size,
    )


def heard(*events, warm_up=2):
    made = StepsHeard(warm_up)
    for event in events:
        made.update(event)
    return made


def test_the_warm_up_does_not_count():
    """It is the first steps, whatever their number."""
    made = heard(timings([10, 11, 12, 13], [9.0, 9.0, 1.0, 2.0]))

    assert (made.step_s, made.steps, made.seconds, made.last) == ([1.0, 2.0], 2, 3.0, 13)


def test_nothing_was_heard():
    """Before the first step."""
    made = heard(described(8))

    assert (made.begun, made.last, made.steps, made.shares) == (False, -1, 0, {})


def test_a_step_is_the_mean_of_its_ranks_and_counts_once():
    """In whatever order they tell, and though one does not."""
    made = heard(
        timings([0, 1, 3, 2], [1.0, 1.0, 3.0, 3.0]), timings([2, 3, 4], [1.0, 1.0, 1.0], rank=1), timings([5], [2.0])
    )

    assert made.step_s == [2.0, 2.0, 1.0, 2.0]
    assert made.steps == 4


def test_steps_that_are_left_out_are_time_that_was_spent():
    """A rank that keeps to its probe's budget is measured no longer than one that tells all."""
    made = heard(timings([0, 4, 8, 12], [1.0] * 4, left_out=[3, 3, 3, 3]), warm_up=4)

    assert (made.steps, made.seconds) == (3, 12.0)


def test_no_left_out_counts_beyond_its_bound():
    """Whatever somebody sends."""
    assert heard(timings([0], [1.0], left_out=[255]), warm_up=0).seconds == 64.0


@pytest.mark.parametrize("step_s", [[0.0], [-1.0], [float("nan")], [float("inf")], [1.0, 2.0]])
def test_times_that_are_none_do_not_count(step_s):
    """Nor columns that do not fit."""
    assert heard(timings([5], step_s), warm_up=0).steps == 0


def test_a_newer_attempt_begins_from_nothing():
    """And an older one is not heard any more."""
    made = heard(
        described(8), timings([0, 1, 2], [1.0] * 3), timings([0, 1, 2, 3], [2.0] * 4, attempt=1), timings([9], [1.0])
    )

    assert (made.step_s, made.batch_size, made.last) == ([2.0, 2.0], None, 3)


def test_a_batch_that_was_told_stays():
    """A later description without it says nothing else."""
    made = heard(described(8), described(None))

    assert (made.batch_size, made.world_size, made.framework) == (8, 2, "torch")


def test_shares_are_of_the_steps_that_count():
    """Of unknown phases nothing is said; NaN is not measured."""
    phases = {"data": [9.0, 9.0, 1.0, float("nan")], "forward": [0.0, 0.0, 1.0, 3.0], "strange": [1.0] * 4}

    assert heard(timings([0, 1, 2, 3], [9.0, 9.0, 4.0, 4.0], phases=phases)).shares == {"data": 0.125, "forward": 0.5}


def test_memory_is_bounded_and_the_count_goes_on(monkeypatch):
    """The last steps are kept."""
    monkeypatch.setattr(steps_heard, "MOST_STEPS", 100)
    made = heard(*(timings([step], [float(step + 1)]) for step in range(1000)), warm_up=0)

    assert (made.steps, len(made.step_s), made.step_s[-1]) == (1000, 100, 1000.0)


def test_events_are_left_as_they_are():
    """Hearing changes no event."""
    event = timings([0, 1, 2], [1.0] * 3, phases={"data": [0.1] * 3})
    before = msgspec.msgpack.encode(event)
    heard(event)

    assert msgspec.msgpack.encode(event) == before
