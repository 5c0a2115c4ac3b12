"""Adaptive intervals: 80 % on average, again soon after a shift, and never without bound."""

import numpy as np
import pytest

from forecaster.conformal import BUCKETS, LARGEST, Widths


def followed(noise: np.ndarray, state: Widths | None = None) -> tuple[np.ndarray, Widths]:
    """Whether each value lay inside an interval of normal noise at the width of that moment."""
    state, inside = state or Widths(), []
    for value in noise:
        half = 1.2816 * float(state.factors(1)[0])
        inside.append(abs(value) <= half)
        state = state.update(1, -half, half, float(value))
    return np.array(inside), state


@pytest.mark.slow
@pytest.mark.parametrize("factor", [4.0, 2.0, 0.25])
def test_after_a_shift_coverage_recovers_within_fifty_steps(factor: float) -> None:
    """Noise that is suddenly louder or calmer: from the 51st value on 80 % are inside again, on average."""
    after = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        _, state = followed(rng.standard_normal(200))
        inside, _ = followed(factor * rng.standard_normal(150), state)
        after.append(inside)
    mean = np.mean(after, axis=0)
    assert abs(mean[:10].mean() - 0.8) > 0.08
    assert 0.75 <= mean[50:].mean() <= 0.85
    assert 0.7 <= mean[50:70].mean() <= 0.9


def test_far_ahead_the_width_does_not_swing() -> None:
    """A level that moves now and then is missed by all forecasts of the moments before, and by none after it."""
    step, rng = 40, np.random.default_rng(7)
    level = np.repeat(rng.standard_normal(40), 50)
    half, state, widths, inside = [1.2816] * step, Widths(), [], []
    for value in level[step:] - level[:-step]:
        published = half.pop(0)
        inside.append(abs(value) <= published)
        state = state.update(step, -published, published, float(value))
        widths.append(float(state.factors(step)[step - 1]))
        half.append(1.2816 * widths[-1])
    assert 0.75 <= np.mean(inside) <= 0.87
    assert max(widths[400:]) < 8.0 * min(widths[400:])


@pytest.mark.long
def test_on_steady_noise_the_width_stays() -> None:
    """Four in five inside, at a width that costs little."""
    inside, state = followed(np.random.default_rng(1).standard_normal(3000))
    assert 0.78 <= inside.mean() <= 0.82
    assert 0.7 < state.factors(1)[0] < 1.4


def test_each_distance_learns_for_itself() -> None:
    """What was wrong one step ahead says nothing of an hour ahead."""
    state = Widths()
    for _ in range(30):
        state = state.update(1, 0.0, 1.0, 9.0)
    factors = state.factors(100)
    assert factors[0] > 2.0
    assert (factors[1:] == 1.0).all()
    assert len(np.unique(state.update(BUCKETS[-1] + 1, 0.0, 1.0, 9.0).factors(100))) == 3


def test_widths_are_bounded() -> None:
    """A thousand values outside make the interval as wide as it may be, no wider; then it comes back."""
    state = Widths()
    for _ in range(1000):
        state = state.update(2, 0.0, 1.0, 9.0)
    assert state.factors(2)[1] == pytest.approx(np.exp(LARGEST))
    for _ in range(1000):
        state = state.update(2, 0.0, 1.0, 0.5)
    assert state.factors(2)[1] == pytest.approx(np.exp(-LARGEST))


def test_what_was_not_measured_changes_nothing() -> None:
    """Nor an interval that was none; a step ahead is at least one."""
    _, state = followed(np.random.default_rng(2).standard_normal(40) * 3.0)
    assert state.update(1, 0.0, 1.0, float("nan")) == state
    assert state.update(1, float("nan"), 1.0, 0.5) == state
    with pytest.raises(ValueError, match="at least 1"):
        state.update(0, 0.0, 1.0, 0.5)
