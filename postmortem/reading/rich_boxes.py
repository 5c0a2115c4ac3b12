"""Tracebacks in a box, as the library rich draws them: accelerate, typer and others print every exception so.

Rule of this file: pure. A frame is a path with a line and a function, wrapped at the box's width: a line that is full
goes on in the midst of a word. What is drawn below it, lines of code and variables, is left out.
"""

import re

from ..evidence import Place

_HEAD = re.compile(r"[╭+][─-]{1,400} Traceback \(most recent call last\) [─-]{1,400}[╮+]\s{0,8}$")
_FRAME = re.compile(r"(\S.{0,1000}?):(\d{1,9}) ?in ?(\S.{0,200})$")
_SIDES, _ENDS = ("│", "|"), ("╰", "+")
#: How lines within begin that are no frames: blank ones, code, the line that raised, boxes of variables.
_OTHERS = ("", " ", "❱", ">", "╭", "│", "╰", "+")
_MOST_PARTS = 32


class RichBox:
    """The box of one traceback."""

    def __init__(self, head: str) -> None:
        self.open = True
        self._width = len(head.rstrip()) - 4
        self._parts: list[str] = []

    @staticmethod
    def begins(text: str) -> bool:
        """Whether ``text`` is the head of a box."""
        return "Traceback (most" in text and bool(_HEAD.match(text))

    def read(self, text: str) -> Place | None:
        """Take a line; the frame that is complete by it."""
        if text.startswith(_ENDS):
            self.open = False
        if not text.startswith(_SIDES):
            return self._ended()
        inside = text.rstrip().removesuffix(text[:1])[2:].rstrip()
        if inside[:1] in _OTHERS:
            return self._ended()
        if len(self._parts) < _MOST_PARTS:
            self._parts.append(inside if len(inside) >= self._width else f"{inside} ")
        return None

    def _ended(self) -> Place | None:
        found = _FRAME.match("".join(self._parts).rstrip()) if self._parts else None
        self._parts.clear()
        return Place(found[1], int(found[2]), found[3]) if found else None
