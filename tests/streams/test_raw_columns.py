"""The ends of columns, few numbers or many: what numpy says, whatever the type, and nothing of nothing."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline import columns
from streams.raw_columns import _FEW, array, ends, largest

WHOLE = st.one_of(
    st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=2 * _FEW),
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=2 * _FEW),
    st.lists(st.integers(0, 255), min_size=1, max_size=2 * _FEW),
)


@pytest.mark.long
@given(WHOLE)
def test_the_ends_of_whole_numbers_are_the_least_and_the_largest(numbers: list[int]) -> None:
    assert ends(columns.whole(numbers)) == (min(numbers), max(numbers))


@pytest.mark.long
@given(st.lists(st.floats(width=32), min_size=1, max_size=2 * _FEW))
def test_the_largest_is_that_of_the_numbers_that_are_known(numbers: list[float]) -> None:
    column = columns.durations(numbers)
    wanted = float(np.fmax.reduce(array(column)))
    found = largest(column)
    assert found == wanted or (math.isnan(found) and math.isnan(wanted))


@pytest.mark.parametrize("rows", [0, 1, _FEW, _FEW + 1])
def test_where_nothing_is_known_there_is_no_largest(rows: int) -> None:
    assert math.isnan(largest(columns.durations([math.nan] * rows)))
    assert (ends(columns.whole(range(rows))) is None) == (rows == 0)
