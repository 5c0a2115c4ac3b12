"""The gate: how it weighs members, what it refuses to read, and that it never decides alone."""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forecaster import ensemble, gate, server, traits
from forecaster.forecast import forecast
from forecaster.models import network
from forecaster.models.registry import registry
from forecaster.question import ENSEMBLE, Question
from forecaster.series import Series

LEVELS = np.arange(1, 10) / 10
TABLE = json.loads((Path(gate.__file__).parent / gate.WEIGHTS).read_text())
GATE = gate.unpacked(TABLE)
SHAPE = traits.traits(Series.of(np.random.default_rng(0).standard_normal(400), 60.0), 60)


def losses(**changed: float) -> dict[str, np.ndarray]:
    """Six moments at which every member lost 1, but for those named."""
    return {name: np.full(6, changed.get(name, 1.0)) for name in GATE.names}


def test_the_shipped_gate_knows_the_members() -> None:
    """It was fitted with all members of the ensemble, and says on what."""
    assert set(registry(None).members) - {*ensemble.BASELINES, *ensemble.APART} == set(GATE.names)
    assert "made-up" in TABLE["card"]["learned_from"]


def test_shares_add_up() -> None:
    """Of those that can forecast, and of no other."""
    shares = gate.shares(GATE, SHAPE, ("changes", "last_60", "network"), losses())
    assert set(shares) == {"changes", "last_60", "network"}
    assert sum(shares.values()) == pytest.approx(1.0)


@pytest.mark.parametrize("name", GATE.names)
def test_a_member_that_did_badly_counts_less(name: str) -> None:
    """Ten times the loss in the back-test costs every member most of its share."""
    before = gate.shares(GATE, SHAPE, GATE.names, losses())
    after = gate.shares(GATE, SHAPE, GATE.names, losses(**{name: 10.0}))
    assert after[name] < 0.5 * before[name]


def test_a_hopeless_member_gets_no_share() -> None:
    """Not even a millionth: a level that the best members reach exactly, as memory that is full, is reached."""
    shares = gate.shares(GATE, SHAPE, GATE.names, losses(trend=0.0, smoothing=0.0))
    assert set(shares) == {"trend", "smoothing"}
    hopeless = gate.shares(GATE, SHAPE, GATE.names, losses(last_30=60.0))
    assert set(hopeless) == set(GATE.names) - {"last_30"}


def test_newer_moments_count_more() -> None:
    """Of two members with the same mean the one that has become better counts more."""
    rows = losses()
    rows["last_60"], rows["last_120"] = np.linspace(0.5, 1.5, 6), np.linspace(1.5, 0.5, 6)
    swapped = rows | {"last_60": rows["last_120"], "last_120": rows["last_60"]}
    better, worse = (gate.shares(GATE, SHAPE, GATE.names, one)["last_60"] for one in (rows, swapped))
    assert better > worse


def test_the_service_answers_with_it() -> None:
    """Without an option."""
    held = server._models(argparse.Namespace(network=None, pretrained=None, chronos=None)).gate
    assert held is not None
    assert held.names == GATE.names


def test_without_a_back_test_there_is_an_answer() -> None:
    """No losses at all, or those of a member that it does not know."""
    assert sum(gate.shares(GATE, SHAPE, GATE.names, {}).values()) == pytest.approx(1.0)
    assert gate.shares(GATE, SHAPE, ("newcomer",), {"newcomer": np.ones(6)}) == {}
    assert gate.hedged({}, {"newcomer": 1.0}) == {"newcomer": 1.0}


@pytest.mark.parametrize("value", [0.0, 1e-300, 1e300, np.nan])
def test_no_loss_breaks_it(value: float) -> None:
    """Perfect, hopeless or unmeasured."""
    shares = gate.shares(GATE, SHAPE, GATE.names, losses(changes=value, trend=value))
    assert np.isfinite(list(shares.values())).all()
    assert sum(shares.values()) == pytest.approx(1.0)


def test_it_is_never_alone() -> None:
    """A part of the shares is left to losses and prior: a new kind of series does not depend on the gate."""
    values = np.random.default_rng(1).standard_normal(300)
    question = Question(values, 60.0, 12, LEVELS, model=ENSEMBLE)
    with_gate = forecast(question, registry(network.shipped(), gate=GATE))
    without = forecast(question, registry(network.shipped()))
    assert with_gate.weights != without.weights
    assert all(with_gate.weights.get(name, 0.0) >= 0.99 * gate.HEDGE * share for name, share in without.weights.items())


@pytest.mark.parametrize(
    "change",
    [
        {"version": 99},
        {"traits": ["other"]},
        {"members": ["naive"]},
        {"centre": [0.0]},
        {"spread": [0.0] * len(traits.NAMES)},
        {"fade": [float("nan")] * len(TABLE["fade"])},
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, Any]) -> None:
    """Another version's numbers, or numbers that are none."""
    with pytest.raises(ValueError, match=r"gate|unpack"):
        gate.unpacked(TABLE | change)


@pytest.mark.parametrize("content", ["", "{}", "[1, 2]", '{"version": 1}', "\x00"])
def test_a_file_that_is_something_else_is_named(tmp_path: Path, content: str) -> None:
    """One line says which file."""
    path = tmp_path / "other.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"other\.json"):
        gate.read(path)


@pytest.mark.parametrize(
    "values",
    [
        np.full(300, 7.0),
        np.zeros(2),
        np.array([1.0]),
        np.where(np.arange(300) % 2, 1.0, -1.0),
        np.where(np.random.default_rng(2).random(400) < 0.5, np.nan, 1.0),
        np.exp(np.arange(300.0)),
        1e-12 * np.arange(50.0),
    ],
)
def test_traits_are_numbers(values: np.ndarray) -> None:
    """Whatever the series: finite, bounded, and one for each name."""
    for horizon in (1, 60, 86_400):
        described = traits.traits(Series.of(values, 60.0, 24), horizon)
        assert described.shape == (len(traits.NAMES),)
        assert np.isfinite(described).all()
        assert np.abs(described).max() <= traits.LARGEST


def test_traits_know_no_unit() -> None:
    """A series in bytes has the traits of the same series in GiB, whatever it is offset by."""
    values = np.random.default_rng(3).standard_normal(400)
    one = traits.traits(Series.of(values, 60.0), 30)
    np.testing.assert_allclose(traits.traits(Series.of(values * 2.0**30, 60.0), 30), one, atol=1e-6)
    np.testing.assert_allclose(traits.traits(Series.of(values + 64.0, 60.0), 30), one, atol=1e-4)
