"""What the global network is told of a series: its newest values, coarser the older they are, and where the season is.

Rule of this file: pure. The order of the numbers is part of the weights' version: change one, raise ``VERSION``.
"""

import numpy as np

from ..series import Array, Series

VERSION = 1
#: Newest first: so many means over so many samples each.
BLOCKS = ((24, 1), (18, 4), (15, 16), (16, 60))
SAMPLES = sum(count * length for count, length in BLOCKS)
WINDOWS = (16, 60, 240, 960)
LEVELS = np.array([0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0])
#: How many numbers say what the past is, and how many what a step ahead is.
PAST = sum(count for count, _ in BLOCKS) + 4 * len(WINDOWS) + len(LEVELS) * (len(WINDOWS) - 1) + 6
STEP = 9
#: Normalised values beyond this are cut: an outlier says no more than that it is one.
LARGEST = 12.0
#: Answers change little from one far step to the next: about so many steps are asked about, unless a season speaks.
ASKED = 16


def past_features(series: Series) -> tuple[Array, float, float]:
    """The features of ``series``, and the centre and scale that its values are normalised by."""
    newest = series.filled[-SAMPLES:]
    recent = newest[-240:]
    centre = float(np.mean(recent[-60:]))
    scale = float(np.std(recent)) + 0.1 * float(np.std(newest))
    scale = max(scale, 1e-4 * abs(centre), 1e-9)
    normalised = np.clip((newest - centre) / scale, -LARGEST, LARGEST)
    whole = np.concatenate([np.full(SAMPLES - len(normalised), normalised[0]), normalised])
    parts, end = [], SAMPLES
    for count, length in BLOCKS:
        parts.append(whole[end - count * length : end].reshape(count, length).mean(axis=1)[::-1])
        end -= count * length
    for window in WINDOWS:
        part = normalised[-window:]
        steps = np.abs(np.diff(part)) if len(part) > 1 else np.zeros(1)
        parts.append(np.array([part.std(), steps.mean(), np.mean(steps < 1e-9), np.mean(part <= part.min() + 1e-9)]))
    for window in WINDOWS[1:]:
        ordered = np.sort(normalised[-window:])
        parts.append(np.interp(LEVELS * (len(ordered) - 1), np.arange(len(ordered)), ordered))
    rest = [np.log1p(scale / max(abs(centre), 1e-9)), np.log(len(newest) / SAMPLES), _edge(series.low, centre, scale)]
    rest += [_edge(series.high, centre, scale), np.mean(np.isnan(series.values[-240:])), float(series.season > 1)]
    return np.concatenate([*parts, np.array(rest)]), centre, scale


def _edge(bound: float | None, centre: float, scale: float) -> float:
    return LARGEST if bound is None else min(abs(bound - centre) / scale, LARGEST)


def asked_steps(series: Series, farthest: int) -> Array:
    """The steps ahead to ask about, from 1 to ``farthest``: each where a season says something of it, else a few.

    >>> asked_steps(Series.of(np.zeros(99), 60.0), 60).astype(int).tolist()
    [1, 2, 3, 4, 5, 7, 9, 12, 15, 20, 26, 35, 46, 60]
    """
    if _seasonal(series) or farthest <= ASKED:
        return np.arange(1, farthest + 1, dtype=np.float64)
    steps = np.exp(np.linspace(0.0, np.log(farthest), ASKED)).round()
    return steps[np.diff(steps, prepend=0.0) > 0.0]


def over_steps(rows: Array, steps: Array, horizon: int) -> Array:
    """The answers at ``steps`` to one a step of the horizon: straight lines between them, the last one held beyond."""
    if len(steps) == horizon:
        return rows
    every = np.arange(1, horizon + 1, dtype=np.float64)
    return np.stack([np.interp(every, steps, column) for column in rows.T], axis=1)


def _seasonal(series: Series) -> bool:
    return 1 < series.season < len(series)


def step_features(series: Series, steps: Array, centre: float, scale: float) -> Array:
    """The features of each step ahead: how far, and what the season says of it. Steps x features."""
    season, filled = series.season, series.filled
    columns = [np.log(steps) / 5.0, 1.0 / steps, np.minimum(steps / 300.0, 4.0)]
    if _seasonal(series):
        place = (steps.astype(np.intp) - 1) % season
        last = filled[len(filled) - season + place]
        before = filled[len(filled) - 2 * season + place] if len(filled) >= 2 * season else last
        smooth = np.convolve(np.concatenate([filled[-season:], filled[-season:][:4]]), np.full(5, 0.2), "valid")
        near = smooth[(place - 2) % season] if len(smooth) >= season else last
        level = float(filled[len(filled) - season - 1])
        values = [(value - centre) / scale for value in (last, before, near, np.full(len(steps), level))]
        columns += [np.clip(value, -LARGEST, LARGEST) for value in values] + [steps / season, np.ones(len(steps))]
    else:
        columns += [np.zeros(len(steps))] * 6
    return np.stack(columns, axis=1)
