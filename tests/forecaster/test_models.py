"""Rules that every member of the ensemble keeps, on series of every shape."""

import contextlib
import doctest
import subprocess
import sys
from types import ModuleType

import numpy as np
import pytest

from forecaster import context as contexts
from forecaster import exceedance, grid, scores, series
from forecaster.context import ForecastContext
from forecaster.models import analog, naive, network, season, smoothing, trend
from forecaster.models.model import UnsuitedError
from forecaster.models.registry import NAMES, registry, shipped
from forecaster.series import Series

#: A node's memory over 34 minutes, GiB: it fell, and has stood at 1.5 for a while.
FELL = np.concatenate([np.linspace(4.5, 1.5, 26), np.full(8, 1.5)])
LEVELS = np.array([0.05, 0.1, 0.5, 0.9, 0.95])
MEMBERS = shipped().members
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


def context_of(values: np.ndarray, horizon: int = 20, season: int = 24) -> ForecastContext:
    return ForecastContext(Series.of(values, 60.0, season), horizon, LEVELS)


@pytest.mark.parametrize("name", MEMBERS)
class TestEveryModel:
    """Each rule is asked of one model, on all shapes; a message names the shape."""

    def test_it_gives_finite_quantiles_or_says_why_not(self, name: str) -> None:
        """Horizon x levels, ascending once sorted as the ensemble does; or a reason."""
        for shape, values in SHAPES.items():
            with contextlib.suppress(UnsuitedError):
                quantiles = MEMBERS[name](context_of(values))
                assert quantiles.shape == (20, len(LEVELS)), shape
                assert np.isfinite(quantiles).all(), shape

    def test_it_changes_nothing(self, name: str) -> None:
        """The series is only read, also where there is no forecast of it."""
        for shape, whole in SHAPES.items():
            values = whole.copy()
            with contextlib.suppress(UnsuitedError):
                MEMBERS[name](context_of(values))
            np.testing.assert_array_equal(values, whole, err_msg=shape)

    @pytest.mark.long
    def test_it_does_not_see_what_comes_after(self, name: str) -> None:
        """A forecast made at an earlier moment is the same whether or not the rest is known."""
        for shape, values in SHAPES.items():
            if len(values) < 200:
                continue
            whole = Series.of(values, 60.0, 24)
            cut = whole.until(len(whole) - 50)
            alone = Series.of(cut.values.copy(), 60.0, 24)
            try:
                MEMBERS[name](ForecastContext(whole, 20, LEVELS))  # so that the whole series keeps what it filtered
                later = MEMBERS[name](ForecastContext(cut, 20, LEVELS))
            except UnsuitedError:
                continue
            again = MEMBERS[name](ForecastContext(alone, 20, LEVELS))
            np.testing.assert_allclose(later, again, rtol=1e-9, atol=1e-9, err_msg=shape)


def test_names_are_the_same_whatever_the_weights() -> None:
    """A question is checked by names that are constant; what a worker process is sent has the members alone."""
    models = shipped()
    assert models.names == NAMES
    assert models.quick().names == tuple(models.members)
    assert not set(models.members) & set(models.named)


@pytest.mark.parametrize(("name", "reason"), [("network", "no weights"), ("chronos", "--chronos")])
def test_a_model_without_its_weights_says_so(name: str, reason: str) -> None:
    """None is another word for weights that nobody gave."""
    models = registry(None)
    with pytest.raises(UnsuitedError, match=reason):
        {**models.members, **models.named}[name](context_of(SHAPES["noise"]))


def test_a_line_goes_on() -> None:
    """The trend model follows memory that fills up at a steady rate."""
    quantiles = MEMBERS["trend"](context_of(np.arange(300.0)))
    np.testing.assert_allclose(quantiles[:, 2], np.arange(300.0, 320.0), atol=1e-6)


def test_a_season_comes_again() -> None:
    """The seasonal naive model repeats the newest season exactly where the series does."""
    values = np.tile(np.arange(24.0), 10)
    quantiles = MEMBERS["seasonal_naive"](context_of(values))
    np.testing.assert_allclose(quantiles[:, 2], np.arange(20.0))


@pytest.mark.parametrize("values", [FELL, 10.0 - FELL, SHAPES["noise"], SHAPES["gaps"], SHAPES["one sample"]])
def test_naive_is_the_last_value_whatever_came_before(values: np.ndarray) -> None:
    """Its median is that value at every step, to the bit; past changes make the interval wide, up and down alike."""
    quantiles = MEMBERS["naive"](context_of(values, 60, 0))
    last = values[np.isfinite(values)][-1]
    assert quantiles[:, 2].tolist() == [last] * 60
    np.testing.assert_allclose(quantiles[:, -1] - last, last - quantiles[:, 0], atol=1e-9)


def test_seasonal_naive_is_the_last_season_whatever_came_before() -> None:
    """Seasons that grow by 3: the newest comes again, as it was; what adds the growth is called by another name."""
    values = np.tile(np.arange(24.0), 10) + np.repeat(3.0 * np.arange(10), 24)
    context = context_of(values, 48)
    assert MEMBERS["seasonal_naive"](context)[:, 2].tolist() == [*values[-24:], *values[-24:]]
    np.testing.assert_allclose(MEMBERS["seasonal_changes"](context)[:24, 2], values[-24:] + 3.0)


def test_changes_go_on() -> None:
    """A history that fell falls on: no baseline, a member of the ensemble."""
    assert MEMBERS["changes"](context_of(FELL, 30, 0))[-1, 2] < FELL[-1] - 0.5


@pytest.mark.parametrize("samples", [1, 2, 63, 64, 65, 1000])
def test_a_level_is_smoothed_sample_by_sample(samples: int) -> None:
    """Whatever blocks it is worked out in, and how far from zero the series is."""
    for values in (RNG.standard_normal(samples), 1e300 * RNG.standard_normal(samples), 1e-300 * np.ones(samples)):
        for rate in smoothing.RATES:
            level, levels = values[0], []
            for value in values:
                level = (1.0 - rate) * level + rate * value
                levels.append(level)
            np.testing.assert_allclose(smoothing.level(values, rate), levels, rtol=1e-9, atol=1e-12 * abs(values).max())


@pytest.mark.slow
@pytest.mark.landing
def test_a_service_that_is_asked_for_nothing_has_no_model_s_package_in_memory() -> None:
    """pandas alone would make an idle forecaster twice as large."""
    script = "import sys, forecaster.server as _; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "numpy" in done.stdout.split()
    assert not {"pandas", "prophet", "pyarrow", "scipy", "sklearn", "statsmodels", "torch"} & set(done.stdout.split())


def test_the_network_is_shipped() -> None:
    """The package holds weights of the version that it reads."""
    assert MEMBERS["network"](context_of(SHAPES["noise"])).shape == (20, len(LEVELS))


@pytest.mark.parametrize(
    "module", [analog, exceedance, grid, naive, network, series, contexts, scores, season, smoothing, trend]
)
def test_the_examples_of_formulas_run(module: ModuleType) -> None:
    """What a docstring shows is what comes out."""
    done = doctest.testmod(module)
    assert done.attempted
    assert not done.failed
