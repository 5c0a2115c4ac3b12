"""The gate as it is fitted with PyTorch and as the service computes it: the same shares, from the same numbers."""

from dataclasses import replace

import numpy as np
import pytest

from experiments.forecasting import evidence
from experiments.forecasting.evidence import KNOTS, MADE_UP, MEMBERS, Evidence
from forecaster import backtest, gate, traits
from forecaster.series import Series

CASES = 40
RNG = np.random.default_rng(5)


def found() -> Evidence:
    """Made-up cases: the better a member's losses were, the closer it is now."""
    losses = RNG.uniform(0.2, 3.0, (CASES, backtest.MOMENTS, len(MEMBERS)))
    spread = np.linspace(-1.0, 1.0, 9)
    made = losses.mean(axis=1)[:, :, None, None] * (1.0 + spread) + np.zeros((1, 1, KNOTS, 1))
    series = [Series.of(RNG.standard_normal(120), 60.0) for _ in range(CASES)]
    return Evidence(
        source=np.array(["pods", MADE_UP] * (CASES // 2)),
        group=np.array(["a", "b"] * (CASES // 2)),
        traits=np.array([traits.traits(one, 12) for one in series]),
        made=made.astype(np.float32),
        actual=np.zeros((CASES, KNOTS)),
        tried=np.zeros((CASES, backtest.MOMENTS, len(MEMBERS), KNOTS, 9), np.float32),
        tried_actual=np.zeros((CASES, backtest.MOMENTS, KNOTS)),
        losses=losses,
        base=np.ones(CASES),
        season=np.zeros(CASES),
    )


@pytest.mark.slow
@pytest.mark.xdist_group("pytorch")
def test_the_service_weighs_as_the_fit_did() -> None:
    """Each case's shares, and after a fit the better members have more than before."""
    pytest.importorskip("torch")
    from experiments.forecasting import gate as fitting

    cases = found()
    models = [fitting.fit(cases, seed) for seed in range(2)]
    table = fitting.Table(cases)
    fitted = sum(model(table.traits, table.losses, table.able).detach().numpy() for model in models) / 2.0
    served = gate.unpacked(fitting.packed(models, ["pods"], CASES))
    for row in range(CASES):
        losses = {name: cases.losses[row, :, at] for at, name in enumerate(MEMBERS)}
        shares = gate.shares(served, cases.traits[row], MEMBERS, losses)
        np.testing.assert_allclose([shares.get(name, 0.0) for name in MEMBERS], fitted[row], atol=5e-3)
    with_gate = evidence.relative(cases, evidence.with_gate(cases, served))
    assert with_gate < evidence.relative(cases, evidence.without_gate(cases)) * 1.05


def test_a_member_that_was_not_tried_or_cannot_forecast_is_left_out() -> None:
    """As in the service: the ensemble of the others answers."""
    cases = found()
    made, losses = cases.made.copy(), cases.losses.copy()
    made[0, 3], losses[1, :, 4] = np.nan, np.nan
    cases = replace(cases, made=made, losses=losses)
    averaged = evidence.without_gate(cases)
    assert np.isfinite(averaged).all()
    only = evidence.part(cases, np.arange(CASES) < 2)
    np.testing.assert_array_equal(evidence.without_gate(only), averaged[:2])
