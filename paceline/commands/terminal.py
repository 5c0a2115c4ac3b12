"""What commands say to a person: lines on standard error that start with the program's name.

Rule of this file: standard output belongs to data, so nothing here writes to it; a terminal that has gone is no error.
"""

import sys


def say(text: str) -> None:
    """One line."""
    try:
        print(f"paceline: {text}", file=sys.stderr, flush=True)
    except (OSError, ValueError):
        return
