"""The contest's formulas: interval scores, bootstrap intervals of differences, and what is learned without a source."""

from pathlib import Path

import numpy as np
import pytest

from experiments.forecasting import evidence
from experiments.forecasting.contest import ASKED, Tally, ratios, scale_of, span
from experiments.forecasting.data import Case, EvaluationSeries
from experiments.forecasting.report import difference


def case(actual: list[float], past: list[float], key: str = "a/x") -> Case:
    series = EvaluationSeries(key, np.array([*past, *actual]), 60.0)
    return Case(series, np.array(past), np.array(actual))


def tally(losses: list[float], clusters: list[str]) -> Tally:
    return Tally(losses=losses, clusters=clusters)


def test_an_interval_score_is_width_and_what_lay_outside() -> None:
    """Two wide, and three outside at ten for one."""
    assert span(np.array([0.0]), np.array([0.0]), np.array([2.0]), 0.2) == 2.0
    assert span(np.array([5.0]), np.array([0.0]), np.array([2.0]), 0.2) == 32.0


def test_a_tally_counts_what_is_inside_by_thirds() -> None:
    """What was not measured counts nowhere."""
    one = Tally()
    quantiles = np.tile(np.linspace(-1.0, 1.0, len(ASKED)), (6, 1))
    one.append(case([0.0, 0.0, 5.0, 0.0, np.nan, 5.0], [0.0, 1.0]), quantiles, 1.0, 0.0)
    assert one.inside == [pytest.approx(3 / 5)]
    assert one.thirds == [pytest.approx((1.0, 0.5, 0.0))]


def test_a_difference_that_is_none_is_told_as_none() -> None:
    """The same losses: nothing between them, however often it is drawn; twice as much: always twice as much."""
    losses, clusters = [1.0, 2.0, 3.0, 4.0, 5.0], ["a", "b", "c", "d", "e"]
    both = {"one": tally(losses, clusters), "two": tally([2.0 * loss for loss in losses], clusters)}
    assert (ratios(both, "one", "one") == 1.0).all()
    np.testing.assert_allclose(ratios(both, "two", "one"), 2.0)
    assert difference(ratios(both, "two", "one")) == "+100 % (+100 to +100)"


def test_cases_of_one_series_are_drawn_together() -> None:
    """Ten times the same series tells no more than once: the interval is as wide as with one case each."""
    rng = np.random.default_rng(0)
    losses = rng.uniform(0.5, 2.0, 8)
    few = {"a": tally(list(losses), list("abcdefgh")), "b": tally([1.0] * 8, list("abcdefgh"))}
    many = {"a": tally(list(np.repeat(losses, 10)), [str(one) for one in np.repeat(list("abcdefgh"), 10)])}
    many["b"] = tally([1.0] * 80, many["a"].clusters)
    assert np.std(ratios(many, "a", "b")) == pytest.approx(np.std(ratios(few, "a", "b")), rel=0.15)


def test_a_past_that_stood_still_has_a_scale() -> None:
    """Or one case would weigh more than all others."""
    assert scale_of(case([1.0, 2.0], [0.0] * 80)) == pytest.approx(0.02)


def test_without_networks_one_line_says_how_to_make_them(tmp_path: Path) -> None:
    """The gate never learns from a network that has seen its source."""
    refusal = evidence.missing(tmp_path)
    assert refusal is not None
    assert "--leave-out" in refusal
    assert all(source in refusal for source in evidence.SOURCES)
