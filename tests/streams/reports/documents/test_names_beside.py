"""Names left of a picture: whole, in every viewer."""

import re

import numpy as np
import pytest

from streams.reports.documents.pictures import Bar, bars, step_times
from streams.reports.documents.svg import INSIDE, LEFT, LETTER, beside
from streams.reports.report import Course


def starts(picture):
    return [float(x) for x in re.findall(r'<text x="([\d.]+)"[^>]*>', picture)]


@pytest.mark.parametrize("names", [["rank 9", "rank 10"], ["500 ms", "1 s"], ["slow computation on the worker"]])
def test_names_begin_at_one_place_and_none_is_placed_by_its_end(names):
    """Chrome's PDF viewer cuts the first letter of text that is placed by its end."""
    made = "".join(beside(((float(at), name) for at, name in enumerate(names)), size=9))
    assert len(set(starts(made))) == 1
    assert 0 < starts(made)[0] < LEFT - 8
    assert "text-anchor" not in made


def test_moments_below_a_picture_are_placed_by_their_first_letter():
    """The same viewer cuts the first letter of text that is placed by its middle."""
    course = Course(0.0, 1.0, [1.0] * 60, [1.1] * 60, list(range(60)), list(range(60)), [], np.zeros((0, 60)))
    made = step_times(course)
    assert "text-anchor" not in made
    first, *middle, last = [float(x) for x in re.findall(r'<text x="([\d.]+)"[^>]*>00:0', made)]
    assert first == LEFT
    assert all(LEFT < x < LEFT + INSIDE for x in middle)
    assert last + len("00:01:00") * 11 * LETTER <= LEFT + INSIDE + 1


@pytest.mark.parametrize("name", ["input", "slow computation on the worker", "w" * 60])
def test_a_long_name_is_smaller_and_fits(name):
    made = bars([Bar(name, ((1.0, "red", ""),), "1 s")])
    size = float(re.search(r'font-size="([\d.]+)" fill="var\(--ink\)"', made)[1])
    shown = re.search(r">([^<>]+)</text>", made)[1]
    assert starts(made)[0] >= 2.0
    assert starts(made)[0] + len(shown) * size * LETTER <= LEFT
