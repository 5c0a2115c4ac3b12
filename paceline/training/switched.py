"""The probe as what switches it sees it.

Rule of this file: an interface only, so that what switches the probe and what counts steps know nothing of each other.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol


class Switched(Protocol):
    """The probe, as far as it is switched from here: ``off`` and ``worked`` are read and set on the hot path."""

    off: bool
    worked: bool
    ring: "deque[tuple[Any, ...]]"
    #: What switches it: an ``Alternation``, or None.
    alternation: Any
    mark: Callable[..., None]
    #: Marks that the thread which sends them has taken, and the processor's nanoseconds that took it.
    taken: int
    taking_ns: int

    def pause(self) -> None:
        """Write nothing down until ``go_on``."""

    def go_on(self) -> None:
        """Write down again what happens."""
