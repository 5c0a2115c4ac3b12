"""The pretrained model: a small transformer over patches of the past that is asked about steps ahead.

Rule of this file: numpy only, so that the request path needs no torch. Weights are an argument: none are kept here.

The newest samples are seen one by one, older ones as means over 4 and over 16, in patches of 16 each, so that a week of
five minutes is 40 patches. A question is how far ahead a step is and what the season says of it; it attends to all
patches. What is answered are the median and the gaps of the quantiles around it, in scales of the past.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

import numpy as np
from numpy.typing import NDArray

from ..context import ForecastContext
from ..series import Array, Series
from . import arrays
from .features import LARGEST, STEP, asked_steps, over_steps, step_features
from .model import UnsuitedError
from .network import FARTHEST, LEAST, LEVELS, at_levels

VERSION = 1
WEIGHTS = f"patches-{VERSION}.npz"
#: No file of weights is larger than this, unpacked.
MOST_BYTES = 32 * 1024 * 1024
#: Samples of a patch; and, newest first, how many patches of means over how many samples each.
PATCH = 16
RESOLUTIONS = ((16, 1), (16, 4), (8, 16))
TOKENS = sum(count for count, _ in RESOLUTIONS)
SAMPLES = sum(count * length for count, length in RESOLUTIONS) * PATCH
#: Of the whole series, beside its patches.
ABOUT = 6
HEADS = 4

Floats = NDArray[np.float32]


def scaled(newest: Array) -> tuple[float, float]:
    """The centre and the scale that values are normalised by: of the last hour or so, and of all, so that a long rest
    does not make the next burst infinite."""
    known, recent, last = (part[np.isfinite(part)] for part in (newest, newest[-240:], newest[-60:]))
    centre = float((last if last.size else known).mean())
    scale = (float(recent.std()) if recent.size else 0.0) + 0.1 * float(known.std())
    return centre, max(scale, 1e-4 * abs(centre), 1e-9)


def patches(values: Array, centre: float, scale: float) -> Array:
    """TOKENS x PATCH, the newest patch first, each in the order of time; NaN where nothing was measured."""
    newest = values[-SAMPLES:]
    normalised = np.arcsinh((newest - centre) / scale)
    whole = np.concatenate([np.full(SAMPLES - len(normalised), np.nan), normalised])
    parts, end = [], SAMPLES
    for count, length in RESOLUTIONS:
        block = whole[end - count * length * PATCH : end].reshape(count * PATCH, length)
        end -= count * length * PATCH
        if length > 1:
            known = np.isfinite(block)
            total = np.where(known, block, 0.0).sum(axis=1)
            block = np.where(known.any(axis=1), total / np.maximum(known.sum(axis=1), 1), np.nan)[:, None]
        parts.append(block.reshape(count, PATCH)[::-1])
    return np.concatenate(parts)


def about(series: Series, centre: float, scale: float) -> Array:
    """What is known of the whole series: ABOUT numbers."""
    return np.array(
        [
            np.log1p(scale / max(abs(centre), 1e-9)),
            np.log(min(len(series), SAMPLES) / SAMPLES),
            _edge(series.low, centre, scale),
            _edge(series.high, centre, scale),
            float(np.mean(np.isnan(series.values[-240:]))),
            float(series.season > 1),
        ]
    )


def _edge(bound: float | None, centre: float, scale: float) -> float:
    return float(np.arcsinh(min(LARGEST if bound is None else abs(bound - centre) / scale, LARGEST)))


def past_row(series: Series) -> tuple[Array, float, float]:
    """The patches of ``series`` and what is known of it as one row, and the centre and the scale of its values."""
    centre, scale = scaled(series.values[-SAMPLES:])
    row = np.concatenate([patches(series.values, centre, scale).reshape(-1), about(series, centre, scale)])
    return row, centre, scale


@dataclass(frozen=True)
class Weights:
    """Named matrices and vectors, as the training wrote them; matrices are (in, out)."""

    table: dict[str, Floats]
    layers: int
    questions: int


def shipped() -> Weights | None:
    """The weights in this package, or None where there are none of this version."""
    path = files(__package__).joinpath(WEIGHTS)
    return read(path) if path.is_file() else None


def read(path: Traversable) -> Weights:
    """The weights in a file that ``paceline forecaster pretrain`` wrote.

    Raises:
        OSError: no such file.
        ValueError: it holds something else, or another version's weights.
    """
    return arrays.parsed(path, MOST_BYTES, "weights", unpacked)


def unpacked(table: dict[str, NDArray[np.generic]]) -> Weights:
    """Weights from named arrays.

    Raises:
        KeyError: one is missing.
        ValueError: another version's, arrays that do not fit together, or numbers that are not finite.
    """
    if int(table["version"]) != VERSION:
        raise ValueError(f"weights of version {int(table['version'])}; this program reads {VERSION}")
    kept = {
        name: np.ascontiguousarray(one, np.float32) for name, one in table.items() if name not in ("version", "card")
    }
    if not all(np.isfinite(one).all() for one in kept.values()):
        raise ValueError("numbers that are not finite")
    layers, questions = (len({name.split(".")[1] for name in kept if name.startswith(part)}) for part in _PARTS)
    weights = Weights(kept, layers, questions)
    # Whatever does not fit is found by an answer: shapes of all that is used, in the order in which it is used.
    made = answers(weights, np.zeros((1, TOKENS, PATCH)), np.zeros((1, ABOUT)), np.zeros((1, 2, STEP)))
    if made.shape != (1, 2, len(LEVELS)):
        raise ValueError(f"answers of the shape {made.shape}")
    return weights


_PARTS = ("encoder.", "decoder.")


@dataclass(frozen=True)
class Pretrained:
    """The model. Several contexts are answered sooner together than one by one: a pass through it holds them all."""

    weights: Weights | None

    def __call__(self, context: ForecastContext) -> Array:
        """The model's quantiles at the context's levels.

        Raises:
            UnsuitedError: no weights, or fewer than 24 samples.
        """
        if self.weights is None:
            raise UnsuitedError("no weights of this version are installed")
        (made,) = self.many([context])
        if made is None:
            raise UnsuitedError(f"needs {LEAST} samples")
        return made

    def many(self, contexts: Sequence[ForecastContext]) -> list[Array | None]:
        """The quantiles of each of ``contexts``; None where the model cannot answer."""
        made: list[Array | None] = [None] * len(contexts)
        if self.weights is None:
            return made
        asked = {place: _Asked.of(one) for place, one in enumerate(contexts) if len(one.series) >= LEAST}
        alike: dict[tuple[bytes, int], list[int]] = {}
        for place, one in asked.items():
            alike.setdefault((_seen(one.past).tobytes(), len(one.steps)), []).append(place)
        for places in alike.values():
            together = [asked[place] for place in places]
            rows = answers(
                self.weights,
                np.stack([one.past for one in together]),
                np.stack([one.whole for one in together]),
                np.stack([one.questions for one in together]),
            )
            for place, one, row in zip(places, together, rows, strict=True):
                quantiles = at_levels(over_steps(row, one.steps, contexts[place].horizon), contexts[place].levels)
                made[place] = np.asarray(one.centre + one.scale * quantiles)
        return made


@dataclass(frozen=True)
class _Asked:
    """What the model is asked about one context."""

    past: Array
    whole: Array
    steps: Array
    questions: Array
    centre: float
    scale: float

    @classmethod
    def of(cls, context: ForecastContext) -> "_Asked":
        row, centre, scale = past_row(context.series)
        steps = asked_steps(context.series, min(context.horizon, FARTHEST))
        questions = step_features(context.series, steps, centre, scale)
        past, whole = row[: TOKENS * PATCH].reshape(TOKENS, PATCH), row[TOKENS * PATCH :]
        return cls(past, whole, steps, questions, centre, scale)


def _seen(past: Array) -> NDArray[np.bool_]:
    """Which patches hold anything: the others are not looked at."""
    return np.asarray(np.isfinite(past).any(axis=-1))


def answers(weights: Weights, past: Array, whole: Array, questions: Array) -> Array:
    """Quantiles at ``LEVELS``, normalised: series x questions x 9.

    Args:
        weights: of the model.
        past: series x TOKENS x PATCH, with the same patches empty in each.
        whole: series x ABOUT.
        questions: series x questions x STEP.
    """
    table = weights.table
    known = np.isfinite(past)
    told = np.concatenate([np.where(known, past, 0.0), known], axis=-1).astype(np.float32)
    first = _linear(whole.astype(np.float32), table, "about")[:, None]
    seen = np.concatenate([[True], _seen(past[0])])
    state = np.concatenate([first, _linear(told, table, "patch") + table["place"]], axis=1)[:, seen]
    for layer in range(weights.layers):
        name = f"encoder.{layer}"
        normal = _normal(state, table, f"{name}.before")
        state = state + _attention(normal, normal, table, name)
        state = state + _forward(_normal(state, table, f"{name}.after"), table, name)
    state = _normal(state, table, "encoded")
    hidden = _linear(questions.astype(np.float32), table, "question")
    for layer in range(weights.questions):
        name = f"decoder.{layer}"
        hidden = hidden + _attention(_normal(hidden, table, f"{name}.before"), state, table, name)
        hidden = hidden + _forward(_normal(hidden, table, f"{name}.after"), table, name)
    out = _linear(_normal(hidden, table, "asked"), table, "out").astype(np.float64)
    gaps, median = np.logaddexp(0.0, out[..., 1:9]), out[..., :1]
    up, down = np.cumsum(gaps[..., :4], axis=-1), np.cumsum(gaps[..., 4:], axis=-1)
    return np.concatenate([median - down[..., ::-1], median, median + up], axis=-1)


def _linear(rows: Floats, table: dict[str, Floats], name: str) -> Floats:
    # One product of two matrices: numpy would make a small one for each series.
    made = rows.reshape(-1, rows.shape[-1]) @ table[f"{name}.weight"]
    made += table[f"{name}.bias"]
    return made.reshape(*rows.shape[:-1], -1)


def _normal(rows: Floats, table: dict[str, Floats], name: str) -> Floats:
    apart = rows - rows.mean(axis=-1, keepdims=True)
    spread = np.sqrt(np.einsum("...i,...i->...", apart, apart) / np.float32(rows.shape[-1]) + np.float32(1e-5))
    apart /= spread[..., None]
    return np.asarray(apart * table[f"{name}.weight"] + table[f"{name}.bias"], np.float32)


def _attention(rows: Floats, others: Floats, table: dict[str, Floats], name: str) -> Floats:
    each = rows.shape[-1] // HEADS

    def heads(of: Floats, part: str) -> Floats:
        return _linear(of, table, f"{name}.{part}").reshape(*of.shape[:2], HEADS, each).transpose(0, 2, 1, 3)

    asking, known, held = heads(rows, "asking"), heads(others, "known"), heads(others, "held")
    scores = asking @ known.transpose(0, 1, 3, 2) / np.float32(np.sqrt(each))
    scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
    mixed = (scores @ held) / scores.sum(axis=-1, keepdims=True)
    return _linear(mixed.transpose(0, 2, 1, 3).reshape(rows.shape), table, f"{name}.mixed")


def _forward(rows: Floats, table: dict[str, Floats], name: str) -> Floats:
    return _linear(np.maximum(_linear(rows, table, f"{name}.wide"), 0.0), table, f"{name}.narrow")
