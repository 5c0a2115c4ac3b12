"""Runs of equal entries in sorted columns.

Rule of this file: pure.
"""

import numpy as np

from .raw_columns import Ints


def starts(*keys: Ints) -> Ints:
    """Where a new combination begins in ``keys``, columns sorted by it.

    >>> starts(np.array([3, 3, 3, 5]), np.array([0, 0, 1, 1])).tolist()
    [0, 2, 3]
    """
    new = np.zeros(keys[0].size, dtype=bool)
    new[:1] = True
    for key in keys:
        new[1:] |= key[1:] != key[:-1]
    return np.flatnonzero(new)


def distinct(numbers: Ints) -> list[int]:
    """The different ones of ``numbers``, ascending; fast where equal ones mostly follow each other.

    >>> distinct(np.array([3, 3, 5, 5, 3, 1]))
    [1, 3, 5]
    """
    changed = numbers[1:][numbers[1:] != numbers[:-1]]
    return sorted({*numbers[:1].tolist(), *changed.tolist()})


def lengths(first: Ints, size: int) -> Ints:
    """How long each run is, of columns of ``size`` entries whose runs begin at ``first``."""
    return np.diff(first, append=size)


def places(first: Ints, size: int) -> Ints:
    """The place of each entry in its run.

    >>> places(np.array([0, 2, 3]), 5).tolist()
    [0, 1, 0, 0, 1]
    """
    return np.arange(size) - np.repeat(first, lengths(first, size))
