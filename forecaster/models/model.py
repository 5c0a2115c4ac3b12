"""The one small interface of all models."""

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from ..context import ForecastContext
from ..series import Array


class UnsuitedError(ValueError):
    """A model cannot forecast from this past: why, in a few words."""


@runtime_checkable
class Together(Protocol):
    """A model that answers several contexts sooner together than one by one."""

    def __call__(self, context: ForecastContext) -> Array:
        """The quantiles of one context."""

    def many(self, contexts: Sequence[ForecastContext]) -> list[Array | None]:
        """What it answers to each of ``contexts``; None where it raises ``UnsuitedError`` for that one alone."""


#: From a context to quantiles: horizon x levels, each row ascending.
Model = Callable[[ForecastContext], Array] | Together


def each(model: Model, contexts: Sequence[ForecastContext]) -> list[Array | None]:
    """What ``model`` answers to each of ``contexts``; None where it cannot."""
    if isinstance(model, Together):
        return model.many(contexts)
    return [_or_none(model, context) for context in contexts]


def _or_none(model: Model, context: ForecastContext) -> Array | None:
    try:
        return model(context)
    except UnsuitedError:
        return None
