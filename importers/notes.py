"""What an import has to say for itself: what was left out and why, what was assumed.

Rule of this file: counts and sentences; whoever runs the import shows them.
"""

from collections import Counter


class SourceError(ValueError):
    """A file that cannot be imported: why and what to do, on one line."""


class Notes:
    """Rows left out, by reason, and remarks, each once."""

    def __init__(self) -> None:
        self.dropped: Counter[str] = Counter()
        self.remarks: dict[str, None] = {}

    def drop(self, reason: str, count: int = 1) -> None:
        """``count`` rows could not be used."""
        if count:
            self.dropped[reason] += int(count)

    def remark(self, text: str) -> None:
        """Something the reader of the result should know."""
        self.remarks.setdefault(text)

    def lines(self) -> list[str]:
        """All of it, a line each."""
        return [*self.remarks, *(f"left out {count:,} rows: {why}" for why, count in self.dropped.most_common())]
