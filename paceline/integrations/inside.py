"""What every framework's callback does: begin the timing, take the points that have come, end.

Rule of this file: no framework. Nothing here waits, and nothing is raised into the script: where timing cannot be had,
there are no points.
"""

from __future__ import annotations

import os
import sys

from paceline.training import stop
from paceline.training.messages import SOCKET_VARIABLE
from paceline.training.tracking import callback
from paceline.training.tracking_words import TRACKING_VARIABLE
from paceline.training.watching import start


def begin() -> None:
    """Time this process, on every rank; under ``paceline run --track`` it is timed already."""
    if os.environ.get(SOCKET_VARIABLE) and not os.environ.get(TRACKING_VARIABLE):
        print(
            "paceline: the callback logs nothing: start with `paceline run --track auto`, or without `paceline run`",
            file=sys.stderr,
            flush=True,
        )
    callback.wanted = True
    start(track=True)


def taken() -> dict[str, float]:
    """What was measured since the last time, by the names of metrics; on rank 0 alone there is anything."""
    told = callback.take()
    return {} if told is None else told.values


def end() -> None:
    """Training is over."""
    callback.wanted = False
    stop()
