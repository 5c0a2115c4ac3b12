"""Rules that every quick model keeps, on series of every shape."""

import doctest
from types import ModuleType

import numpy as np
import pytest

from forecaster import context as scenes
from forecaster import exceedance, grid, scores, series
from forecaster.context import Scene
from forecaster.models import analog, naive, network, season, trend
from forecaster.models.model import UnsuitedError
from forecaster.models.registry import MEMBERS
from forecaster.series import Past

LEVELS = np.array([0.05, 0.1, 0.5, 0.9, 0.95])
RNG = np.random.default_rng(5)
SHAPES = {
    "constant": np.full(300, 7.0),
    "zeros": np.zeros(300),
    "noise": RNG.standard_normal(300),
    "line": np.arange(300.0),
    "wave": np.sin(np.arange(300) / 24 * 2 * np.pi),
    "on and off": (RNG.random(300) < 0.3) * 80.0,
    "gaps": np.where(RNG.random(300) < 0.4, np.nan, RNG.standard_normal(300)),
    "two samples": np.array([1.0, 2.0]),
    "one sample": np.array([1.0]),
    "long": np.cumsum(RNG.standard_normal(5000)),
}


def scene(values: np.ndarray, horizon: int = 20, season: int = 24) -> Scene:
    return Scene(Past.of(values, 60.0, season), horizon, LEVELS)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", MEMBERS)
class TestEveryModel:
    def test_it_gives_finite_quantiles_or_says_why_not(self, name: str, shape: str) -> None:
        """Horizon x levels, ascending once sorted as the pool does; or a reason."""
        asked = scene(SHAPES[shape])
        try:
            found = MEMBERS[name](asked)
        except UnsuitedError:
            return
        assert found.shape == (20, len(LEVELS))
        assert np.isfinite(found).all()

    def test_it_changes_nothing(self, name: str, shape: str) -> None:
        """The past is only read."""
        values = SHAPES[shape].copy()
        try:
            MEMBERS[name](scene(values))
        except UnsuitedError:
            return
        np.testing.assert_array_equal(values, SHAPES[shape])

    def test_it_does_not_see_what_comes_after(self, name: str, shape: str) -> None:
        """A forecast made at an earlier moment is the same whether or not the rest is known."""
        if len(SHAPES[shape]) < 200:
            return
        whole = Past.of(SHAPES[shape], 60.0, 24)
        cut = whole.until(len(whole) - 50)
        alone = Past.of(cut.values.copy(), 60.0, 24)
        try:
            MEMBERS[name](Scene(whole, 20, LEVELS))  # so that the whole past remembers its filters
            later = MEMBERS[name](Scene(cut, 20, LEVELS))
        except UnsuitedError:
            return
        np.testing.assert_allclose(later, MEMBERS[name](Scene(alone, 20, LEVELS)), rtol=1e-9, atol=1e-9)


def test_a_line_goes_on() -> None:
    """The trend model follows memory that fills up at a steady rate."""
    found = MEMBERS["trend"](scene(np.arange(300.0)))
    np.testing.assert_allclose(found[:, 2], np.arange(300.0, 320.0), atol=1e-6)


def test_a_season_comes_again() -> None:
    """The seasonal naive model repeats the newest season exactly where the series does."""
    values = np.tile(np.arange(24.0), 10)
    found = MEMBERS["seasonal_naive"](scene(values))
    np.testing.assert_allclose(found[:, 2], np.arange(20.0))


def test_the_network_is_shipped() -> None:
    """The package holds weights of the version that it reads."""
    assert MEMBERS["network"](scene(SHAPES["noise"])).shape == (20, len(LEVELS))


@pytest.mark.parametrize("module", [analog, exceedance, grid, naive, network, series, scenes, scores, season, trend])
def test_the_examples_of_formulas_run(module: ModuleType) -> None:
    """What a docstring shows is what comes out."""
    done = doctest.testmod(module)
    assert done.attempted
    assert not done.failed
