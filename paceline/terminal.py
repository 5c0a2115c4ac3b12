"""What commands say to a person: lines on standard error that start with the program's name.

Rule of this file: standard output belongs to data, so nothing here writes to it; a terminal that has gone is no error.
"""

import contextlib
import sys
import time


def say(text: str) -> None:
    """One line."""
    with contextlib.suppress(OSError, ValueError):
        print(f"paceline: {text}", file=sys.stderr, flush=True)


class Progress:
    """A line that is written over once a second on a terminal, and appears every ``quiet_s`` seconds in a log."""

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
            print(f"\r\x1b[Kpaceline: {text}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Leave the terminal's line empty for what comes next."""
        if self._terminal and self._shown:
            self._shown = False
            with contextlib.suppress(OSError, ValueError):
                print("\r\x1b[K", end="", file=sys.stderr, flush=True)
