"""An event with its topic and time: what importers and the simulator make, for a recording or the bus.

Rule of this file: pure, and not encoded yet; ``recording.Line`` is the same message once it is.
"""

from typing import Any, NamedTuple

from paceline.topics import Topic


class TimedEvent(NamedTuple):
    """An event, its topic, and when it was sent (Unix time)."""

    time_s: float
    topic: Topic
    event: Any

    @property
    def timestamp_ms(self) -> int:
        """The time as a recording's line bears it."""
        return int(self.time_s * 1000)
