"""What a publisher has done, in exact numbers.

Rule of this file: data only. Published + recovered = sent + pending + spooled + shed, at any time; ``corrupt`` counts
what damage on disk took, apart.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Stats:
    """A publisher's account. ``pending`` waits in memory, ``spooled`` on disk, ``shed`` is lost.

    ``recovered`` was found in the spool of an earlier process; ``connected``: a broker took the last batch.
    """

    sent: int = 0
    pending: int = 0
    spooled: int = 0
    shed: int = 0
    last_error: str | None = None
    shed_by_topic: dict[str, int] = field(default_factory=dict)
    recovered: int = 0
    corrupt: int = 0
    outages: int = 0
    connected: bool = False
    spooled_bytes: int = 0
