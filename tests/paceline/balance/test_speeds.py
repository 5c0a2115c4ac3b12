"""A worker's speed: surer with every value, replaced where it changed, kept where a value was odd."""

import random
import statistics

import pytest

from paceline.balance.speeds import MEMORY, Speed


def fed(values: list[float], noise: float = 0.0) -> tuple[Speed, list[int]]:
    """A speed after ``values``, and at which of them it was replaced."""
    speed = Speed()
    return speed, [place for place, value in enumerate(values) if speed.update(value, noise) is not None]


def test_it_becomes_the_mean() -> None:
    chance = random.Random(1)
    values = [chance.gauss(2.0, 0.1) for _ in range(MEMORY)]
    speed, replaced = fed(values)
    assert not replaced
    assert speed.level == pytest.approx(statistics.fmean(values), rel=0.01)
    assert speed.noise == pytest.approx(0.05, rel=0.35)


def test_a_change_is_taken_over_at_the_second_value() -> None:
    for factor in (3.0, 1 / 3):
        speed, replaced = fed([1.0] * 20 + [factor] * 2)
        assert replaced == [21]
        assert (speed.level, speed.count) == (factor, 2)


def test_one_odd_value_is_not_taken_over() -> None:
    """However odd: it moves the level by what noise could."""
    for odd in (1000.0, 0.001):
        speed, replaced = fed([1.0] * 20 + [odd] + [1.0] * 20)
        assert not replaced
        assert speed.level == pytest.approx(1.0, abs=0.02)


def test_a_small_change_is_taken_over_later() -> None:
    """6 % at 2 % of noise: three standard deviations."""
    chance = random.Random(4)
    values = [chance.gauss(1.0, 0.02) for _ in range(60)] + [chance.gauss(1.06, 0.02) for _ in range(20)]
    speed, replaced = fed(values)
    assert len(replaced) == 1
    assert 61 < replaced[0] < 70
    assert speed.level == pytest.approx(1.06, abs=0.015)


@pytest.mark.long
@pytest.mark.parametrize("sigma", [0.01, 0.05, 0.15])
def test_noise_replaces_it_at_most_once_in_ten_thousand_values(sigma: float) -> None:
    chance = random.Random(9)
    _, replaced = fed([max(chance.gauss(1.0, sigma), 0.05) for _ in range(20_000)], noise=sigma)
    assert len(replaced) <= 2


def test_another_unit_changes_numbers_and_nothing_else() -> None:
    chance = random.Random(2)
    values = [chance.gauss(1.0, 0.05) for _ in range(40)]
    straight, _ = fed(values)
    turned, _ = fed(values[:20])
    before = Speed()
    for value in values[:20]:
        before.update(value, 0.0)
    turned.rescale(8.0)
    before.rescale(1.0)
    for value in values[20:]:
        turned.update(8.0 * value, 0.0)
        before.update(value, 0.0)
    assert before.level is not None
    assert turned.level == 8.0 * before.level
    assert straight.level == pytest.approx(before.level, rel=0.01)


def test_after_doubt_the_next_values_weigh_more() -> None:
    speed, _ = fed([1.0] * 50)
    speed.doubt(2)
    speed.update(1.03, 0.0)
    assert speed.level == pytest.approx(1.01)
