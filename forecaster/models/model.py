"""The one small interface of all models."""

from collections.abc import Callable

from ..context import ForecastContext
from ..series import Array

#: From a context to quantiles: horizon x levels, each row ascending.
Model = Callable[[ForecastContext], Array]


class UnsuitedError(ValueError):
    """A model cannot forecast from this past: why, in a few words."""
