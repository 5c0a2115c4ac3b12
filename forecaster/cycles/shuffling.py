"""Whether a record's own pieces, in another order, resemble themselves as much: then its order says nothing.

Noise of a table (``chance``) is smooth. Rare dips at random are not: two gaps of the same length are likely among them,
and look like a cycle. Pieces of the record itself have its dips, bursts and short memory, whatever they are.

Rule of this file: a decision; the same record is always shuffled in the same way.

Source: Künsch, The jackknife and the bootstrap for general stationary observations, 1989 (blocks of the record itself).
"""

from collections.abc import Callable

import numpy as np

from .samples import Samples

#: Pieces are shorter than the period, so that no piece holds two marks of a cycle, and of different lengths.
SHORTEST, LONGEST = 0.2, 0.8
#: So many other orders are tried; at most so many of them may look as regular as the record.
ORDERS, MOST = 19, 1


def by_chance(part: Samples, period: float, sigmas: float, height: Callable[[Samples], float]) -> bool:
    """Whether more than ``MOST`` of ``ORDERS`` other orders of the record's pieces reach ``sigmas``.

    ``period``: in cells. ``height``: the best period's standard deviations above chance in a record.
    """
    random = np.random.default_rng(len(part))
    reached = 0
    for _ in range(ORDERS):
        reached += height(shuffled(part, period, random)) >= sigmas
        if reached > MOST:
            return True
    return False


def shuffled(part: Samples, period: float, random: np.random.Generator) -> Samples:
    """The record cut into pieces of ``SHORTEST`` to ``LONGEST`` periods, in another order; none is lost."""
    count = int(np.ceil(len(part) / (SHORTEST * period)))
    ends = np.cumsum(np.maximum(1, np.round(random.uniform(SHORTEST, LONGEST, count) * period)).astype(int))
    pieces = np.split(np.arange(len(part)), ends[ends < len(part)])
    order = np.concatenate([pieces[at] for at in random.permutation(len(pieces))])
    return Samples(part.values[order], part.measured[order], part.interval_s)
