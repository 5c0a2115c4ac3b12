"""Windows of several lengths that tell of the same time, of one device or host: each five minutes are counted once.

Rule of this file: pure and bounded. Windows of less than a minute and those of a minute and more both tell of the whole
time, so of each five minutes those are counted that tell of more of it; of equals the longer. Of a minute and more they
follow each other: an archive replaces minutes with what it makes of five, whose length is the time that has data.
"""

from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar

import msgspec

from paceline.events import ARCHIVE_WINDOW_S, LONG_WINDOW_S, DeviceWindow, HostWindow
from paceline.repeats import Repeats

#: Windows lie within such a stretch of time: their lengths divide it.
STRETCH_S = ARCHIVE_WINDOW_S


class Part(Protocol):
    """What is summed of windows: how many seconds they tell of, and whatever else."""

    seconds: float


P = TypeVar("P", bound=Part)


class Stretches(Generic[P]):
    """One subject's newest stretches. ``make``: an empty part."""

    __slots__ = ("_make", "_open", "_repeats")

    def __init__(self, make: Callable[[], P]) -> None:
        self._make = make
        #: By number of the stretch, of windows of a minute and more (True) and of shorter ones.
        self._open: dict[int, dict[bool, P]] = {}
        self._repeats: dict[bool, Repeats] = {}

    def part(self, window: DeviceWindow | HostWindow) -> P | None:
        """Where ``window`` is to be added; None where it was counted before."""
        long = window.length_s >= LONG_WINDOW_S
        job = None if isinstance(window, HostWindow) or window.job is msgspec.UNSET else window.job
        if not self._repeats.setdefault(long, Repeats()).is_new(
            window.start_s, window.length_s, (window.length_s, job)
        ):
            return None
        parts = self._open.setdefault(int(window.start_s // STRETCH_S), {})
        if long not in parts:
            parts[long] = self._make()
        return parts[long]

    def past(self, start_s: float) -> Iterator[tuple[float, P]]:
        """Stretches to which nothing is added once a window starts at ``start_s``: their starts and what counts.

        The one before is still open: its last minute comes after the first seconds of the next.
        """
        newest = int(start_s // STRETCH_S)
        for number in sorted(number for number in self._open if number < newest - 1):
            yield number * STRETCH_S, _counted(self._open.pop(number))

    def rest(self) -> list[tuple[float, P]]:
        """The stretches that are open."""
        return [(number * STRETCH_S, _counted(parts)) for number, parts in sorted(self._open.items())]


def _counted(parts: dict[bool, P]) -> P:
    return max(parts.items(), key=lambda item: (item[1].seconds, item[0]))[1]
