"""A quantile is numpy's to the last bit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.quantile import quantile


@pytest.mark.long
@given(
    st.lists(st.floats(-1e300, 1e300, allow_nan=False), min_size=1, max_size=60),
    st.sampled_from([0.0, 0.5, 0.9, 0.95, 1.0]),
)
def test_it_is_that_of_numpy(values, share):
    """Of any numbers, however many, in any order."""
    assert quantile(np.array(values), share) == float(np.quantile(values, share))


@pytest.mark.parametrize("size", range(1, 45))
def test_it_is_that_of_numpy_for_seconds(size):
    """Also where the place lies between two of them by any part."""
    values = np.random.default_rng(size).random(size)
    before = values.copy()
    for share in (0.9, 0.95):
        assert quantile(values, share) == float(np.quantile(values, share))
    assert values.tolist() == before.tolist()
