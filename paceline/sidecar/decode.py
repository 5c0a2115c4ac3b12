"""Decodes what one rank sends: marks in, rows out.

Rule of this file: pure, and safe from whatever a rank sends: marks that cannot be are refused before they are used.
"""

import math
from dataclasses import replace

from paceline.events import MOST_LEFT_OUT
from paceline.sidecar.open_collectives import OpenCollectives
from paceline.sidecar.probe_windows import ProbeWindows
from paceline.sidecar.rank_rows import Collective, RankRows, Report
from paceline.sidecar.timeline import Timeline
from paceline.training import marks
from paceline.training.messages import MOST_STEPS, Marks, Place, Settled

_SPANS = frozenset(range(marks.OTHER + 1)) | frozenset(range(marks.LEAVE, marks.LEAVE + marks.OTHER + 1))
_INSTANTS = frozenset((*range(marks.READY, marks.RAISED + 1), marks.BATCH, marks.BATCHED))
_KINDS = _SPANS | _INSTANTS
#: Kinds that come with a collective.
_COLLECTIVES = frozenset((marks.ISSUED, marks.STANDING))
_ANY = (-(2**63), 2**63 - 1)
#: Kinds that come with a number, and its bounds; those of ``_OPTIONAL`` may come without.
_NUMBERS = {
    **dict.fromkeys((marks.BOUND, marks.COMMUNICATION, marks.QUEUED, marks.BATCHED), _ANY),
    **dict.fromkeys((marks.WINDOW_OFF, marks.WINDOW_ON, marks.SAMPLE_ON), (0, MOST_STEPS)),
    marks.SAMPLE_OFF: (1, MOST_LEFT_OUT),
    **dict.fromkeys((marks.FORWARD, marks.BACKWARD), (0, marks.MOST_MICROBATCHES - 1)),
    marks.HOST_BOUND: (0, 2**53),  # nanoseconds: more days than a run lasts
}
_OPTIONAL = frozenset((marks.COMMUNICATION, marks.QUEUED, marks.BATCHED, marks.FORWARD, marks.BACKWARD))


def fault_in(message: Marks) -> str | None:
    """Why ``message`` cannot be a rank's, or None."""
    for _, kind, payload in message.marks:
        if kind < marks.READY and kind not in _SPANS:
            return f"a mark of unknown kind {kind}"
        bounds = _NUMBERS.get(kind)
        if kind in _COLLECTIVES:
            if not isinstance(payload, tuple):
                return f"a mark of kind {kind} without its payload"
        elif bounds is None:
            # An instant of a later version is passed over: a rank may be newer than its node's sidecar.
            if payload is not None and kind in _KINDS:
                return f"a mark of kind {kind} with a payload"
        elif isinstance(payload, int):
            if not bounds[0] <= payload <= bounds[1]:
                return f"a mark of kind {kind} with the number {payload}"
        elif payload is not None or kind not in _OPTIONAL:
            return f"a mark of kind {kind} without its number"
    return None


class MarkDecoder:
    """One rank's time, told mark by mark, from ``place`` on."""

    def __init__(self, place: Place | None = None) -> None:
        self._rows = RankRows(place.told if place is not None else 0)
        self._collectives = OpenCollectives(self._rows)
        self._timeline = Timeline(self._rows, self._collectives, place)
        self._windows = ProbeWindows()
        self._repeated = place.repeated if place is not None else 0
        self._resumed_at, self._told = (place.step, place.told) if place is not None else (0, 0)
        self.lost = 0

    def decode(self, message: Marks) -> Report | None:
        """Take in what the rank wrote down; what has become of it so far."""
        self._rows.offset_ns, self._timeline.device_clock = message.offset_ns, message.on_device
        self.lost += message.lost
        feed, repeated = self._timeline.feed, max(self._repeated - self._timeline.fed, 0)
        for time_ns, kind, payload in message.marks[:repeated]:
            feed(time_ns, kind, payload)
        if repeated:
            self._rows.repeat_collectives(self._resumed_at)
        for time_ns, kind, payload in message.marks[repeated:]:
            feed(time_ns, kind, payload)
        for time_ns, kind, payload in message.marks:
            if marks.WINDOW_OFF <= kind <= marks.STEPPED:
                self._windows.feed(time_ns + message.offset_ns, kind, payload)
        return self._rows.drain(message.link, message.lost, self._windows.drain())

    def end(self) -> Report | None:
        """Nothing will follow: what the last step comes to."""
        self._timeline.end()
        return self._rows.drain()

    def settled(self, before: float = math.inf) -> Settled | None:
        """What another in our place would need to go on from what has been decoded; None before a step was reported.

        Steps from ``before`` on are not safe, though their rows may have been reported.
        """
        told = self._timeline.told
        while len(told) > 1 and told[1][1].step <= before:
            told.popleft()
        if not told or told[0][1].step > before:
            return None
        marks, place = told[0]
        repeated = max(self._timeline.fed, self._repeated) - marks
        open_before = sum(1 for one in self._collectives.open() if one.start < place.start_ns)
        place = replace(place, repeated=repeated, told=max(told[-1][1].step, self._told))
        return Settled(marks=marks, place=place, lost=self.lost, open=open_before)

    def open(self, before_s: float) -> list[tuple[Collective, float]]:
        """The collectives issued before ``before_s`` (Unix time) whose result is not there yet, with when they were."""
        started = [(one, (one.start + self._rows.offset_ns) / 1e9) for one in self._collectives.open()]
        # A rank whose offset is wrong would have begun before 1970, which no event may say.
        return [(collective, start_s) for collective, start_s in started if 0.0 <= start_s < before_s]
