"""The open steps hold what was told, in whatever order it came."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.windows.open_steps import COLUMNS, MOST_STEP, OpenSteps
from tests.streams.windows.step_cells import rows_of

FORWARD = COLUMNS.index("forward")
CELL = st.tuples(st.integers(0, 3), st.integers(0, 30), st.sampled_from([None, 0.0, 0.25, 1.5]), st.booleans())


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(st.lists(st.lists(CELL, min_size=1, max_size=12), min_size=1, max_size=6))
def test_whatever_the_order_of_rows_each_stands_in_its_step(batches):
    """Forwards of a rank and step add up, the last whole step holds, and a phase is first told in the lowest step."""
    opened = OpenSteps()
    opened.place(range(4), "node-0")
    forward, lasted, first = {}, {}, {}
    for cells in batches:
        opened.update(rows_of(cells))
        for at, (rank, step, seconds, whole) in enumerate(cells):
            forward[step, rank] = forward.get((step, rank), 0.0) + (seconds or 0.0)
            if whole:
                lasted[step, rank] = 2.0 + at
            if seconds is not None:
                first[rank] = min(step, first.get(rank, MOST_STEP))
    numbers = opened.numbers.tolist()
    assert numbers == sorted({step for step, _ in forward})
    for row, step in enumerate(numbers):
        for rank in range(4):
            assert opened.phase_s[row, rank, FORWARD] == forward.get((step, rank), 0.0)
            told = opened.step_s[row, rank]
            assert told == lasted[step, rank] if (step, rank) in lasted else np.isnan(told)
    assert opened.first_told[:, FORWARD].tolist() == [first.get(rank, MOST_STEP) for rank in range(4)]


def test_ranks_by_slot_are_those_that_have_been_placed():
    """Also after more have joined, and in a state that was restored."""
    opened, again = OpenSteps(), OpenSteps()
    opened.place([5, 2], "node-0")
    assert opened.rank_of.tolist() == [5, 2]
    opened.place([2, 9], "node-1")
    assert opened.rank_of.tolist() == opened.ranks == [5, 2, 9]
    again.place([1], "node-0")
    assert again.rank_of.tolist() == [1]
    again.load(opened.snapshot())
    assert again.rank_of.tolist() == [5, 2, 9]
