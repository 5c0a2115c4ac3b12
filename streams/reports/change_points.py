"""Where a run changed its pace for good: cumulative sums, and how often chance makes one as large.

Rule of this file: pure and seeded. Single long steps are cut to a bound first: a change lasts.
"""

from typing import NamedTuple

import numpy as np

from .block_bootstrap import Values, block_length

#: Values on either side of a change, at least.
LEAST_SIDE = 6
MOST_CHANGES = 4
MOST_VALUES = 400
_REPEATS = 300
#: The share of shuffled runs that may have a sum as large.
_CHANCE = 0.005
#: Taking out changes that may be none takes slow noise with them: what is left strays less than it should.
_MARGIN = 1.25


class Change(NamedTuple):
    """From value number ``at`` on the mean is ``ratio`` more than it was since the change before."""

    at: int
    ratio: float


def changes(values: Values, least_ratio: float, seed: int = 0) -> list[Change]:
    """Lasting changes of ``values`` by at least ``least_ratio``, in order.

    The cumulative sum of what lies above the mean is furthest from 0 where the mean changes (Page, "Continuous
    inspection schemes", 1954); blocks of neighbours, shuffled, say how far it strays by chance. Both sides are then
    looked at again.

    >>> changes(np.repeat([1.0, 1.3, 1.0], 50), 0.05)
    [Change(at=50, ratio=0.3), Change(at=100, ratio=-0.231)]
    """
    if len(values) < 2 * LEAST_SIDE:
        return []
    together = -(-len(values) // MOST_VALUES)
    starts = np.arange(0, len(values), together)
    joined = np.add.reduceat(values, starts) / np.diff(np.append(starts, len(values)))
    calm = _calm(joined)
    dice = np.random.default_rng(seed)
    edges = sorted(_edges(calm, 0, len(calm), least_ratio, dice, MOST_CHANGES))
    return _kept(calm, edges, least_ratio, together)


def _calm(values: Values) -> Values:
    """Single values far off are cut to three neighbours' median."""
    padded = np.pad(values, 1, mode="edge")
    return np.asarray(np.median(np.stack([padded[:-2], padded[1:-1], padded[2:]]), axis=0))


def _edges(values: Values, first: int, end: int, least: float, dice: np.random.Generator, left: int) -> list[int]:
    part = values[first:end]
    if len(part) < 2 * LEAST_SIDE or left <= 0:
        return []
    at, reach = _furthest(part)
    before, after = part[:at].mean(), part[at:].mean()
    if before <= 0 or abs(after / before - 1) < least / 2 or not _beyond_chance(part, reach, dice):
        return []
    sides = _edges(values, first, first + at, least, dice, left // 2)
    return [first + at, *sides, *_edges(values, first + at, end, least, dice, left // 2)]


def _furthest(values: Values) -> tuple[int, float]:
    sums = np.abs(np.cumsum(values - values.mean()))[LEAST_SIDE - 1 : -LEAST_SIDE]
    at = int(np.argmax(sums))
    return at + LEAST_SIDE, float(sums[at])


def _beyond_chance(values: Values, reach: float, dice: np.random.Generator) -> bool:
    """Whether shuffled blocks hardly ever stray so far, as long as neighbours are alike without the change."""
    flat = _flat(values, 2)
    if not flat.any():
        return True
    length = block_length(flat)
    blocks = -(-len(values) // length)
    starts = dice.integers(0, len(values), (_REPEATS, blocks))
    places = ((starts[:, :, None] + np.arange(length)) % len(values)).reshape(_REPEATS, -1)[:, : len(values)]
    drawn = flat[places]
    sums = np.abs(np.cumsum(drawn - drawn.mean(axis=1, keepdims=True), axis=1)).max(axis=1)
    return float((_MARGIN * sums >= reach).mean()) < _CHANCE


def _flat(values: Values, deep: int) -> Values:
    """What is left without the changes there may be: a run that got slower and recovered has two."""
    if not deep or len(values) < 2 * LEAST_SIDE:
        return np.asarray(values - values.mean())
    at, _ = _furthest(values)
    flat: Values = np.concatenate([_flat(values[:at], deep - 1), _flat(values[at:], deep - 1)])
    return flat


def _kept(values: Values, edges: list[int], least: float, together: int) -> list[Change]:
    """Changes that are as large as asked for, between the means of the stretches around them."""
    found: list[Change] = []
    bounds = [0, *edges, len(values)]
    before = float(values[bounds[0] : bounds[1]].mean())
    for number, edge in enumerate(edges, start=1):
        after = float(values[edge : bounds[number + 1]].mean())
        if abs(after / before - 1) >= least:
            found.append(Change(edge * together, round(after / before - 1, 3)))
            before = after
    return found
