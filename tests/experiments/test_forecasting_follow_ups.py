"""What comes of forecasts: memories that fill up, and intervals that were published a sample at a time."""

import numpy as np
import pytest

from experiments.forecasting import day_ahead, full, published
from experiments.forecasting.data import EvaluationSeries
from forecaster.models.registry import registry

MODELS = registry(None)
NOISE = np.random.default_rng(1).random(400)


def test_only_moments_at_which_a_memory_is_not_full_are_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is told by what came within the hour: a leak that is full at minute 200, and a memory that never is."""
    monkeypatch.setattr(full, "MOMENTS", 3)
    leak = np.minimum(np.arange(300) / 200.0, 1.0)
    asked = list(full.asked(EvaluationSeries("leak", leak, 60.0), 1.0, MODELS))
    assert len(asked) == 3
    assert all(one.came_s is None or 0.0 < one.came_s <= 3600.0 for one in asked)
    assert [one.probability > 0.5 for one in asked] == [one.came_s is not None for one in asked]
    steady = list(full.asked(EvaluationSeries("steady", 0.5 + 0.01 * NOISE, 60.0), 1.0, MODELS))
    assert [(one.probability < 0.05, one.came_s) for one in steady] == [(True, None)] * 3
    assert list(full.asked(EvaluationSeries("full", np.ones(300), 60.0), 1.0, MODELS)) == []


@pytest.mark.parametrize("kind", ["leak", "jumps", "warms up", "steady"])
def test_made_up_memories_stay_within_their_size(kind: str) -> None:
    """And what warms up, or is steady, is never full."""
    runs = [full.made_up(kind, np.random.default_rng(seed)) for seed in range(20)]
    assert all(0.0 <= run.min() <= run.max() <= 1.0 for run in runs)
    assert any(run.max() == 1.0 for run in runs) == (kind in ("leak", "jumps"))


@pytest.mark.parametrize(("part", "first"), [("dev", 100), ("held-out", 200)])
def test_a_series_is_followed_in_the_half_that_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, part: published.Part, first: int
) -> None:
    """Each value that came is scored once, and no gap is."""
    monkeypatch.setattr(published, "SAMPLES", 30)
    values = NOISE.copy()
    values[first + 10 : first + 15] = np.nan
    scores = published.followed(EvaluationSeries("noise", values, 60.0, 0.0, 1.0), part, MODELS)
    assert {one.steps: one.values for one in scores}[1] == 30 - 1 - 5 - 1
    assert all(0.0 <= one.inside_80_ratio <= 1.0 for one in scores)


def test_quarter_hours_are_means_of_what_was_measured() -> None:
    """The newest value is the last of one; of a quarter hour without any there is none."""
    values = np.array([9.0, 1.0, 2.0, 3.0, 4.0, np.nan, 6.0, np.nan, np.nan, np.nan])
    found = day_ahead.quarter_hours(EvaluationSeries("cpu", values, 300.0))
    np.testing.assert_array_equal(found, [2.0, 5.0, np.nan])
