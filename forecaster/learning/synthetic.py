"""Made-up series of the shapes that clusters show, and of many that they do not: training sees no shape for the first
time on a user's machine.

Rule of this file: pure; chance is a generator that is handed in. A series is one shape, or two laid over each other,
seen through a sensor that adds noise, counts in steps, ends at 0 and 1, and misses stretches.
"""

from collections.abc import Callable

import numpy as np

from ..series import Array
from .examples import Recorded

#: Seconds between samples, of shapes that know no clock.
INTERVALS_S = (1.0, 2.0, 30.0, 60.0, 300.0)
DAY_S, WEEK_DAYS = 86_400.0, 7
#: How often a second shape is laid over the first, a sensor counts in steps, is saturated, or misses stretches.
OVERLAID, QUANTISED, SATURATED, GAPPED = 0.2, 0.3, 0.25, 0.3

Shape = Callable[[int, np.random.Generator], Array]


def made_up(count: int, rng: np.random.Generator, samples: int = 2400) -> list[Recorded]:
    """``count`` series of ``samples`` samples, each shape as often as the next."""
    series = []
    for number in range(count):
        shape = SHAPES[number % len(SHAPES)]
        if shape is None:
            interval_s = float(rng.choice([60.0, 300.0]))
            values = _days(samples, interval_s, rng)
        else:
            interval_s, values = float(rng.choice(INTERVALS_S)), shape(samples, rng)
        if rng.random() < OVERLAID:
            other = _standard(PLAIN[int(rng.integers(len(PLAIN)))](samples, rng))
            values = _standard(values) + rng.uniform(0.1, 0.8) * other
        series.append(_sensed(values, interval_s, rng))
    return series


def _sensed(values: Array, interval_s: float, rng: np.random.Generator) -> Recorded:
    """``values`` as a sensor has them."""
    spread = max(float(values.std()), 1e-9)
    values = values + rng.choice([0.0, 0.01, 0.05, 0.15]) * spread * rng.standard_normal(len(values))
    low = high = None
    if rng.random() < SATURATED:
        lower, upper = np.quantile(values, [rng.uniform(0.0, 0.4), rng.uniform(0.6, 1.0)])
        values = np.clip((values - lower) / max(upper - lower, 1e-9), 0.0, 1.0)
        spread, low, high = max(float(values.std()), 1e-9), 0.0, 1.0
    elif rng.random() < 0.5:
        low = float(values.min())
    if rng.random() < QUANTISED:
        step = spread / rng.uniform(2.0, 40.0)
        values = np.round(values / step) * step
        if high is not None:
            values = np.minimum(values, high)
        elif low is not None:
            low = min(low, float(values.min()))
    if rng.random() < GAPPED:
        values = values.copy()
        for _ in range(int(rng.integers(1, 8))):
            first = int(rng.integers(len(values)))
            values[first : first + int(rng.geometric(0.05))] = np.nan
    return Recorded(values, interval_s, low, high)


def _standard(values: Array) -> Array:
    return np.asarray((values - values.mean()) / max(float(values.std()), 1e-9))


# --- shapes of clusters -----------------------------------------------------------------------------------------------


def _on_off(samples: int, rng: np.random.Generator) -> Array:
    lengths = rng.exponential([rng.uniform(3, 60), rng.uniform(3, 60)], size=(samples, 2)).astype(np.intp) + 1
    state = np.repeat(np.tile([0.0, 1.0], samples), lengths.ravel())[:samples]
    return np.asarray(state * rng.uniform(0.7, 1.0, samples))


