"""The examples of a round: so many of each kind of series, the made-up ones others each time.

Rule of this file: pure; the same round of the same seed is the same examples, so that a fit may be resumed.
"""

from collections.abc import Callable, Mapping, Sequence
from zlib import crc32

import numpy as np

from ..models import patches
from .examples import Examples, Recorded, drawn, joined
from .synthetic import made_up

MADE_UP = "made-up"
#: So many examples are drawn of one made-up series.
EACH = 16
#: A series is invented for each shape, at the least.
LEAST = 28


def rounds(
    recorded: Mapping[str, Sequence[Recorded]], shares: Mapping[str, float], count: int, seed: int
) -> Callable[[int], Examples]:
    """What draws the ``count`` examples of a round, by its number.

    Args:
        recorded: kind of series -> the series.
        shares: kind -> how many of its examples beside those of the others; ``MADE_UP`` is one of the kinds.
        count: examples a round.
        seed: what is drawn, and what is made up.
    """
    kinds = sorted((set(recorded) | {MADE_UP}) & set(shares))
    ends = np.round(np.cumsum([shares[kind] for kind in kinds]) / sum(shares[kind] for kind in kinds) * count)
    counts = np.diff(ends, prepend=0.0).astype(np.intp)

    def draw(number: int) -> Examples:
        parts = []
        for kind, wanted in zip(kinds, counts, strict=True):
            rng = np.random.default_rng([seed, number, crc32(kind.encode())])
            series = made_up(max(LEAST, int(wanted) // EACH), rng) if kind == MADE_UP else recorded[kind]
            parts.append(drawn(series, int(wanted), rng, patches.past_row))
        return joined(parts)

    return draw
