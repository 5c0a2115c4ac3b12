"""The shipped model: a softmax over the features, their squares and their products, and the windows it knows.

Rule of this file: numbers from a JSON file, evaluated with numpy; nothing in the file is ever executed.
"""

import json
from dataclasses import dataclass
from functools import cache
from importlib import resources

import numpy as np
from numpy.typing import NDArray

from .features import FEATURES

FORMAT = 1
#: Standardised features beyond this are as extreme as this: a strange machine does not swamp the others.
CLIP = 4.0


@dataclass(frozen=True)
class KindModel:
    """Columns follow ``features``, rows of ``weights`` follow ``kinds``.

    ``centre`` and ``spread`` standardise a feature; a missing one becomes 0, its mean. ``examples`` are standardised
    windows of the jobs it was trained on; a window farther than ``reach`` from all of them is unfamiliar.
    """

    version: str
    kinds: tuple[str, ...]
    features: tuple[str, ...]
    centre: NDArray[np.float64]
    spread: NDArray[np.float64]
    weights: NDArray[np.float64]
    examples: NDArray[np.float64]
    reach: float

    def standardised(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Features (windows x features) in standard deviations from the mean; missing ones stay NaN."""
        return np.clip((rows - self.centre) / self.spread, -CLIP, CLIP)

    def log_probabilities(self, standard: NDArray[np.float64]) -> NDArray[np.float64]:
        """Log probability of each kind, windows x kinds."""
        scores = expanded(np.nan_to_num(standard)) @ self.weights.T
        scores = scores - scores.max(axis=1, keepdims=True)
        result: NDArray[np.float64] = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
        return result

    def distance(self, standard: NDArray[np.float64]) -> NDArray[np.float64]:
        """Root mean square distance of each window to the nearest example, over the features that were measured."""
        apart = np.nanmean((standard[:, None, :] - self.examples) ** 2, axis=2)
        result: NDArray[np.float64] = np.sqrt(apart.min(axis=1))
        return result


def expanded(standard: NDArray[np.float64]) -> NDArray[np.float64]:
    """1, every feature, and every product of two, squares included: windows x (1 + n + n(n + 1)/2)."""
    first, second = np.triu_indices(standard.shape[1])
    return np.hstack((np.ones((len(standard), 1)), standard, standard[:, first] * standard[:, second]))


def parse(text: str) -> KindModel:
    """A model from its JSON.

    Raises:
        ValueError: not a model of this format.
    """
    content = json.loads(text)
    if content.get("format") != FORMAT:
        raise ValueError(f"model of format {content.get('format')!r}; this version reads format {FORMAT}")
    model = KindModel(
        version=str(content["version"]),
        kinds=tuple(content["kinds"]),
        features=tuple(content["features"]),
        centre=np.array(content["centre"], dtype=np.float64),
        spread=np.array(content["spread"], dtype=np.float64),
        weights=np.array(content["weights"], dtype=np.float64),
        examples=np.array(content["examples"], dtype=np.float64),
        reach=float(content["reach"]),
    )
    if model.features != tuple(FEATURES):
        raise ValueError("model: its features are not those of this version")
    count = len(model.features)
    if model.weights.shape != (len(model.kinds), 1 + count + count * (count + 1) // 2):
        raise ValueError("model: the weights do not fit its kinds and features")
    return model


@cache
def shipped() -> KindModel:
    """The model that comes with this package: a constant, read once because its file never changes."""
    return parse(resources.files(__package__).joinpath("model.json").read_text("utf-8"))
