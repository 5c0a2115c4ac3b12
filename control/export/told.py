"""What is told of a session beside its messages."""

from typing import NamedTuple


class Told(NamedTuple):
    """A session: ``devices`` are those to show (``node:index`` or UUID; empty: all), ``silences`` who was not heard
    from when to when (None: still), ``gaps`` what the brokers had lost."""

    name: str
    started_s: float
    stopped_s: float | None
    devices: tuple[str, ...] = ()
    silences: tuple[tuple[str, float, float | None], ...] = ()
    gaps: tuple[str, ...] = ()
    complete: bool = False
    missing_count: int = 0
    interval_s: float | None = None

    def silent_at(self, time_s: float) -> list[str]:
        """Who was silent at that time."""
        return sorted(
            {who for who, from_s, to_s in self.silences if from_s <= time_s and (to_s is None or time_s < to_s)}
        )
