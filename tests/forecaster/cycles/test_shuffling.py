"""Records in another order: nothing is lost, and only what is regular stands out from them."""

import numpy as np
import pytest

from forecaster.cycles.samples import Samples
from forecaster.cycles.shuffling import MOST, ORDERS, by_chance, shuffled


@pytest.mark.parametrize("period", [1.0, 3.6, 50.0, 1e6])
def test_no_sample_is_lost_and_holes_move_with_their_values(period):
    """Whatever the period, even one longer than the record."""
    values = np.arange(200.0)
    part = Samples(values, values % 7 != 0, 2.0)
    other = shuffled(part, period, np.random.default_rng(0))
    assert sorted(other.values) == values.tolist()
    assert ((other.values % 7 != 0) == other.measured).all()
    assert other.interval_s == 2.0


def test_pieces_stay_whole():
    """Most samples are followed by the one that followed them before: short memory stays."""
    part = Samples(np.arange(600.0), np.ones(600, bool), 1.0)
    steps = np.diff(shuffled(part, 60.0, np.random.default_rng(1)).values)
    assert (steps == 1.0).mean() > 0.9


@pytest.mark.parametrize(("reaching", "chance"), [(MOST, False), (MOST + 1, True)])
def test_as_many_other_orders_may_be_as_regular_as_is_allowed(reaching, chance):
    """One more, and it is chance; no more orders are tried then."""
    heights = [5.0] * reaching + [1.0] * ORDERS
    part = Samples(np.arange(100.0), np.ones(100, bool), 1.0)
    assert by_chance(part, 10.0, 5.0, lambda _: heights.pop(0)) is chance
    assert len(heights) == (ORDERS if chance else reaching)


def test_the_same_record_has_the_same_answer():
    """Two askings shuffle alike."""
    part = Samples(np.arange(300.0), np.ones(300, bool), 1.0)
    seen = [], []
    for one in seen:
        by_chance(part, 20.0, 1.0, lambda other, kept=one: kept.append(other.values.tolist()) or 0.0)
    assert seen[0] == seen[1]
    assert len(seen[0]) == ORDERS
