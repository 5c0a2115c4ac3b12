"""The fixed part of a step, from what changes of the shares did: to an eighth of a mean share."""

import random

import pytest

from paceline.balance.fixed_cost import Changed, FixedCost


def changed(fixed: float, before: int, after: int, sigma: float, chance: random.Random) -> Changed:
    """A worker whose step is as long as ``fixed`` samples more."""
    return Changed(
        before, (fixed + before) * chance.gauss(1.0, sigma), after, (fixed + after) * chance.gauss(1.0, sigma)
    )


@pytest.mark.parametrize("fixed", [0.0, 8.0, 32.0])
def test_many_workers_tell_it_through_noise(fixed: float) -> None:
    chance = random.Random(1)
    cost = FixedCost(64.0)
    cost.update([changed(fixed, 64, chance.choice([24, 40, 100, 160]), 0.05, chance) for _ in range(64)])
    assert cost.samples == pytest.approx(fixed, abs=8.0)


def test_one_worker_that_failed_meanwhile_does_not_decide() -> None:
    chance = random.Random(1)
    cost = FixedCost(64.0)
    failed = Changed(64, 64.0, 128, 500.0)
    cost.update([changed(8.0, 64, after, 0.0, chance) for after in (32, 48, 96, 128)] + [failed])
    assert cost.samples == 8.0


def test_changes_that_tell_nothing_change_nothing() -> None:
    chance = random.Random(1)
    cost = FixedCost(64.0)
    cost.update([])
    assert cost.samples == 0.0
    cost.update([changed(16.0, 64, 128, 0.0, chance), changed(16.0, 64, 32, 0.0, chance)])
    for _ in range(20):
        cost.update([changed(16.0, 64, 65, 0.0, chance)])
    assert cost.samples == 16.0


def test_it_stays_within_what_it_looks_for() -> None:
    """A step that no share changes: as much is fixed as it can believe, one mean share."""
    cost = FixedCost(64.0)
    cost.update([Changed(64, 1.0, 192, 1.0), Changed(64, 1.0, 16, 1.0)])
    assert cost.samples == 64.0
