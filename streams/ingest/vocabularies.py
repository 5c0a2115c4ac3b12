"""The words of several messages, each of which numbers its own, under one numbering.

Rule of this file: pure; a number is the order of a word's first use.
"""

from collections.abc import Sequence

import numpy as np

from ..raw_columns import Ints


class Words:
    """The vocabularies of several messages as one."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def number(self, words: Sequence[str]) -> Ints:
        """The number of each word in here, then -1, for what is no word."""
        numbers = self.numbers
        return np.array([*[numbers.setdefault(word, len(numbers)) for word in words], -1], dtype=np.int64)

    def of(self, vocabularies: Sequence[Sequence[str]], indices: Ints, rows: Sequence[int]) -> Ints:
        """``indices`` into the vocabulary of their own message, so many ``rows`` of each, as numbers in here."""
        if not vocabularies:
            return indices
        first = vocabularies[0]
        if all(words is first or words == first for words in vocabularies):
            there = (indices >= 0) & (indices < len(first))
            numbers = self.numbers
            if [numbers.setdefault(word, len(numbers)) for word in first] == list(range(len(first))):
                return np.where(there, indices, -1)
            return np.asarray(self.number(first)[np.where(there, indices, len(first))])
        joined = np.concatenate([self.number(words) for words in vocabularies])
        sizes = np.array([len(words) for words in vocabularies], dtype=np.int64)
        base, size = (np.repeat(column, rows) for column in (np.cumsum(sizes + 1) - sizes - 1, sizes))
        return np.asarray(joined[base + np.where((indices >= 0) & (indices < size), indices, size)])


class Groups(Words):
    """Groups, and how many members each has."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def learn(self, groups: Sequence[str], sizes: Sequence[int]) -> None:
        """Number ``groups``, whose sizes are new."""
        for name, size in zip(groups, sizes, strict=True):
            if self.numbers.setdefault(name, len(self.numbers)) == len(self.sizes):
                self.sizes.append(size)
