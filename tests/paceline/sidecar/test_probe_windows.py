"""Windows with the probe on and off: their difference is found, and what would spoil it is left out or told."""

from collections.abc import Callable

import pytest

from paceline.events import ProbeCost
from paceline.paired import LEAST_PAIRS
from paceline.sidecar.probe_windows import NodeWindows, ProbeWindows
from paceline.training import marks
from paceline.training.marks import PAIRS
from paceline.training.overhead_windows import windows

MS = 1_000_000
Mark = tuple[int, int, int | None]
#: What a step takes: by its number, and whether the probe is on.
Length = Callable[[int, bool], float]


def told(length_ms: Length, pairs: int = 10, steps: int = 40, start_ms: float = 0.0) -> list[Mark]:
    """The marks of a rank that switches as ranks do, in windows of so many steps, from step 20 on."""
    now, number, found = int(start_ms * MS), 20, []
    for on, _ in [*windows()][: 2 * pairs]:
        found.append((now, marks.WINDOW_ON if on else marks.WINDOW_OFF, number))
        for _ in range(steps):
            now += int(length_ms(number, on) * MS)
            number += 1
            found.append((now, marks.STEPPED, None))
    return [*found, (now, marks.WINDOW_ON, number)]


def cost(*ranks: list[Mark]) -> ProbeCost:
    node = NodeWindows()
    for rank, found in enumerate(ranks):
        rows = ProbeWindows()
        for mark in found:
            rows.feed(*mark)
        node.update(rank, rows.drain())
    return node.cost(range(len(ranks)))


def test_the_difference_is_found() -> None:
    """20 ms without, 0.5 ms more with it: every pair says so."""
    found = cost(told(lambda step, on: 20.5 if on else 20.0))
    assert (found.pairs, found.short_pairs, found.apart_pairs) == (10, 0, 0)
    assert (found.least_steps, found.most_steps, found.off_steps) == (40, 40, 400)
    assert found.step_s == pytest.approx(0.020)
    assert [found.added_s, found.added_low_s, found.added_high_s] == pytest.approx([0.0005] * 3)


def test_a_drift_of_the_jobs_pace_cancels_out() -> None:
    """Steps grow by a third in the course of the run; whichever window comes first has the advantage in turn."""
    found = cost(told(lambda step, on: (20.5 if on else 20.0) + step * 0.008, pairs=20))
    assert found.added_s == pytest.approx(0.0005, abs=0.0002)
    assert found.added_low_s is not None
    assert found.added_high_s is not None
    assert found.added_low_s < 0.0005 < found.added_high_s


def test_a_checkpoint_or_an_evaluation_counts_in_no_window() -> None:
    """A step of ten seconds now and then, on whichever side."""
    found = cost(told(lambda step, on: 10_000.0 if step % 130 == 35 else 20.5 if on else 20.0))
    assert found.added_s == pytest.approx(0.0005)


def test_what_comes_now_and_then_counts() -> None:
    """One step in thirteen takes 13 ms more with the probe: 1 ms a step, which no median of steps would show."""
    found = cost(told(lambda step, on: 33.0 if on and step % 13 == 0 else 20.0, pairs=20, steps=160))
    assert found.added_s == pytest.approx(0.001, rel=0.1)


def test_the_first_steps_of_a_window_do_not_count() -> None:
    """In them the marks of the window before are sent: one step in five."""
    found = cost(told(lambda step, on: 35.0 if (step - 20) % 40 < 8 else 20.5 if on else 20.0))
    assert (found.step_s, found.added_s) == (pytest.approx(0.020), pytest.approx(0.0005))


def test_windows_that_are_too_short_are_told_and_not_used() -> None:
    """32 steps of 10 ms are less than half a second: the thread that sends marks may not have come to its turn."""
    found = cost(told(lambda step, on: 10.0))
    assert (found.pairs, found.short_pairs, found.added_s) == (0, 10, None)


def test_few_pairs_have_no_interval() -> None:
    found = cost(told(lambda step, on: 20.0, pairs=LEAST_PAIRS - 1))
    assert (found.pairs, found.added_s, found.added_low_s) == (LEAST_PAIRS - 1, None, None)
    assert found.step_s == pytest.approx(0.020)


def test_ranks_that_switch_together_count_as_one() -> None:
    """A rank that is a step behind still switches within the steps that do not count."""
    found = cost(told(lambda step, on: 20.0 + on), told(lambda step, on: 20.0 + on, start_ms=20.0))
    assert (found.pairs, found.added_s) == (10, pytest.approx(0.001))


def test_ranks_that_count_other_steps_are_not_switched_together() -> None:
    """One is ten steps behind: while it is off, others are on, and the job is as slow as they are."""
    found = cost(told(lambda step, on: 20.0 + on), told(lambda step, on: 20.0 + on, start_ms=200.0))
    assert (found.pairs, found.apart_pairs, found.added_s) == (0, 10, None)


def test_a_window_that_one_rank_does_not_tell_is_none() -> None:
    """Its marks were lost, or it has not got there."""
    whole = told(lambda step, on: 20.0)
    short = [mark for number, mark in enumerate(whole) if number != 100]  # a step of the third window
    assert cost(whole, short).pairs == 9
    half = cost(whole, whole[: len(whole) // 2])
    assert (half.pairs, half.apart_pairs, half.added_s) == (4, 5, None)
    assert cost(whole, []).apart_pairs == 10


def test_it_begins_anywhere() -> None:
    """A sidecar that takes over in the second window of a pair finds the next pair."""
    whole = told(lambda step, on: 20.0 + on)
    assert cost(whole[60:]).pairs == 9
    assert cost(whole[60:]).added_s == pytest.approx(0.001)


def test_every_job_finds_windows_long_enough_within_its_first_minutes() -> None:
    """Whatever its steps take: 2 ms to 2 s. Pairs do not share windows, and off is as often first as on."""
    for length_s, within_s in ((0.002, 60), (0.02, 60), (0.1, 60), (2.0, 360)):
        passed, good = 20 * length_s, 0
        for _, steps in windows():
            passed += steps * length_s
            good += steps * 0.8 * length_s >= 0.5
            if good == 2 * LEAST_PAIRS:
                break
        assert passed <= within_s
    first = [on for on, _ in windows()][::2]
    assert first.count(True) == first.count(False)
    assert len(first) % PAIRS == 0


@pytest.mark.parametrize("step_ms", [500.0, 60.0, 20.0, 5.0, 2.0, 1.0])
def test_a_run_of_the_steps_that_it_is_told_to_need_has_a_figure(step_ms: float) -> None:
    """Of a run that is too short as well as of one that is long enough: the number does not depend on what was run."""
    first = cost(told(lambda step, on: step_ms, pairs=1, steps=10))
    marks_of_run, now, number = [], 0, marks.WARM_UP
    for on, steps in windows():
        marks_of_run.append((now, marks.WINDOW_ON if on else marks.WINDOW_OFF, number))
        for _ in range(min(steps, first.needed_steps - number)):
            now, number = now + int(step_ms * MS), number + 1
            marks_of_run.append((now, marks.STEPPED, None))
        if number == first.needed_steps:
            break
    found = cost([*marks_of_run, (now, marks.WINDOW_ON, number)])
    assert (found.pairs, found.needed_steps) == (LEAST_PAIRS, first.needed_steps)
    assert found.added_s is not None


def test_steps_that_are_too_short_for_any_window_need_no_number() -> None:
    """No run would do."""
    assert cost(told(lambda step, on: 0.1, pairs=1, steps=10)).needed_steps == 0
