"""The gate: each member's share by the shape of the series and by how each did in the back-test; learned beforehand.

Rule of this file: pure. Weights are an argument: ``experiments.forecasting.gate`` fits them, on series that are not
those that it will be asked about. A member that the gate was not fitted with gets no share from it.

Source: Montero-Manso et al., FFORMA, 2020 (weights of members learned from features of a series).
"""

import json
from collections.abc import Container, Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

import numpy as np

from . import traits
from .series import Array

WEIGHTS = f"gate-{traits.VERSION}.json"
#: The part of the shares that is left to the losses and a prior, whatever the gate says: it has not seen every series.
HEDGE = 0.4
#: No member's loss counts as more than e to this times the best one's, and one with such a loss gets no share.
LARGEST = 4.0


@dataclass(frozen=True)
class Gate:
    """A few small networks whose answers are averaged. ``names``: the members, in the order of the numbers.

    ``hidden`` and ``out`` are pairs of matrix and bias, networks x …; ``fade``: how much less each older moment counts.
    What goes in is brought to ``centre`` and ``spread`` first.
    """

    names: tuple[str, ...]
    centre: Array
    spread: Array
    hidden: tuple[Array, Array]
    out: tuple[Array, Array]
    fade: Array


def shipped() -> Gate | None:
    """The weights in this package, or None where there are none of this version."""
    path = files(__package__).joinpath(WEIGHTS)
    return read(path) if path.is_file() else None


def read(path: Traversable) -> Gate:
    """The weights in a file that ``experiments.forecasting.gate`` wrote.

    Raises:
        OSError: no such file.
        ValueError: it holds something else, or another version's weights.
    """
    try:
        return unpacked(json.loads(path.read_text(encoding="utf-8")))
    except (KeyError, TypeError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} holds no gate") from error


def unpacked(table: Mapping[str, Any]) -> Gate:
    """A gate from named lists of numbers.

    Raises:
        KeyError: a name is missing.
        ValueError: another version of the traits, or numbers that do not fit together.
    """
    if table["version"] != traits.VERSION or table["traits"] != list(traits.NAMES):
        raise ValueError(f"a gate of version {table['version']}; this program reads {traits.VERSION}")
    names = tuple(str(name) for name in table["members"])
    parts = {
        name: np.array(table[name], dtype=np.float64)
        for name in ("centre", "spread", "hidden", "hidden_bias", "out", "out_bias", "fade")
    }
    networks, _, width = parts["hidden"].shape
    wanted = {
        "centre": (len(traits.NAMES),),
        "spread": (len(traits.NAMES),),
        "hidden": (networks, len(traits.NAMES) + len(names) + 1, width),
        "hidden_bias": (networks, 1, width),
        "out": (networks, width, len(names) + 1),
        "out_bias": (networks, 1, len(names) + 1),
        "fade": (networks,),
    }
    wrong = any(parts[name].shape != shape or not np.isfinite(parts[name]).all() for name, shape in wanted.items())
    if wrong or not networks or (parts["spread"] <= 0.0).any():
        raise ValueError("the gate's numbers do not fit together")
    return Gate(
        names,
        parts["centre"],
        parts["spread"],
        (parts["hidden"], parts["hidden_bias"]),
        (parts["out"], parts["out_bias"]),
        parts["fade"],
    )


def hedged(learned: Mapping[str, float], usual: Mapping[str, float]) -> dict[str, float]:
    """The gate's shares with ``HEDGE`` of the usual ones; those alone where the gate has none.

    >>> hedged({"a": 1.0}, {"a": 0.5, "b": 0.5})
    {'a': 0.8, 'b': 0.2}
    """
    if not learned:
        return dict(usual)
    names = [*learned, *(name for name in usual if name not in learned)]
    return {name: (1.0 - HEDGE) * learned.get(name, 0.0) + HEDGE * usual.get(name, 0.0) for name in names}


def shares(gate: Gate, described: Array, able: Container[str], losses: Mapping[str, Array]) -> dict[str, float]:
    """Member -> its share, summing to 1; empty where the gate knows none of those that may have one.

    Args:
        gate: the weights.
        described: the series' traits.
        able: the members that may have a share. Where there was a back-test, only those that took part in it get one.
        losses: member -> its loss at each moment of the back-test, newest first; empty where there was none.
    """
    allowed = np.array([name in able and (not losses or name in losses) for name in gate.names])
    if not allowed.any():
        return {}
    moments = max((len(row) for row in losses.values()), default=0)
    table = np.stack([losses.get(name, np.full(moments, np.nan)) for name in gate.names], axis=1)
    total, count = np.zeros(len(gate.names)), len(gate.fade)
    for number in range(count):
        ratios = log_ratios(table, float(gate.fade[number]))
        asked = np.concatenate([(described - gate.centre) / gate.spread, ratios, [float(bool(losses))]])
        hidden = np.tanh(asked @ gate.hidden[0][number] + gate.hidden[1][number, 0])
        out = hidden @ gate.out[0][number] + gate.out[1][number, 0]
        near = allowed & (ratios < LARGEST)
        scores = np.where(near if near.any() else allowed, out[:-1] - np.logaddexp(0.0, out[-1]) * ratios, -np.inf)
        raw = np.exp(scores - scores.max())
        total += raw / raw.sum() / count
    return {name: float(share) for name, share in zip(gate.names, total, strict=True) if share > 0.0}


def log_ratios(losses: Array, fade: float) -> Array:
    """Each member's loss against the best one's, as a logarithm from 0 to ``LARGEST``; 0 where it was not tried.

    ``losses``: moments x members, newest first; a moment counts ``exp(-fade)`` times the one after it.

    >>> log_ratios(np.array([[1.0, 2.0, np.nan]]), 0.0).round(2).tolist()
    [0.0, 0.69, 0.0]
    """
    if not losses.size:
        return np.zeros(losses.shape[1])
    counts = np.exp(-fade * np.arange(len(losses)))[:, None] * np.isfinite(losses)
    total = counts.sum(axis=0)
    means = np.where(total > 0.0, np.nansum(np.nan_to_num(losses) * counts, axis=0) / np.maximum(total, 1e-300), np.nan)
    if not np.isfinite(means).any():
        return np.zeros(losses.shape[1])
    best, worst = np.nanmin(means), np.nanmax(means)
    floor = max(1e-3 * best, 1e-9 * worst, 1e-300)
    return np.asarray(np.nan_to_num(np.clip(np.log((means + floor) / (best + floor)), 0.0, LARGEST)))
