"""The highest that was ever seen of an owner's GPUs, kept there after its pods are gone.

Rule of this file: pure. Two who know different parts of a past are merged by the higher number; so nothing is lost
over a restart. What an annotation holds may be anybody's text: what is out of bounds was not measured by us.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from .documents import SCHEMA_VERSION, Document, moment, word
from .gpu_minute import Use
from .steady import read

#: What is kept, and the highest that a GPU can say.
BOUNDS = {"utilization_ratio": 1.0, "memory_ratio": 1.0, "memory_bytes": 2.0**44, "power_w": 20_000.0}
#: Decimals that are worth telling.
_DECIMALS = {"utilization_ratio": 2, "memory_ratio": 2, "memory_bytes": 0, "power_w": 0}


class Highest(NamedTuple):
    """A highest value, and when it was seen."""

    value: float
    at: str


Maxima = Mapping[str, Highest]


def of_uses(uses: Iterable[Use], now_s: float) -> dict[str, Highest]:
    """The highest of GPUs in their last minute."""
    highest: dict[str, Highest] = {}
    for use in uses:
        for name in BOUNDS:
            value = getattr(use, name)
            if value is not None:
                rounded = round(min(value.max, BOUNDS[name]), _DECIMALS[name])
                highest = merged(highest, {name: Highest(rounded, moment(now_s))})
    return highest


def merged(held: Maxima, other: Maxima) -> dict[str, Highest]:
    """Of each the higher one, the earlier where they are equal.

    >>> merged({"power_w": Highest(300, "1")}, {"power_w": Highest(300, "2"), "memory_ratio": Highest(0.5, "2")})
    {'power_w': Highest(value=300, at='1'), 'memory_ratio': Highest(value=0.5, at='2')}
    """
    best = dict(held)
    for name, one in other.items():
        if name not in best or one.value > best[name].value:
            best[name] = one
    return best


def document(maxima: Maxima) -> Document:
    """What is written of them."""
    told = {name: {"value": _plain(maxima[name].value), "seen": maxima[name].at} for name in BOUNDS if name in maxima}
    return {"schema_version": SCHEMA_VERSION, **told}


def written(text: str | None) -> dict[str, Highest]:
    """What an annotation says of them, as far as that can be."""
    told = read(text) if text else None
    if not isinstance(told, dict) or told.get("schema_version") != SCHEMA_VERSION:
        return {}
    pairs = ((name, _highest(told.get(name), bound)) for name, bound in BOUNDS.items())
    return {name: one for name, one in pairs if one is not None}


def _highest(entry: Any, bound: float) -> Highest | None:
    if not isinstance(entry, dict):
        return None
    value, seen = entry.get("value"), entry.get("seen")
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= bound:
        return None
    return Highest(value, word(seen, 20)) if isinstance(seen, str) else None


def _plain(value: float) -> float | int:
    return int(value) if float(value).is_integer() and value > 1 else value
