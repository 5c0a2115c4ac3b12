"""Every model by its name: one row a model, and the one place where models are given their weights.

Rule of this file: nothing is kept here, and no model's package is imported before that model is asked. The service
builds one ``Registry`` and hands it to whoever forecasts, worker processes included.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from .. import gate as gates
from ..gate import Gate
from . import (
    analog,
    calendar,
    foundation,
    fracast,
    naive,
    network,
    patches,
    profile,
    prophet,
    sample,
    smoothing,
    statespace,
    trend,
)
from .model import Model


@dataclass(frozen=True)
class Registry:
    """Name -> model.

    Attributes:
        members: quick enough for the request path: the ensemble's, the two baselines that it is compared with
            (``ensemble.BASELINES``), and those that are weighed apart (``ensemble.APART``). The first can
            always forecast.
        named: those that take longer than a request should, or need a package that may not be installed: asked for by
            name. Their packages are imported when they are first asked.
        gate: it weighs the ensemble's members; None: their losses and a prior alone do.
    """

    members: Mapping[str, Model]
    named: Mapping[str, Model]
    gate: Gate | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Of all models."""
        return (*self.members, *self.named)

    def quick(self) -> "Registry":
        """The members alone: what a worker process is sent."""
        return replace(self, named={})


def registry(
    weights: network.Weights | None,
    pipeline: foundation.Pipeline | None = None,
    gate: Gate | None = None,
    pretrained: patches.Weights | None = None,
) -> Registry:
    """All models; the network answers with ``weights``, the pretrained model with ``pretrained``, chronos with
    ``pipeline``; without theirs they are unsuited.

    Without a ``gate`` the ensemble's members are weighed by the back-test alone.
    """
    return Registry(
        members={
            "naive": naive.naive,
            "seasonal_naive": naive.seasonal_naive,
            "changes": naive.changes,
            "seasonal_changes": naive.seasonal_changes,
            "last_30": sample.last_30,
            "last_60": sample.last_60,
            "last_120": sample.last_120,
            "last_240": sample.last_240,
            "smoothing": smoothing.smoothing,
            "trend": trend.trend,
            "profile": profile.profile,
            "analog": analog.analog,
            "analog_change": analog.analog_change,
            "network": partial(network.network, weights),
            "pretrained": patches.Pretrained(pretrained),
            "calendar": calendar.calendar,
        },
        named={
            "statespace": statespace.statespace,
            "prophet": prophet.prophet,
            "fracast": fracast.Fracast(),
            "chronos": partial(foundation.chronos, pipeline),
        },
        gate=gate,
    )


def shipped() -> Registry:
    """All models with the weights of this package."""
    return registry(network.shipped(), None, gates.shipped(), patches.shipped())


#: The names that a question may hold; they are the same whatever the weights.
NAMES = registry(None).names
