"""Unsettled: what has been sent to a sidecar and would be lost with it, kept to be sent to the next.

Rule of this file: pure and bounded. Marks are forgotten once the sidecar says that what they came to is safe. Where it
says nothing for long, the oldest go; they are lost only if that sidecar dies, and only then counted.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from paceline.training import marks
from paceline.training.messages import Place, Settled

Mark = tuple[Any, ...]

#: Marks kept: some 10 s of short steps, where a sidecar usually settles within two.
MOST = 50_000


class Unsettled:
    """The marks of one connection that are not safe yet; ``again`` begins the next connection."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._marks: deque[Mark] = deque()
        #: Number of the oldest mark kept, and what was told lost, on this connection.
        self._first = 0
        self._lost = 0
        self._settled: Settled | None = None
        #: Steps that ended in marks which had to go, by either way of telling.
        self._gone = {marks.STEP: 0, marks.LEAVE + marks.OPTIMIZER: 0}
        #: Steps that were left out between marks which had to go.
        self._left_out = 0

    def add(self, sent: list[Mark], lost: int) -> None:
        """These marks are on their way, and that so many were lost before them."""
        self._marks.extend(sent)
        self._lost += lost
        while len(self._marks) > self._most:
            _, kind, payload, *_ = self._marks.popleft()
            self._first += 1
            if kind in self._gone:
                self._gone[kind] += 1
            elif kind == marks.SAMPLE_ON:
                self._left_out += payload

    def settle(self, told: Settled) -> None:
        """The sidecar says what is safe."""
        self._settled = told
        if told.marks < self._first:
            return
        self._gone, self._left_out = dict.fromkeys(self._gone, 0), 0
        while self._first < told.marks and self._marks:
            self._marks.popleft()
            self._first += 1

    def again(self) -> tuple[Place | None, list[Mark], int]:
        """The sidecar has died: where its successor begins, the marks to send it first, and how many are lost for good.

        They are kept, as the first of the next connection.
        """
        told, again = self._settled, list(self._marks)
        place = told.place if told is not None else None
        safe = told.marks if told is not None else 0
        gone = self._first - safe
        lost = self._lost + gone - (told.lost - told.open if told is not None else 0)
        if gone and again:
            place = self._after_gap(place, gone, again[0][0])
        self._first, self._lost = 0, lost
        self._gone, self._left_out = dict.fromkeys(self._gone, 0), 0
        self._settled = Settled(marks=0, place=place) if place is not None else None
        return place, again, lost

    def _after_gap(self, place: Place | None, gone: int, start_ns: int) -> Place:
        """About where the oldest mark kept is: a step has one end in nearly all scripts."""
        ends = self._gone[marks.STEP] or self._gone[marks.LEAVE + marks.OPTIMIZER]
        return Place(
            step=(place.step if place is not None else 0) + ends + self._left_out,
            start_ns=start_ns,
            explicit=place.explicit if place is not None else self._gone[marks.STEP] > 0,
            compiled=place is not None and place.compiled,
            exchanges=place is not None and place.exchanges,
            repeated=max(place.repeated - gone, 0) if place is not None else 0,
            told=place.told if place is not None else 0,
        )
