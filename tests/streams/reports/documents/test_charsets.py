"""Pictures in characters: the step over time."""

import math

import numpy as np
import pytest

from streams.reports.documents.charsets import COLUMNS, step_lines
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
