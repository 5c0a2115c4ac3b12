"""Horovod's reports of operations that some ranks have submitted and others have not, in each of its versions' forms.

Rule of this file: pure, a line at a time. The rank that coordinates prints a report every minute while a stall lasts:
a head, then an operation a line with the ranks that are missing (before 0.14.1: that are ready), or since 0.17 a rank
a line with the first of the operations that it is missing in.
"""

import re
from collections.abc import Iterator

from ..evidence import Source, Stalled

_HEAD = "waiting for remainder of ranks for more than"
_TITLES = ("Missing ranks:", "Stalled ranks:")
WORDS = (_HEAD, *_TITLES, "[missing ranks:", "[ready ranks:")
#: So many lines of others may stand between two of a report.
_BETWEEN = 3
_LONGEST_NAME = 400
_BY_OPERATION = re.compile(r"(?<=\S) \[(missing|ready) ranks:([\d, ]{1,40000})\]")
_BY_RANK = re.compile(r"(?:^|\s)(\d{1,7})!?: \[(\S.{0,65000}?)( \.\.\.)?\]\s{0,8}$")


class StallReport:
    """The reports of one voice."""

    def __init__(self) -> None:
        self.open = False
        self._left = 0

    def line(self, text: str, source: Source) -> Iterator[Stalled]:
        """Take a line: a head, or what it says of operations and ranks."""
        if _HEAD in text:
            yield Stalled(source=source)
        found = [*_operations(text, source)] or ([*_rank(text, source)] if self.open else [])
        yield from found
        if found or any(word in text for word in WORDS):
            self._left = _BETWEEN
        elif self.open:
            self._left -= 1
        self.open = self._left > 0


def _operations(text: str, source: Source) -> Iterator[Stalled]:
    for found in _BY_OPERATION.finditer(text):
        name = text[max(0, found.start() - _LONGEST_NAME) : found.start()].split()[-1].removeprefix("ops:")
        ranks = tuple(int(one) for one in re.findall(r"\d{1,7}", found[2]))
        if found[1] == "missing":
            yield Stalled(source=source, operations=(name,), missing=ranks)
        else:
            yield Stalled(source=source, operations=(name,), ready=ranks)


def _rank(text: str, source: Source) -> Iterator[Stalled]:
    if found := _BY_RANK.search(text):
        names = tuple(name[:_LONGEST_NAME] for name in found[2].split(", "))
        yield Stalled(source=source, operations=names, missing=(int(found[1]),), more=bool(found[3]))
