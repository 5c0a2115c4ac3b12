"""What becomes of a message that could not be used."""

from paceline.events.base import Event, LongWord, Time, Whole


class DeadLetter(Event, frozen=True, kw_only=True):
    """A message that could not be used: why, where it came from, and its first bytes (base64)."""

    reason: str
    topic: LongWord
    partition: Whole
    offset: Whole
    time_s: Time
    excerpt: str