def _ramps(samples: int, rng: np.random.Generator) -> Array:
    """Memory that fills and is let go."""
    slopes = rng.uniform(0.1, 1.0) * (1.0 + 0.3 * rng.standard_normal(samples))
    every = int(rng.integers(100, 900))
    line = np.cumsum(slopes)
    return np.asarray(line - line[np.arange(samples) // every * every])


def _cycle(samples: int, rng: np.random.Generator) -> Array:
    phase = np.arange(samples) / rng.uniform(6.0, 300.0) % 1.0
    dip = rng.uniform(0.05, 0.5)
    shape = np.where(phase < dip, rng.uniform(0.0, 0.6), 1.0)
    return np.asarray(shape + 0.1 * np.sin(2 * np.pi * phase))


def _training(samples: int, rng: np.random.Generator) -> Array:
    """Saw-teeth of steps, a pause to evaluate every so many of them, and now and then a job that ends."""
    at = np.arange(samples)
    step = rng.uniform(1.5, 30.0)
    values = 1.0 - rng.uniform(0.0, 0.6) * (at / step % 1.0 < rng.uniform(0.05, 0.4))
    every, pause = rng.uniform(40.0, 400.0), rng.uniform(3.0, 40.0)
    values = np.where(at % every < pause, rng.uniform(0.1, 0.8) + 0.1 * rng.standard_normal(samples), values)
    for _ in range(int(rng.integers(0, 4))):
        first = int(rng.integers(samples))
        values[first : first + int(rng.integers(10, 300))] = rng.uniform(0.0, 0.15)
    return np.asarray(values)


def _bursts(samples: int, rng: np.random.Generator) -> Array:
    hits = (rng.random(samples) < rng.uniform(0.01, 0.1)) * rng.lognormal(0.0, 1.0, samples)
    return np.asarray(np.convolve(hits, rng.uniform(0.3, 0.95) ** np.arange(40))[:samples])


def _rests(samples: int, rng: np.random.Generator) -> Array:
    """Mostly nothing; where there is something, it has a level of its own each time."""
    busy = _states(samples, rng.uniform(20.0, 200.0), rng.uniform(2.0, 40.0), rng)
    edges = np.flatnonzero(np.diff(busy, prepend=0.0) > 0.0)
    levels = np.ones(samples)
    for first, last in zip(edges, [*edges[1:], samples], strict=True):
        levels[first:last] = rng.lognormal(0.0, 0.7)
    return np.asarray(busy * levels * (1.0 + 0.2 * rng.standard_normal(samples)).clip(0.0))


def _states(samples: int, off: float, on: float, rng: np.random.Generator) -> Array:
    lengths = rng.exponential([off, on], size=(samples, 2)).astype(np.intp) + 1
    return np.repeat(np.tile([0.0, 1.0], samples), lengths.ravel())[:samples]


def _days(samples: int, interval_s: float, rng: np.random.Generator) -> Array:
    """Days with a night and a peak, weekends with less of it, and errors that last."""
    at = np.arange(samples) * interval_s / DAY_S + rng.uniform(0.0, WEEK_DAYS)
    angle = 2 * np.pi * (at + rng.uniform())
    shape = np.sin(angle) + rng.uniform(0.0, 0.5) * np.sin(2 * angle + rng.uniform(0.0, 6.0))
    shape = np.exp(rng.uniform(0.0, 0.8) * shape)
    weekend = np.where(at % WEEK_DAYS >= WEEK_DAYS - 2, rng.uniform(0.3, 1.0), 1.0)
    return np.asarray(shape * weekend + rng.uniform(0.05, 0.5) * shape.std() * _remembering(samples, rng))


def _regimes(samples: int, rng: np.random.Generator) -> Array:
    """Levels, spreads and memories that hold for a while, and then are others."""
    values = np.empty(samples)
    first = 0
    while first < samples:
        last = min(samples, first + int(rng.exponential(rng.uniform(60.0, 800.0))) + 20)
        part = _remembering(last - first, rng) if rng.random() < 0.7 else _cycle(last - first, rng)
        values[first:last] = rng.normal(0.0, 2.0) + rng.lognormal(-0.5, 0.8) * part
        first = last
    return values


# --- plain shapes -----------------------------------------------------------------------------------------------------


def _levels(samples: int, rng: np.random.Generator) -> Array:
    changes = (rng.random(samples) < rng.uniform(0.002, 0.02)) * rng.standard_normal(samples)
    return np.cumsum(changes)


def _remembering(samples: int, rng: np.random.Generator) -> Array:
    """Noise with memory, of spread 1: from none to a random walk."""
    kept = 1.0 - 10.0 ** rng.uniform(-3.0, 0.0)
    frequencies = 2 * np.pi * np.fft.rfftfreq(2 * samples)
    gain = 1.0 / np.sqrt(1.0 + kept**2 - 2.0 * kept * np.cos(frequencies))
    noise = np.fft.irfft(np.fft.rfft(rng.standard_normal(2 * samples)) * gain)[:samples]
    return _standard(noise)


def _smooth(samples: int, rng: np.random.Generator) -> Array:
    length = np.exp(rng.uniform(np.log(3.0), np.log(samples / 4)))
    frequencies = 2 * np.pi * np.fft.rfftfreq(2 * samples)
    noise = np.fft.rfft(rng.standard_normal(2 * samples)) * np.exp(-0.5 * (frequencies * length) ** 2)
    return _standard(np.fft.irfft(noise)[:samples])


def _periodic(samples: int, rng: np.random.Generator) -> Array:
    period = np.exp(rng.uniform(np.log(4.0), np.log(samples / 3)))
    angle = 2 * np.pi * np.arange(samples) / period
    harmonics = int(rng.integers(1, 7))
    parts = [
        rng.normal(0.0, 1.0 / number) * np.sin(number * angle + rng.uniform(0.0, 2 * np.pi))
        for number in range(1, harmonics + 1)
    ]
    return _standard(np.sum(parts, axis=0))


def _line(samples: int, rng: np.random.Generator) -> Array:
    return np.asarray(rng.normal(0.0, 1.0) * np.linspace(-1.0, 1.0, samples))


def _kernels(samples: int, rng: np.random.Generator) -> Array:
    """Sums and products of plain shapes: random functions of composed kernels, drawn by filtered noise instead of from
    their covariance (Ansari et al., Chronos, 2024)."""
    values = PLAIN[int(rng.integers(len(PLAIN)))](samples, rng)
    for _ in range(int(rng.integers(1, 4))):
        other = PLAIN[int(rng.integers(len(PLAIN)))](samples, rng)
        values = values + other if rng.random() < 0.6 else values * other
    return np.asarray(values)


PLAIN: tuple[Shape, ...] = (_levels, _remembering, _smooth, _periodic, _line)
#: None: a shape with a clock.
SHAPES: tuple[Shape | None, ...] = (
    *(_on_off, _ramps, _cycle, _training, _bursts, _rests, None, _regimes),
    *(_levels, _remembering, _kernels, _kernels, _kernels, _kernels),
)
