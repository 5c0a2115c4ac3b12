"""Pictures in characters: the step over time, and ranks."""

import math

import msgspec
import numpy as np
import pytest

from streams.reports.documents.charsets import COLUMNS, rank_lines, step_lines
from streams.reports.documents.pictures import ratios, spanned
from streams.reports.report import Course


def course(step_s: list[float]) -> Course:
    """A job of these steps, a column each."""
    columns = len(step_s)
    return Course(
        start_s=0.0, column_s=10.0, step_s=step_s, p95_s=step_s, steps_from=[0] * columns, steps_to=[1] * columns,
        ranks=[], own=np.zeros((0, columns)),
    )  # fmt: skip


def test_the_longest_step_is_the_highest_bar_and_what_is_not_known_is_blank() -> None:
    drawn, legend = step_lines(course([0.8, math.nan, 0.1, math.inf, 0.35]))
    assert drawn.removeprefix("median step".rjust(24) + " ") == "█ ▂ ▄"
    assert "800 ms" in legend
    assert "100 ms" in legend


def test_columns_share_a_bar_where_there_are_many() -> None:
    """A long step among thousands is seen."""
    drawn, _ = step_lines(course([0.1] * 5000 + [9.0] + [0.1] * 5000))
    assert len(drawn) == 25 + COLUMNS
    assert drawn.count("█") == 1


@pytest.mark.parametrize("step_s", [[], [math.nan], [0.0, 0.0]])
def test_where_nothing_was_told_there_is_no_picture(step_s: list[float]) -> None:
    assert step_lines(course(step_s)) == ()


def test_a_first_step_of_many_times_the_usual_one_leaves_the_picture() -> None:
    """Else all others are one flat line; the legend has its length."""
    drawn, legend = step_lines(course([30.0] + [0.1, 0.2] * 40))
    assert len(set(drawn.rsplit(" ", 1)[-1])) >= 3
    assert "440 ms and more; longest column 30.0 s, shortest 100 ms" in legend


def test_columns_that_a_long_step_spans_are_no_gap() -> None:
    """A step of 25 s begins in one column of 10 s and goes on in the next two; what comes then is not known."""
    times = [25.0, math.nan, math.nan, math.nan, 5.0, math.nan, math.inf, math.nan]
    assert spanned(course(times)) == [0, 0, 0, None, 4, None, 6, None]
    drawn, _ = step_lines(course(times[:5]))
    assert drawn.removeprefix("median step".rjust(24) + " ") == "███ ▂"


def test_ranks_are_drawn_for_as_long_as_their_step() -> None:
    """No blank columns between steps that are longer than a column."""
    made = course([25.0, math.nan, math.nan, math.nan])
    own = np.full((3, 4), math.nan)
    own[:, 0] = (1.0, 1.0, 2.0)
    rows = rank_lines(msgspec.structs.replace(made, ranks=[0, 1, 2], own=own))
    assert rows[2] == f"{'rank 2':>24} ███ "


def test_a_longer_stage_is_not_slow_and_a_rank_behind_its_own_stage_is() -> None:
    """The verdict compares ranks of equal work; so does the picture. A rank alone in a stage is beside itself."""
    own = np.array([[1.0, 1.0, 1.0], [1.0, 1.0, 1.0], [1.3] * 3, [1.3] * 3, [1.3, 1.3, 1.95], [2.0, 2.0, 2.4]])
    column = [1.0] * 3
    staged = Course(0.0, 60.0, column, column, [0, 1, 2], [0, 1, 2], list(range(6)), own, (0, 0, 1, 1, 1, 2))
    assert ratios(staged).round(3).tolist() == [[0.0] * 3] * 4 + [[0.0, 0.0, 0.5], [0.0, 0.0, 0.2]]
