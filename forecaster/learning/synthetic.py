"""Made-up series of the shapes that clusters show: on and off, ramps that reset, odd periods, steps, bursts.

Rule of this file: pure; they stand beside recorded series in training so that no shape is quite unknown.
"""

import numpy as np

from ..series import Array
from .examples import Recorded


def made_up(count: int, rng: np.random.Generator, samples: int = 2400) -> list[Recorded]:
    """``count`` series, each of one shape with noise."""
    shapes = (_on_off, _ramps, _cycle, _steps, _bursts, _wandering)
    series = []
    for number in range(count):
        values = shapes[number % len(shapes)](samples, rng)
        values = values + rng.choice([0.0, 0.01, 0.05]) * values.std() * rng.standard_normal(samples)
        low = float(values.min()) if rng.random() < 0.5 else None
        series.append(Recorded(values, float(rng.choice([1.0, 2.0, 60.0, 300.0])), low))
    return series


def _on_off(samples: int, rng: np.random.Generator) -> Array:
    lengths = rng.exponential([rng.uniform(3, 60), rng.uniform(3, 60)], size=(samples, 2)).astype(np.intp) + 1
    state = np.repeat(np.tile([0.0, 1.0], samples), lengths.ravel())[:samples]
    return np.asarray(state * rng.uniform(0.7, 1.0, samples))


def _ramps(samples: int, rng: np.random.Generator) -> Array:
    slopes = rng.uniform(0.1, 1.0) * (1.0 + 0.3 * rng.standard_normal(samples))
    every = int(rng.integers(100, 900))
    line = np.cumsum(slopes)
    return np.asarray(line - line[np.arange(samples) // every * every])


def _cycle(samples: int, rng: np.random.Generator) -> Array:
    phase = np.arange(samples) / rng.uniform(6.0, 300.0) % 1.0
    dip = rng.uniform(0.05, 0.5)
    shape = np.where(phase < dip, rng.uniform(0.0, 0.6), 1.0)
    return np.asarray(shape + 0.1 * np.sin(2 * np.pi * phase))


def _steps(samples: int, rng: np.random.Generator) -> Array:
    changes = (rng.random(samples) < rng.uniform(0.002, 0.02)) * rng.standard_normal(samples)
    return np.cumsum(changes)


def _bursts(samples: int, rng: np.random.Generator) -> Array:
    hits = (rng.random(samples) < rng.uniform(0.01, 0.1)) * rng.lognormal(0.0, 1.0, samples)
    return np.asarray(np.convolve(hits, 0.8 ** np.arange(20))[:samples])


def _wandering(samples: int, rng: np.random.Generator) -> Array:
    kept, walk = rng.uniform(0.9, 1.0), np.zeros(samples)
    noise = rng.standard_normal(samples)
    for at in range(1, samples):
        walk[at] = kept * walk[at - 1] + noise[at]
    return walk
