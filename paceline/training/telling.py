"""What timing says to a person, from inside the user's process: lines on standard error.

Rule of this file: it raises nothing. Standard error may be closed, full, gone or replaced by whatever the script likes.
"""

from __future__ import annotations

import sys

from paceline.visible import visible


def tell(text: str) -> None:
    """One line, where there is somebody to read it."""
    try:
        if sys.stderr is not None:  # print would choose standard output, which is the script's
            print(f"paceline: {visible(text)}", file=sys.stderr, flush=True)
    except Exception:
        return


def reason(error: BaseException) -> str:
    """``error`` on one line, as far as it tells of itself."""
    try:
        return " ".join(f"{type(error).__name__}: {error}".split())[:300].rstrip(": ")
    except Exception:
        return type(error).__name__
