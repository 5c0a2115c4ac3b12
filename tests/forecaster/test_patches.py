"""The pretrained model's inputs and answers, without PyTorch: what it is shown of a series, and what it refuses."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forecaster.context import ForecastContext
from forecaster.models import features, patches
from forecaster.models.features import STEP
from forecaster.models.model import UnsuitedError
from forecaster.models.network import FARTHEST, LEAST
from forecaster.models.patches import ABOUT, PATCH, RESOLUTIONS, SAMPLES, TOKENS
from forecaster.series import Series

RNG = np.random.default_rng(8)
LEVELS = np.arange(1, 10) / 10
WIDTH = 8


def table(rng: np.random.Generator | None = None) -> dict[str, Any]:
    """Small weights of one layer each, as a fit would write them."""
    rng = rng or np.random.default_rng(1)
    shapes = {"patch": (2 * PATCH, WIDTH), "about": (ABOUT, WIDTH), "question": (STEP, WIDTH), "out": (WIDTH, 9)}
    for part in ("encoder.0", "decoder.0"):
        shapes |= {f"{part}.{name}": (WIDTH, WIDTH) for name in ("asking", "known", "held", "mixed")}
        shapes |= {f"{part}.wide": (WIDTH, 2 * WIDTH), f"{part}.narrow": (2 * WIDTH, WIDTH)}
    named: dict[str, Any] = {}
    for name, shape in shapes.items():
        named[f"{name}.weight"] = rng.standard_normal(shape) / np.sqrt(shape[0])
        named[f"{name}.bias"] = 0.1 * rng.standard_normal(shape[1])
    for name in ("encoder.0.before", "encoder.0.after", "decoder.0.before", "decoder.0.after", "encoded", "asked"):
        named |= {f"{name}.weight": np.ones(WIDTH), f"{name}.bias": np.zeros(WIDTH)}
    return named | {"place": rng.standard_normal((TOKENS, WIDTH)), "version": np.array(1), "card": np.array("{}")}


WEIGHTS = patches.unpacked(table())


def asked(values: np.ndarray, horizon: int = 12, **about: Any) -> np.ndarray:
    """The small model's quantiles for a series."""
    series = Series.of(values, 60.0, **about)
    return patches.Pretrained(WEIGHTS)(ForecastContext(series, horizon, LEVELS))


def test_the_newest_samples_are_seen_one_by_one_and_older_ones_as_means() -> None:
    """In patches, the newest first, each in the order of time."""
    values = np.arange(float(SAMPLES))
    seen = np.sinh(patches.patches(values, 0.0, 1.0))
    assert seen.shape == (TOKENS, PATCH)
    np.testing.assert_allclose(seen[0], values[-PATCH:])
    np.testing.assert_allclose(seen[1], values[-2 * PATCH : -PATCH])
    first = RESOLUTIONS[0][0]
    older = np.arcsinh(values[: -first * PATCH])
    np.testing.assert_allclose(patches.patches(values, 0.0, 1.0)[first, -1], older[-4:].mean())
    np.testing.assert_allclose(patches.patches(values, 0.0, 1.0)[-1, 0], np.arcsinh(values[:16]).mean())


def test_what_was_not_measured_is_not_seen() -> None:
    """Before the first sample and in gaps there is nothing, not zero; a mean is one of what was measured."""
    values = RNG.standard_normal(100)
    values[-1] = np.nan
    seen = patches.patches(values, 0.0, 1.0)
    assert np.isnan(seen[0, -1])
    assert np.isnan(seen[-1]).all()
    assert np.isfinite(seen).sum() == 99
    gapped = np.concatenate([[np.nan, 2.0, np.nan, 4.0], np.zeros(RESOLUTIONS[0][0] * PATCH)])
    coarse = patches.patches(gapped, 0.0, 1.0)[RESOLUTIONS[0][0], -1]
    np.testing.assert_allclose(coarse, (np.arcsinh(2.0) + np.arcsinh(4.0)) / 2.0)


@pytest.mark.parametrize(("factor", "shift"), [(1e-6, 0.0), (1e9, 0.0), (250.0, -3e4)])
def test_the_unit_of_a_series_changes_nothing(factor: float, shift: float) -> None:
    """The answer for watts is a thousand times that for kilowatts; nor does it matter where zero is."""
    values = 5.0 + RNG.standard_normal(300)
    row, centre, scale = patches.past_row(Series.of(values, 60.0, 24))
    other, _, _ = patches.past_row(Series.of(shift + factor * values, 60.0, 24))
    np.testing.assert_allclose(other[: TOKENS * PATCH], row[: TOKENS * PATCH], rtol=1e-5, atol=1e-5, equal_nan=True)
    assert centre == pytest.approx(5.0, abs=0.5)
    assert 0.5 < scale < 2.0
    if not shift:
        np.testing.assert_allclose(asked(factor * values), factor * asked(values), rtol=1e-3)


