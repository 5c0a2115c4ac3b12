"""One message to one destination: the alerts that it tells of, and what is known to be reported once it has arrived.

Rule of this file: data only.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from paceline.events import Severity

from .alert import Alert
from .lifecycle import News, Told


class Entry(NamedTuple):
    """An alert in a message: what of it is news, and, where it is over, why and since when.

    ``ends_s`` of a firing one is when it counts as over if nothing more is reported; None is never. ``former`` is the
    severity under which it was reported before, where that has changed.
    """

    alert: Alert
    news: News
    ending: str
    ends_s: float | None
    former: Severity | None = None


@dataclass(frozen=True)
class Message:
    """``entries`` of the group (cluster, job), or of several groups where ``group`` is None; and ``more`` left out."""

    group: tuple[str, str] | None
    entries: tuple[Entry, ...]
    more: int = 0
    marks: dict[str, Told] = field(default_factory=dict)

    @property
    def firing(self) -> list[Entry]:
        """Those that hold."""
        return [entry for entry in self.entries if entry.news == "firing"]

    @property
    def resolved(self) -> list[Entry]:
        """Those that are over."""
        return [entry for entry in self.entries if entry.news == "resolved"]
