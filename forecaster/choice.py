"""What is decided about a series by its back-test: each member's share, how wide intervals are, and how that did.

Rule of this file: pure. What lost to the seasonal naive forecast in the back-test is not what the ensemble answers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from . import ensemble, gate, traits, zero_inflation
from .backtest import Backtest
from .models.registry import Registry
from .question import ENSEMBLE, Asked
from .series import Array


@dataclass(frozen=True)
class Choice:
    """What a back-test has decided of a series. Losses are in the series' unit; None: it was too short to tell.

    ``shares``: member -> share, before ``naive_share`` of the forecast called ``naive`` is mixed in. ``factor``: how
    much wider intervals are than the members say.
    """

    model: str
    shares: Mapping[str, float]
    naive: str
    season: int
    factor: float = 1.0
    naive_share: float = 0.0
    loss: float | None = None
    naive_loss: float | None = None
    coverage: float | None = None
    moments: int = 0
    steps: int = 0
    notes: tuple[str, ...] = ()

    @property
    def weights(self) -> dict[str, float]:
        """Each member's share in the answer, the largest first."""
        named = {self.naive: 0.0} | dict(self.shares) if self.naive_share else self.shares
        kept = 1.0 - self.naive_share
        mixed = {name: kept * own + self.naive_share * (name == self.naive) for name, own in named.items()}
        return dict(sorted(mixed.items(), key=lambda item: -item[1]))


def choose(asked: Asked, models: Registry, forecasts: Mapping[str, Array], test: Backtest) -> Choice:
    """Each member's share by the back-test, and how far to trust it."""
    naive = naive_of(test)
    naive_loss = test.losses.get(naive)
    weighed = _shares(asked, models, forecasts, test)
    shares = ensemble.with_apart(weighed, test, forecasts) if test.losses else weighed
    question, context = asked.question, asked.context
    choice = Choice(question.model, shares, naive, context.series.season, naive_loss=naive_loss)
    if not test.losses:
        return choice
    made = ensemble.hindcast(test, shares)
    factor = ensemble.width(test, made)
    made = ensemble.widened(made, context.levels, factor)
    loss, share, model, notes = ensemble.loss(test, made), 0.0, question.model, list[str]()
    if loss is not None and naive_loss is not None and loss > naive_loss and naive in forecasts:
        share = ensemble.naive_share(test, made, naive)
        made = ensemble.mixed(made, test.forecasts[naive], share)
        loss = ensemble.loss(test, made)
        notes.append(f"the models lost to {naive} in the back-test; its share of the answer is {share:.0%}")
        model = naive if share == 1.0 else model
    return replace(
        choice, model=model, factor=factor, naive_share=share, loss=loss, coverage=covered(test, made),
        moments=test.moments, steps=test.actual.shape[1], notes=tuple(notes),
    )  # fmt: skip


def _shares(asked: Asked, models: Registry, forecasts: Mapping[str, Array], test: Backtest) -> dict[str, float]:
    """Member -> its share: by the gate, where there is one and it knows the members that were asked."""
    rests = zero_inflation.resting_level(asked.series) is not None
    speaking = ensemble.speaking(forecasts, test.losses, rests)
    usual = ensemble.weights(speaking, test.losses, rests)
    if models.gate is not None and asked.question.model == ENSEMBLE:
        described = traits.traits(asked.series, asked.context.horizon)
        return gate.hedged(gate.shares(models.gate, described, speaking, test.by_moment), usual)
    return usual


def untested(models: Registry) -> Choice:
    """For a series without a back-test: the members that need little history."""
    shares = ensemble.weights([name for name in models.members if name not in ensemble.BASELINES], {})
    return Choice(ENSEMBLE, shares, "naive", 0, notes=("no back-test yet",))


def naive_of(test: Backtest) -> str:
    """The naive forecast that the others are compared with."""
    return "seasonal_naive" if "seasonal_naive" in test.losses else "naive"


def covered(test: Backtest, made: Array | None) -> float | None:
    """The share of the back-test's values inside the 80 % interval."""
    measured = np.isfinite(test.actual)
    if made is None or not measured.any():
        return None
    low, high = (int(np.searchsorted(test.levels, level)) for level in (0.1, 0.9))
    inside = (test.actual >= made[..., low]) & (test.actual <= made[..., high])
    return float(inside[measured].mean())
