"""How long a capture may record: decided from a first look of a fraction of a second.

Rule of this file: pure; numbers in, a decision out. PyTorch does not say how many events it holds, so they are counted
once, in a look that is thrown away, and time stands for them from then on.
"""

from __future__ import annotations

from typing import NamedTuple

#: Events of a trace. Each costs the rank some 8 us when the profiler ends and the trace is written: 0.4 s for all.
MOST_EVENTS = 50_000
#: The look ends with the step, or after so long; a window after so long, or when the process has grown by so much.
LOOK_S, MOST_S, MOST_GROWN_BYTES = 0.2, 60.0, 256 * 1024 * 1024


class Look(NamedTuple):
    """What a first look has counted; ``whole``: it ended with its step."""

    events: int
    seconds: float
    whole: bool


class Plan(NamedTuple):
    """Whole steps to record, and after how long to stop all the same."""

    steps: int
    most_s: float

    def ends(self, done: int, elapsed_s: float) -> bool:
        """Whether to end after ``done`` steps in ``elapsed_s``: all are there, or another might not fit.

        >>> Plan(3, 10.0).ends(2, 4.0), Plan(3, 10.0).ends(3, 6.0), Plan(3, 10.0).ends(2, 8.0)
        (False, True, True)
        """
        return done >= self.steps or elapsed_s * (done + 1) / done > self.most_s


def planned(asked: int, look: Look) -> Plan:
    """What to record of the ``asked`` steps.

    Raises:
        ValueError: not even one step fits.

    >>> planned(20, Look(events=10_000, seconds=0.1, whole=True))
    Plan(steps=5, most_s=1.0)
    >>> planned(3, Look(events=0, seconds=0.2, whole=False))
    Plan(steps=3, most_s=60.0)
    """
    events = max(look.events, 1)
    if look.whole and events > MOST_EVENTS:
        raise ValueError(f"one step has {events:,} profiler events, and a trace at most {MOST_EVENTS:,}")
    most_s = MOST_EVENTS * look.seconds / events
    if look.whole:  # Steps are counted then, and some take longer than others.
        return Plan(min(asked, MOST_EVENTS // events), min(MOST_S, 2.0 * most_s))
    return Plan(asked, min(MOST_S, most_s))


def overrun(elapsed_s: float, most_s: float, grown_bytes: int) -> str | None:
    """Why recording has to stop before the step ends, None while it may go on.

    >>> overrun(0.3, 0.5, 0), overrun(0.6, 0.5, 0)
    (None, 'no step ended within the 0.5 s that a capture may take here')
    """
    if elapsed_s > most_s:
        return f"no step ended within the {most_s:.1f} s that a capture may take here"
    if grown_bytes > MOST_GROWN_BYTES:
        return f"the process grew by {grown_bytes >> 20} MiB during the capture; {MOST_GROWN_BYTES >> 20} at most"
    return None
