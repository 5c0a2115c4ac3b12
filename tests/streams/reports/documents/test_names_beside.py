"""Names left of a picture: whole, in every viewer."""

import re

import pytest

from streams.reports.documents.pictures import Bar, bars
from streams.reports.documents.svg import LEFT, LETTER, beside


def starts(picture):
    return [float(x) for x in re.findall(r'<text x="([\d.]+)"[^>]*>', picture)]


@pytest.mark.parametrize("names", [["rank 9", "rank 10"], ["500 ms", "1 s"], ["slow computation on the worker"]])
def test_names_begin_at_one_place_and_none_is_placed_by_its_end(names):
    """Chrome's PDF viewer cuts the first letter of text that is placed by its end."""
    made = "".join(beside(((float(at), name) for at, name in enumerate(names)), size=9))
    assert len(set(starts(made))) == 1
    assert 0 < starts(made)[0] < LEFT - 8
    assert 'text-anchor="end"' not in made


@pytest.mark.parametrize("name", ["input", "slow computation on the worker", "w" * 60])
def test_a_long_name_is_smaller_and_fits(name):
    made = bars([Bar(name, ((1.0, "red", ""),), "1 s")])
    size = float(re.search(r'font-size="([\d.]+)" fill="var\(--ink\)"', made)[1])
    shown = re.search(r">([^<>]+)</text>", made)[1]
    assert starts(made)[0] >= 2.0
    assert starts(made)[0] + len(shown) * size * LETTER <= LEFT
