"""A crash of the interpreter, as faulthandler writes it: its title, and the stack of the thread that crashed.

Rule of this file: pure. Other threads' stacks say nothing of the crash, so where the thread is not named, no line is.
"""

import re
from collections.abc import Iterator

from ..evidence import Failure, Place, Source
from ..places import is_library

_TITLE = re.compile(r"Fatal Python error: (.{1,80})")
#: An abort follows from a lost peer as well: then no frame is the user's, or it is below one of PyTorch's.
_ABORTED = "Aborted"
_CRASHED = re.compile(r"(?:Current thread 0x[0-9a-fA-F]{1,18}.{0,80}|Stack) \(most recent call first\):")
_FRAME = re.compile(r'\s{0,8}File "([^"]{1,1000})", line (\d{1,9}) in (.{1,200})$')
_MOST_LINES = 2000


class Crash:
    """The crash of one voice; told with its title, and once more with the user's innermost frame."""

    def __init__(self) -> None:
        self.open = False
        self._text = ""
        self._crashed = False
        self._lines = 0

    def line(self, text: str, source: Source) -> Iterator[Failure]:
        """Take a line."""
        if found := _TITLE.search(text):
            self.open, self._text, self._crashed, self._lines = True, found[1].strip(), False, 0
            if self._text != _ABORTED:
                yield _failure(self._text, (), source)
        elif not self.open:
            return
        elif _CRASHED.search(text):
            self._crashed = True
        elif (place := frame(text)) and self._crashed and not is_library(place.file):
            self.open = False
            yield _failure(self._text, (place,), source)
        elif self._crashed and text.strip() and (not place or (self._text == _ABORTED and "torch/" in place.file)):
            self.open = False  # That thread's stack is over, and none of it is the user's.
        self._lines += 1
        self.open = self.open and self._lines < _MOST_LINES


def frame(text: str) -> Place | None:
    """A frame as faulthandler writes it.

    >>> str(frame('  File "/app/train.py", line 9 in Trainer.step'))
    '/app/train.py:9 step'
    """
    found = _FRAME.match(text)
    return Place(found[1], int(found[2]), found[3].rpartition(".")[2]) if found else None


def _failure(text: str, frames: tuple[Place, ...], source: Source) -> Failure:
    return Failure(source=source, role="own", name="crash", text=text, frames=frames)
