"""What bounds a message of a node's ranks, and the words that its rows share.

Rule of this file: pure; a word's index is the order of its first use.
"""

from paceline.events import LATEST_S
from paceline.sidecar.rank_rows import CollectiveRow

#: A message is full at so many rows of a kind, or words. At their widest, all kinds together stay under 900 KB.
MOST_ROWS = 4000
MOST_WORDS = 512
#: Longest name of a group, an operation or a device.
LONGEST_WORD = 64
#: Numbers beyond it travel in no event.
LARGEST = 2**53


class Vocabulary:
    """The index of each word, in order of first use."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self._index: dict[str, int] = {}

    def index(self, word: str) -> int:
        """The index of ``word``, which is cut to ``LONGEST_WORD`` letters."""
        word = word[:LONGEST_WORD]
        index = self._index.get(word)
        if index is None:
            index = self._index[word] = len(self.words)
            self.words.append(word)
        return index


class Groups(Vocabulary):
    """The index of each group, and their sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def place(self, group: str, size: int) -> int:
        """The index of ``group``, whose size counts as first told."""
        index = self.index(group)
        if index == len(self.sizes):
            self.sizes.append(size)
        return index


def travels(row: CollectiveRow) -> bool:
    """Whether all numbers of ``row`` can; NaN is within no bounds."""
    step, seq, _, group_size, _, size, start_s, duration_s, wait_s = row
    return (
        -1 <= step <= LARGEST
        and 0 <= seq <= LARGEST
        and 0 <= group_size <= LARGEST
        and 0 <= size <= LARGEST
        and 0.0 <= start_s <= LATEST_S
        and -LATEST_S <= duration_s <= LATEST_S
        and -LATEST_S <= wait_s <= LATEST_S
    )


def bounded(seconds: float) -> float:
    """A sum of times, no longer than any that may travel."""
    return max(-LATEST_S, min(seconds, LATEST_S))
