"""Standard input, output and error as our commands find them, made fit for what they write.

Rule of this file: every command of ours calls ``ready_streams`` first. A stream that its caller has closed stays
closed for what is started from here; nothing else takes its number, and what we write there goes nowhere. Where a
terminal, a file or a pipe takes other characters than we write, the same is written in those that it takes.
"""

import codecs
import os
import select
import sys
from io import TextIOWrapper
from typing import IO, TextIO

#: What a person reads as well; all else is written as JSON writes it, so that a line of JSON stays JSON.
PLAIN = {
    "\N{DEGREE SIGN}": "deg ",
    "\N{HORIZONTAL ELLIPSIS}": "...",
    "\N{MIDDLE DOT}": "*",
    "\N{MICRO SIGN}": "u",
    "\N{SUPERSCRIPT TWO}": "^2",
    "\N{EN DASH}": "-",
    "\N{EM DASH}": "-",
    "\N{LEFT DOUBLE QUOTATION MARK}": "'",
    "\N{RIGHT DOUBLE QUOTATION MARK}": "'",
    "\N{UPWARDS ARROW}": "^",
    "\N{DOWNWARDS ARROW}": "v",
    "\N{FULL BLOCK}": "#",
    "\N{LIGHT SHADE}": ".",
    "\N{MEDIUM SHADE}": "+",
    "\N{DARK SHADE}": "%",
} | {chr(0x2580 + eighths): sign for eighths, sign in enumerate("_.:-=+*", 1)}
_HANDLER = "paceline.plain"


def ready_streams() -> None:
    """Hold the place of standard streams that are closed, and let the others show what we write."""
    hold_closed()
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - until we end
        elif isinstance(stream, TextIOWrapper):
            show_plainly(stream)


def hold_closed() -> None:
    """Let nothing else take the number of a standard stream that is closed; a program started from here finds it so."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # It takes the lowest number that is free.


def show_plainly(stream: TextIOWrapper) -> None:
    """Let ``stream`` write in other characters what its encoding lacks, where it would raise or show a number."""
    codecs.register_error(_HANDLER, _plain)
    everything = codecs.lookup(stream.encoding).name.startswith("utf-")
    if stream.errors == "strict" or (stream.errors in ("surrogateescape", "backslashreplace") and not everything):
        stream.reconfigure(errors=_HANDLER)


def characters(stream: TextIO) -> str:
    """How ``stream`` writes characters, for ``written_as`` of another process, which may ignore PYTHONIOENCODING."""
    errors = getattr(stream, "errors", None) or "strict"
    return f"{stream.encoding or 'utf-8'}:{'strict' if errors == _HANDLER else errors}"


def written_as(told: str) -> None:
    """Let both streams write as ``characters`` says of the process that has started this one."""
    encoding, _, errors = told.partition(":")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(encoding=encoding, errors=errors)
    ready_streams()


def reader_has_gone(stream: IO[str]) -> bool:
    """Whether ``stream`` is a pipe that nobody reads any more."""
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError):
        return False
    poller = select.poll()
    poller.register(descriptor, 0)
    return any(state & (select.POLLERR | select.POLLHUP) for _, state in poller.poll(0))


def write_nowhere(stream: IO[str]) -> None:
    """Let what is left in ``stream`` go nowhere: Python would complain of it at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def plain(text: str) -> str:
    """``text`` in ASCII.

    >>> plain("41 \N{DEGREE SIGN}C\N{HORIZONTAL ELLIPSIS} \N{GREEK SMALL LETTER OMEGA}")
    '41 deg C... \\\\u03c9'
    """
    return "".join(PLAIN.get(letter) or _escape(letter) for letter in text)


def _escape(letter: str) -> str:
    units = letter.encode("utf-16-be", "surrogatepass")
    return letter if letter.isascii() else "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return plain(error.object[error.start : error.end]), error.end
