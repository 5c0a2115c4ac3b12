"""What is known of all ranks: what they have in common changes the seconds that are told, and no share."""

import statistics
from random import Random

import pytest

from paceline.balance.measured import Measured

SHARES = [10, 20, 30, 40]
SPEEDS = [4.0, 2.0, 4.0 / 3, 1.0]


def fed(steps: list[float]) -> Measured:
    """After steps that were so many times as long as usual for all ranks."""
    measured = Measured(4, 25.0, stale=8)
    for factor in steps:
        measured.update(SHARES, [factor * share * speed for share, speed in zip(SHARES, SPEEDS, strict=True)])
    return measured


def seconds(measured: Measured) -> float:
    """Of a step, as told."""
    levels = measured.levels()
    assert None not in levels
    return max(
        level * (measured.fixed + share) for level, share in zip(levels, SHARES, strict=True) if level is not None
    )


def parts(measured: Measured) -> list[float]:
    """What each is of the sum of all seconds a sample."""
    levels = [level for level in measured.levels() if level is not None]
    return [level / sum(levels) for level in levels]


def test_one_step_in_which_all_stood_still_is_soon_forgotten() -> None:
    """For an hour, as where the machine slept: the seconds told are right again within a few dozen steps."""
    calm, woken = fed([1.0] * 100), fed([1.0] * 40 + [3600.0] + [1.0] * 59)
    assert seconds(woken) == pytest.approx(seconds(calm), rel=0.01)
    assert parts(woken) == pytest.approx(parts(calm), rel=0.01)


def test_what_lasts_is_followed() -> None:
    """All ranks eight times slower for good, as by a cap of their power."""
    calm, slowed = fed([1.0] * 200), fed([1.0] * 40 + [8.0] * 160)
    assert seconds(slowed) == pytest.approx(8 * seconds(calm), rel=0.01)
    assert parts(slowed) == pytest.approx(parts(calm), rel=0.01)


def test_a_snapshot_of_before_has_no_unit() -> None:
    """What it tells of is seconds then, and goes on."""
    measured, restored = fed([1.0] * 40), Measured(4, 25.0, stale=8)
    state = measured.snapshot()
    del state["unit"]
    restored.restore(state)
    assert restored.levels() == measured.levels()


def test_of_two_ranks_the_one_that_slows_down_is_known_soon() -> None:
    """Amid noise, too: the middle of two is no sign of what they have in common."""
    errors = []
    for seed in range(60):
        random, measured = Random(seed), Measured(2, 25.0, stale=8)
        for step in range(65):
            slower = 1.5 if step >= 40 else 1.0
            noisy = [100 * factor * max(0.2, random.gauss(1, 0.12)) for factor in (slower, 1.0)]
            measured.update([100, 100], noisy)
            first, second = measured.levels()
            assert first is not None
            assert second is not None
            errors += [abs(first / second / slower - 1)] if step >= 45 else []
    assert statistics.mean(errors) < 0.05
