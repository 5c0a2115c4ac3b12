"""Thresholds that may be set: between what, and why one may not be.

Rule of this file: pure; which thresholds there are is declared beside those who use them.
"""

import math
from collections.abc import Mapping
from typing import Protocol


class Limits(Protocol):
    """From what to what a threshold may be set."""

    @property
    def low(self) -> float:
        """The least."""

    @property
    def high(self) -> float:
        """The most."""


def refusal(changeable: Mapping[str, Limits], name: str, value: float) -> str | None:
    """Why threshold ``name`` cannot be ``value``, in words, or None."""
    if name not in changeable:
        return f"no threshold {name!r}; there are {', '.join(changeable)}"
    low, high = changeable[name].low, changeable[name].high
    if not (math.isfinite(value) and low <= value <= high):
        return f"{name}={value:g}: not between {low:g} and {high:g}"
    return None
