"""How much a call works, counted: no verdict depends on how fast the machine is.

Rule of this file: what is counted is the same on every machine. A loop in Python costs a step a turn; one in C costs
none, but what it makes costs bytes.
"""

import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy.ma  # noqa: F401 - numpy loads it at the first median of a table: ten megabytes that are no message's


class TooMuchWorkError(AssertionError):
    """A call has gone on for more steps than it may; it was ended there."""


class Work:
    """What was done so far: ``steps`` of Python, and ``bytes`` at most that were held beyond those before."""

    def __init__(self) -> None:
        self.steps = 0
        self.bytes = 0


@contextmanager
def counted(most_steps: int, most_bytes: int | None = None) -> Iterator[Work]:
    """Count what is done inside; it fails beyond ``most_steps``, right where it is then.

    Raises:
        TooMuchWorkError: of steps.
        AssertionError: more than ``most_bytes`` were held at a time.
    """
    work = Work()

    def count(_frame: object, event: str, _said: object) -> Any:
        if event == "line":
            work.steps += 1
            if work.steps > most_steps:
                raise TooMuchWorkError(f"more than {most_steps} steps")
        return count

    outer, before = sys.gettrace(), 0
    if most_bytes is not None:
        tracemalloc.start(1)
        before = tracemalloc.get_traced_memory()[0]
    sys.settrace(count)
    try:
        yield work
    finally:
        sys.settrace(outer)
        if most_bytes is not None:
            work.bytes = tracemalloc.get_traced_memory()[1] - before
            tracemalloc.stop()
    assert most_bytes is None or work.bytes <= most_bytes, f"{work.bytes} bytes at a time; {most_bytes} are allowed"
