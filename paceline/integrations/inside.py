"""What every framework's callback does: begin the timing, take the points that have come, end.

Rule of this file: no framework. Nothing here waits, and nothing is raised into the script: where timing cannot be had,
there are no points.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from paceline.training import stop
from paceline.training.activation import fail
from paceline.training.messages import SOCKET_VARIABLE
from paceline.training.telling import tell
from paceline.training.tracking import callback
from paceline.training.tracking_words import TRACKING_VARIABLE
from paceline.training.watching import start


def begin() -> None:
    """Time this process, on every rank; under ``paceline run --track`` it is timed already."""
    try:
        _begin()
    except Exception as error:
        fail(error)


def _begin() -> None:
    if os.environ.get(SOCKET_VARIABLE) and not os.environ.get(TRACKING_VARIABLE):
        tell("the callback logs nothing: start with `paceline run --track auto`, or without `paceline run`")
    callback.wanted = True
    start(track=True)


def taken() -> dict[str, float]:
    """What was measured since the last time, by the names of metrics; on rank 0 alone there is anything."""
    try:
        told = callback.take()
        return {} if told is None else told.values
    except Exception as error:
        fail(error)
        return {}


@contextmanager
def harmless() -> Iterator[None]:
    """What fails inside ends the timing, not the training: a logger that does not take our points, say."""
    try:
        yield
    except Exception as error:
        callback.wanted = False
        fail(error)


def end() -> None:
    """Training is over."""
    try:
        callback.wanted = False
        stop()
    except Exception as error:
        fail(error)
