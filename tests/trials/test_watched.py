"""When a run is enough, hangs, or has failed; time is told."""

import pytest

from trials.plan import LEAST, Measuring, decoded
from trials.watched import Watch

PLAN = Measuring(job="j", folder="/f", warm_up=5, seconds=10.0, start_s=60.0, hang_s=20.0, limit_s=130.0)
STEPS = Measuring(job="j", folder="/f", warm_up=5, steps=50, start_s=60.0, hang_s=20.0, limit_s=130.0)
NODES = Measuring(job="j", folder="/f", nodes=2, warm_up=5, seconds=10.0, start_s=60.0, hang_s=20.0, limit_s=130.0)


def test_a_plan_travels_as_one_word():
    """And is the same."""
    assert decoded(PLAN.encoded()) == PLAN


def test_enough_is_seconds_or_steps():
    """But never fewer steps than an interval needs."""
    assert Watch(PLAN).look(20, 30, 30, 10.0).outcome == "measured"
    assert Watch(PLAN).look(20, 30, 30, 9.9) is None
    assert Watch(PLAN).look(20, LEAST - 1, LEAST - 1, 50.0) is None
    assert Watch(STEPS).look(20, 55, 50, 0.1).outcome == "measured"
    assert Watch(STEPS).look(20, 54, 49, 99.0) is None


def test_no_first_step_hangs():
    """After start_s, not before."""
    watch = Watch(PLAN)
    assert watch.look(59.9, -1, 0, 0.0) is None
    assert watch.look(60.0, -1, 0, 0.0) == ("hung", "no step ended within 60 s (start_s)")


def test_a_step_that_does_not_end_hangs():
    """After hang_s since the last one that was new, in the warm-up as well."""
    watch = Watch(PLAN)
    assert watch.look(50, 3, 0, 0.0) is None
    assert watch.look(69.9, 3, 0, 0.0) is None
    assert watch.look(70, 3, 0, 0.0) == ("hung", "no step ended for 20 s after step 3 (hang_s)")
    again = Watch(PLAN)
    assert [again.look(at, step, 0, 0.0) for at, step in ((50, 3), (69, 4), (88, 4))] == [None] * 3


def test_over_the_limit():
    """Half of what was asked for is taken; less hangs."""
    assert Watch(PLAN).look(130, 40, 20, 5.0).outcome == "measured"
    assert Watch(PLAN).look(130, 40, 20, 4.9) == ("hung", "over its limit of 130 s, 20 steps after the warm-up")


@pytest.mark.parametrize(
    ("plan", "status", "memory", "steps", "seconds", "outcome"),
    [
        (PLAN, 0, "", 30, 10.0, "measured"),
        (PLAN, 1, "out of memory", 30, 10.0, "measured"),
        (PLAN, 0, "", 20, 5.0, "measured"),
        (PLAN, 0, "", 20, 4.0, "crashed"),
        (PLAN, 1, "", 20, 5.0, "crashed"),
        (PLAN, 1, "out of memory", 20, 5.0, "out_of_memory"),
        (PLAN, 137, "", 0, 0.0, "out_of_memory"),
        (PLAN, -9, "", 0, 0.0, "out_of_memory"),
        (NODES, 1, "", 20, 5.0, "measured"),
        (NODES, 1, "", 20, 4.0, "crashed"),
        (NODES, 1, "out of memory", 20, 5.0, "out_of_memory"),
    ],
)
def test_ended_by_itself(plan, status, memory, steps, seconds, outcome):
    """With enough steps it is measured, whatever its status; else how it failed."""
    assert Watch(plan).ended(status, memory, steps, seconds).outcome == outcome
