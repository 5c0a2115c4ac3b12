"""How often open pages are drawn again: every two seconds, or less often while they are many.

Rule of this file: pure. All pages of a server are drawn by one Python process, one at a time in effect: beyond a part
of a processor they would only wait for each other, and clicks with them.
"""

from collections import OrderedDict

#: Seconds between two drawings of a page, at best and at most.
SHORTEST_S, LONGEST_S = 2.0, 64.0
#: Of a processor: drawing takes so much at most; and what it must stay below with half the interval to go back to that.
MOST, WELL = 0.5, 0.35
#: A page that was not drawn for so many intervals is closed, or paused.
GONE = 3.0
#: Pages that are followed.
PAGES = 1000


class RefreshRate:
    """Told what each drawing took, it says how long pages wait for the next.

    >>> rate = RefreshRate()
    >>> for page in range(20):
    ...     rate.drawn(str(page), 0.09, at_s=page / 10)
    >>> rate.interval_s(2.0)
    4.0
    """

    def __init__(self) -> None:
        self._interval_s = SHORTEST_S
        #: When each page was drawn, and the seconds of a processor that it took.
        self._pages: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def drawn(self, page: str, took_s: float, at_s: float) -> None:
        """``page`` was drawn, which took ``took_s`` of a processor; times on one clock, in seconds."""
        self._pages[page] = (at_s, took_s)
        self._pages.move_to_end(page)
        if len(self._pages) > PAGES:
            self._pages.popitem(last=False)

    def interval_s(self, now_s: float) -> float:
        """Seconds between two drawings of each page from now on."""
        took_s = sum(took for _, took in self._open(now_s))
        while took_s > MOST * self._interval_s and self._interval_s < LONGEST_S:
            self._interval_s *= 2
        while self._interval_s > SHORTEST_S and took_s <= WELL * self._interval_s / 2:
            self._interval_s /= 2
        return self._interval_s

    def pages(self, now_s: float) -> int:
        """How many are open."""
        return len(self._open(now_s))

    def _open(self, now_s: float) -> list[tuple[float, float]]:
        return [held for held in self._pages.values() if now_s - held[0] <= GONE * self._interval_s]
