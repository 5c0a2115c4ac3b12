"""Rows on their way into one message, with the words that they share sent once.

Rule of this file: pure; a word's index is the order of its first use.
"""

#: A message is full at so many rows or words. At their widest, 4,000 rows and 512 words stay under 900 KB.
MOST_ROWS = 4000
MOST_WORDS = 512
#: Longest name of an op, a group, an operation or a device.
LONGEST_WORD = 64


class Words:
    """A vocabulary: the index of each word, in order of first use."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self._index: dict[str, int] = {}

    def index(self, word: str) -> int:
        """The index of ``word``, which is cut to ``LONGEST_WORD`` letters."""
        word = word[:LONGEST_WORD]
        found = self._index.get(word)
        if found is None:
            found = self._index[word] = len(self.words)
            self.words.append(word)
        return found


class OpRows:
    """Op rows on their way into one OpTimings."""

    def __init__(self) -> None:
        self.ops = Words()
        self.rows: list[tuple[int, int, int, int, float, float]] = []

    def full(self) -> bool:
        """Whether the next row belongs into another message."""
        return len(self.rows) >= MOST_ROWS or len(self.ops.words) >= MOST_WORDS


class CollectiveRows:
    """Collective rows on their way into one CollectiveTimings."""

    def __init__(self) -> None:
        self.groups = Words()
        self.operations = Words()
        self.group_sizes: list[int] = []
        self.rows: list[tuple[int, int, int, int, int, int, float, float, float]] = []

    def full(self) -> bool:
        """Whether the next row belongs into another message."""
        return len(self.rows) >= MOST_ROWS or len(self.groups.words) + len(self.operations.words) >= MOST_WORDS
