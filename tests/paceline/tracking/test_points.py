"""Points: one a second, the mean of what was measured, under the newest step."""

import math

import pytest

from paceline import columns
from paceline.tracking.points import MOST_PRODUCERS, Points
from tests.paceline.tracking.steps import message


def test_a_point_is_the_mean_over_ranks_and_steps() -> None:
    points = Points()
    points.update(message(1, [3, 4], 0.4))
    points.update(message(2, [5], 0.7))
    point = points.tick(0.0)
    assert point is not None
    assert point.step == 5
    assert point.values == pytest.approx(
        {"paceline/step_s": 0.5, "paceline/phase/forward_s": 0.25, "paceline/wait_s": 0.05}
    )


def test_there_is_one_a_second_at_most_and_none_without_steps() -> None:
    points = Points()
    told = []
    for tick in range(40):
        points.update(message(tick, [tick]))
        told.append(points.tick(tick / 10))
    assert [index for index, point in enumerate(told) if point is not None] == [0, 10, 20, 30]
    assert points.tick(9.0) is not None
    assert points.tick(99.0) is None


def test_the_last_one_does_not_wait() -> None:
    points = Points()
    points.update(message(1, [1]))
    assert points.tick(0.0) is not None
    points.update(message(2, [2]))
    assert points.tick(0.1) is None
    last = points.tick(0.1, last=True)
    assert last is not None
    assert last.step == 2


def test_a_step_is_told_once_though_its_ranks_come_one_after_the_other() -> None:
    """What comes late of it is in the next step's mean; a training that begins again is no such thing."""
    points = Points()
    points.update(message(1, [7], 0.2))
    assert points.tick(0.0) is not None
    points.update(message(2, [7], 0.4))
    assert points.tick(5.0) is None
    points.update(message(3, [8], 0.6))
    point = points.tick(5.1)
    assert point is not None
    assert (point.step, point.values["paceline/step_s"]) == (8, pytest.approx(0.5))
    points.update(message(4, [0]))
    again = points.tick(9.0)
    assert again is not None
    assert again.step == 0


def test_a_message_that_comes_twice_counts_once() -> None:
    points = Points()
    points.update(message(1, [1], 0.2))
    points.update(message(2, [2], 0.4))
    points.update(message(2, [2], 0.4))
    point = points.tick(0.0)
    assert point is not None
    assert point.values["paceline/step_s"] == pytest.approx(0.3)


def test_what_was_not_measured_is_in_no_mean_and_zero_is() -> None:
    points = Points()
    points.update(message(1, [1], step_s=0.5, phases={"gc": columns.durations([0.0, 0.0])}))
    points.update(message(2, [2], step_s=0.0, phases={"data": columns.durations([math.nan, 0.25])}))
    point = points.tick(0.0)
    assert point is not None
    assert point.values == pytest.approx({"paceline/step_s": 0.25, "paceline/phase/data_s": 0.25})


def test_columns_of_another_length_and_hostile_numbers_are_passed_over() -> None:
    points = Points()
    points.update(message(1, [1], step_s=0.5, phases={"data": columns.durations([1.0])}))
    points.update(message(2, [2], step_s=math.inf, phases={"data": columns.durations([-1.0, -2.0])}))
    points.update(message(3, [3], step_s=0.5, phases={}))
    point = points.tick(0.0)
    assert point is not None
    assert point == (3, {"paceline/step_s": pytest.approx(0.5)})


def test_a_message_without_rows_is_none() -> None:
    points = Points()
    points.update(message(1, []))
    assert points.tick(0.0) is None


def test_another_attempt_starts_anew() -> None:
    """Its steps begin at the beginning, and the mean holds none of the attempt before."""
    points = Points()
    points.update(message(1, [90], 0.9))
    points.update(message(1, [0], 0.1, producer="p2", attempt=1))
    point = points.tick(0.0)
    assert point is not None
    assert point.step == 0
    assert point.values["paceline/step_s"] == pytest.approx(0.1)


def test_memory_reaches_a_plateau() -> None:
    points = Points()
    for number in range(5 * MOST_PRODUCERS):
        points.update(message(1, [1], producer=f"p{number}"))
    assert len(points._sequences.last) == MOST_PRODUCERS
    assert len(points._sums) == 3
