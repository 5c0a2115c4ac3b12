"""The global network: a few small nets for every series, trained on recordings with the quantile loss, averaged.

Rule of this file: numpy only, so that the request path needs no torch. Weights are an argument: none are kept here.
"""

from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

import numpy as np
from numpy.typing import NDArray

from ..context import ForecastContext
from ..series import Array
from . import arrays
from .features import PAST, STEP, VERSION, asked_steps, over_steps, past_features, step_features
from .model import UnsuitedError

#: The levels that the network was trained for.
LEVELS = np.arange(1, 10) / 10
#: Beyond so many steps the answer of the last one is held: it was trained no farther.
FARTHEST = 480
LEAST = 24
WEIGHTS = f"network-{VERSION}.npz"
#: No file of weights is larger than this, unpacked.
MOST_BYTES = 32 * 1024 * 1024

Layers = tuple[tuple[NDArray[np.float32], NDArray[np.float32]], ...]


@dataclass(frozen=True)
class Weights:
    """Pairs of matrix and bias, members x …: the encoder of the past, and the decoder that is asked about each step."""

    encoder: Layers
    decoder: Layers


def shipped() -> Weights | None:
    """The weights in this package, or None where there are none of this version."""
    path = files(__package__).joinpath(WEIGHTS)
    return read(path) if path.is_file() else None


def read(path: Traversable) -> Weights:
    """The weights in a file that ``paceline forecaster train`` wrote.

    Raises:
        OSError: no such file.
        ValueError: it holds something else, or another version's weights.
    """
    return arrays.parsed(path, MOST_BYTES, "weights", unpacked)


def unpacked(table: dict[str, Array]) -> Weights:
    """Weights from named arrays: ``encoder.0.weight``, ``encoder.0.bias``, …

    Raises:
        KeyError: one is missing.
        ValueError: another version of the features, layers that do not fit together, or numbers that are not finite.
    """
    if int(table["version"]) != VERSION:
        raise ValueError(f"weights of version {int(table['version'])}; this program reads {VERSION}")

    def layers(part: str) -> Layers:
        count = sum(name.startswith(f"{part}.") and name.endswith(".weight") for name in table)
        rows = [(table[f"{part}.{number}.weight"], table[f"{part}.{number}.bias"]) for number in range(count)]
        return tuple(
            (np.ascontiguousarray(np.swapaxes(weight, 1, 2), np.float32), np.asarray(bias, np.float32)[:, None, :])
            for weight, bias in rows
        )

    weights = Weights(layers("encoder"), layers("decoder"))
    _check(weights)
    return weights


def _check(weights: Weights) -> None:
    """Raise ``ValueError`` where the layers do not fit together, or hold a number that is not finite."""
    if not weights.encoder or not weights.decoder:
        raise ValueError("no layers")
    members, size = len(weights.encoder[0][0]), PAST
    for number, (matrix, bias) in enumerate((*weights.encoder, *weights.decoder)):
        if number == len(weights.encoder):
            size += STEP
        wanted = matrix.shape[-1]
        if matrix.shape != (members, size, wanted) or bias.shape != (members, 1, wanted):
            raise ValueError(f"layer {number} does not fit the one before it")
        if not (np.isfinite(matrix).all() and np.isfinite(bias).all()):
            raise ValueError(f"layer {number} holds numbers that are not finite")
        size = wanted
    if not members or size != len(LEVELS):
        raise ValueError(f"{members} networks of {size} quantiles")


def network(weights: Weights | None, context: ForecastContext) -> Array:
    """The network's quantiles, between and beyond its own levels by straight lines.

    Raises:
        UnsuitedError: no weights, or fewer than 24 samples.
    """
    if weights is None:
        raise UnsuitedError("no weights of this version are installed")
    if len(context.series) < LEAST:
        raise UnsuitedError(f"needs {LEAST} samples")
    features, centre, scale = past_features(context.series)
    steps = asked_steps(context.series, min(context.horizon, FARTHEST))
    rows = answers(weights, features, step_features(context.series, steps, centre, scale))
    return np.asarray(centre + scale * at_levels(over_steps(rows, steps, context.horizon), context.levels))


def answers(weights: Weights, features: Array, questions: Array) -> Array:
    """Quantiles at ``LEVELS``, normalised, the mean over the members: steps x 9."""
    members, count = len(weights.encoder[0][0]), len(questions)
    state = np.repeat(features.astype(np.float32)[None, None, :], members, axis=0)
    for matrix, bias in weights.encoder:
        state = np.maximum(state @ matrix + bias, 0.0)
    steps = np.repeat(questions.astype(np.float32)[None], members, axis=0)
    state = np.concatenate([np.repeat(state, count, axis=1), steps], axis=2)
    for matrix, bias in weights.decoder[:-1]:
        state = np.maximum(state @ matrix + bias, 0.0)
    matrix, bias = weights.decoder[-1]
    out = (state @ matrix + bias).astype(np.float64)
    gaps, median = np.logaddexp(0.0, out[..., 1:9]), out[..., :1]
    up, down = np.cumsum(gaps[..., :4], axis=2), np.cumsum(gaps[..., 4:], axis=2)
    return np.asarray(np.concatenate([median - down[..., ::-1], median, median + up], axis=2).mean(axis=0))


def at_levels(rows: Array, levels: Array) -> Array:
    """Rows at ``LEVELS`` to rows at ``levels``; the outermost slopes go on beyond them.

    >>> at_levels(np.arange(1.0, 10.0)[None, :], np.array([0.05, 0.5, 0.55])).round(2).tolist()
    [[0.5, 5.0, 5.5]]
    """
    left = np.clip(np.searchsorted(LEVELS, levels) - 1, 0, len(LEVELS) - 2)
    share = (levels - LEVELS[left]) / (LEVELS[left + 1] - LEVELS[left])
    return np.asarray(rows[:, left] * (1.0 - share) + rows[:, left + 1] * share)
