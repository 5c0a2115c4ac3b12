"""What a round of the pretrained model's fit learns from."""

import numpy as np
import pytest

from forecaster.learning import blend
from forecaster.learning.examples import Examples, Recorded
from forecaster.learning.synthetic import SHAPES, made_up

RNG = np.random.default_rng(2)
KINDS = {"power": [Recorded(900.0 + RNG.standard_normal(800), 2.0)], "memory": [Recorded(np.arange(700.0), 60.0)]}
SHARES = {"power": 3.0, "memory": 1.0, blend.MADE_UP: 2.0, "of nothing": 5.0}


def same(one: Examples, other: Examples) -> bool:
    return np.array_equal(one.past, other.past, equal_nan=True) and np.array_equal(one.came, other.came, equal_nan=True)


@pytest.mark.long
def test_a_round_can_be_drawn_again_and_no_two_are_alike() -> None:
    """A fit that goes on after a break sees what it would have seen."""
    draw, again = (blend.rounds(KINDS, SHARES, 61, 4) for _ in range(2))
    assert same(draw(3), again(3))
    assert not same(draw(3), draw(4))
    assert not same(draw(3), blend.rounds(KINDS, SHARES, 61, 5)(3))


@pytest.mark.long
def test_every_round_has_as_many_examples_and_each_kind_its_share() -> None:
    """Kinds without series take no part; what is left out of a fit leaves the others' examples as they were."""
    whole = blend.rounds(KINDS, SHARES, 61, 4)(0)
    assert len(whole.past) == len(whole.came) == 61
    alone = blend.rounds({}, SHARES, 61, 4)(0)
    assert len(alone.past) == 61


def test_made_up_series_have_every_shape_and_keep_their_range() -> None:
    """Values that a sensor could have sent: finite or missing, and inside the range that the series is said to have."""
    series = made_up(4 * len(SHAPES), np.random.default_rng(6))
    assert len(series) == 4 * len(SHAPES)
    for one in series:
        measured = one.values[np.isfinite(one.values)]
        assert len(measured) > 0.3 * len(one.values)
        assert one.low is None or measured.min() >= one.low - 1e-9
        assert one.high is None or measured.max() <= one.high + 1e-9
    assert any(np.isnan(one.values).any() for one in series)
    assert any(one.high == 1.0 for one in series)