@pytest.mark.parametrize(
    "values",
    [
        np.zeros(500),
        np.concatenate([np.zeros(2000), [1e9]]),
        np.concatenate([RNG.standard_normal(600), np.full(500, np.nan), [0.0]]),
        1e12 + RNG.standard_normal(400),
        1e-12 * RNG.standard_normal(400),
        np.where(np.arange(400) % 2 == 0, np.nan, 7.0),
        RNG.standard_normal(5000),
    ],
    ids=["zeros", "one burst", "hour of gap", "far from zero", "tiny", "every other", "longer than it sees"],
)
def test_every_series_has_finite_ascending_quantiles(values: np.ndarray) -> None:
    """Whatever its size, its gaps and its length."""
    made = asked(values)
    assert made.shape == (12, 9)
    assert np.isfinite(made).all()
    assert (np.diff(made, axis=1) >= 0.0).all()


def test_a_step_beyond_the_farthest_has_the_answer_of_the_farthest() -> None:
    """It was trained no farther ahead."""
    made = asked(RNG.standard_normal(200), FARTHEST + 20)
    assert made.shape == (FARTHEST + 20, 9)
    np.testing.assert_array_equal(made[FARTHEST:], np.repeat(made[FARTHEST - 1 : FARTHEST], 20, axis=0))


def contexts() -> list[ForecastContext]:
    """Short and long, with gaps, a season and a range, and of several horizons."""
    gapped = RNG.standard_normal(400)
    gapped[100:360] = np.nan
    daily = np.tile(RNG.random(48), 9)
    made = [
        Series.of(RNG.random(LEAST), 60.0),
        Series.of(RNG.random(700), 60.0, low=0.0, high=1.0),
        Series.of(RNG.random(701), 60.0, low=0.0, high=1.0),
        Series.of(gapped, 2.0),
        Series.of(daily, 1800.0, 48),
        Series.of(daily[:40], 1800.0, 48),
    ]
    return [ForecastContext(series, horizon, LEVELS) for series in made for horizon in (1, 60, FARTHEST + 5)]


def test_together_each_gets_the_answer_that_it_gets_alone() -> None:
    """In its place, however unlike they are."""
    model, asked_together = patches.Pretrained(WEIGHTS), contexts()
    for context, made in zip(asked_together, model.many(asked_together), strict=True):
        assert made is not None
        assert made.shape == (context.horizon, len(LEVELS))
        np.testing.assert_allclose(made, model(context), rtol=1e-4, atol=1e-5)
    assert model.many([]) == []
    short = ForecastContext(Series.of(np.arange(10.0), 60.0), 5, LEVELS)
    assert [made is None for made in model.many([asked_together[0], short, asked_together[1]])] == [False, True, False]


def test_few_steps_are_asked_where_no_season_speaks_and_the_others_lie_between_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As the weights of the package answer, within a fiftieth of the interval's width."""
    model, long = patches.Pretrained(patches.shipped()), [one for one in contexts() if one.horizon > 1]
    few = model.many(long)
    monkeypatch.setattr(features, "ASKED", 10**6)
    for context, some, every in zip(long, few, model.many(long), strict=True):
        assert some is not None
        assert every is not None
        width = (every[:, -1] - every[:, 0]).mean()
        assert np.abs(some - every).mean() < width / 50, context.series


def test_without_weights_or_history_there_is_no_answer() -> None:
    """A reason instead."""
    context = ForecastContext(Series.of(np.arange(10.0), 60.0), 5, LEVELS)
    with pytest.raises(UnsuitedError, match="no weights"):
        patches.Pretrained(None)(context)
    with pytest.raises(UnsuitedError, match="24 samples"):
        patches.Pretrained(WEIGHTS)(context)


def saved(path: Path, **changes: Any) -> Path:
    """A file of weights with some of them changed, or missing where None."""
    with path.open("wb") as file:
        np.savez(file, **{name: one for name, one in (table() | changes).items() if one is not None})
    return path


def test_weights_of_a_file_are_those_that_were_written(tmp_path: Path) -> None:
    """Also as half precision, as they are shipped."""
    half = {name: one.astype(np.float16) for name, one in table().items() if name not in ("version", "card")}
    weights = patches.read(saved(tmp_path / "w.npz", **half))
    assert weights.layers == weights.questions == 1
    np.testing.assert_allclose(weights.table["out.weight"], WEIGHTS.table["out.weight"], atol=1e-2)


@pytest.mark.parametrize(
    "change",
    [
        {"version": np.array([1, 1])},
        {"version": np.array(99)},
        {"version": None},
        {"place": None},
        {"place": np.zeros((TOKENS + 1, WIDTH))},
        {"patch.weight": np.array(b"1")},
        {"patch.weight": np.full((2 * PATCH, WIDTH), np.nan)},
        {"encoder.0.mixed.bias": np.full(WIDTH, np.inf)},
        {"encoder.0.known.weight": np.zeros((WIDTH, WIDTH + 1))},
        {"decoder.0.narrow.weight": None},
        {"out.weight": np.zeros((WIDTH, 7)), "out.bias": np.zeros(7)},
    ],
)
def test_weights_that_do_not_fit_are_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    """They would answer NaN, or fail in every forecast; the file is named."""
    with pytest.raises(ValueError, match=r"other\.npz"):
        patches.read(saved(tmp_path / "other.npz", **change))


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 no archive", b"\x00" * 100])
def test_what_is_something_else_is_refused(tmp_path: Path, content: bytes) -> None:
    """By its name."""
    path = tmp_path / "other.npz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"other\.npz"):
        patches.read(path)
