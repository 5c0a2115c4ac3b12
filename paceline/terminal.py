"""What commands say to a person: lines on standard error that start with the program's name; what services log.

Rule of this file: standard output belongs to data, so nothing here writes to it; a terminal that has gone is no error.
Names from outside are in these lines, so they are shown with ``visible``.
"""

import contextlib
import logging
import sys
import time
import traceback
from types import TracebackType
from typing import Any

from paceline.repeated_lines import RepeatedLines
from paceline.visible import visible, without_logins


def say(text: str, program: str = "paceline") -> None:
    """One line."""
    if sys.stderr is not None:  # Python's word for one that is closed; print would choose standard output.
        with contextlib.suppress(OSError, ValueError):
            print(f"{program}: {visible(without_logins(text))}", file=sys.stderr, flush=True)


def log_to_stderr(level: str) -> None:
    """Log records from ``level`` on to standard error, one line each; what others' code repeats, ever more seldom."""
    handler = logging.StreamHandler()
    handler.addFilter(RepeatedLines())
    handler.setFormatter(VisibleFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level.upper(), handlers=[handler])


class VisibleFormatter(logging.Formatter):
    """Records one line each; a traceback follows its record, indented, so that no line of it looks like a record."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """The record's own line."""
        return visible(without_logins(super().formatMessage(record)))

    def formatException(self, ei: Any) -> str:  # noqa: N802 - logging's name
        """The traceback."""
        return _indented(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:  # noqa: N802 - logging's name
        """The stack."""
        return _indented(super().formatStack(stack_info))


def _indented(text: str) -> str:
    return "\n".join(f"    {visible(line)}" for line in without_logins(text).split("\n"))


def tell_crash(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Say what nobody caught, as Python does, without what addresses hold of logins: for ``sys.excepthook``."""
    told = "".join(traceback.format_exception(kind, error, trace))
    with contextlib.suppress(OSError, ValueError):
        print(
            "\n".join(visible(line) for line in without_logins(told).split("\n")), end="", file=sys.stderr, flush=True
        )


class Progress:
    """A line that is written over once a second on a terminal, and appears every ``quiet_s`` seconds in a log.

    The cursor waits at its start, so that what another program writes there gets a line of its own.
    """

    def __init__(self, quiet_s: float = 5.0) -> None:
        self._terminal = sys.stderr.isatty()
        self._every_s = 0.5 if self._terminal else quiet_s
        self._last = time.monotonic()
        self._shown = False

    def tell(self, text: str) -> None:
        """Show ``text`` if it is time to."""
        now = time.monotonic()
        if now - self._last < self._every_s:
            return
        self._last, self._shown = now, True
        if not self._terminal:
            say(text)
            return
        with contextlib.suppress(OSError, ValueError):
            print(f"\r\x1b[Kpaceline: {visible(text)}\r", end="", file=sys.stderr, flush=True)

    def say(self, text: str) -> None:
        """A line that stays."""
        self.end()
        say(text)

    def end(self) -> None:
        """Leave the terminal's line empty for what comes next."""
        if self._terminal and self._shown:
            self._shown = False
            with contextlib.suppress(OSError, ValueError):
                print("\r\x1b[K", end="", file=sys.stderr, flush=True)
