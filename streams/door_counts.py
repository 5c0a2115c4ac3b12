"""What went through a worker's door, for ``/metrics``.

Rule of this file: counts only, of a bounded number of jobs; who counts is the door.
"""

from collections import defaultdict
from dataclasses import dataclass, field

from .job_meters import JobMeters
from .producers import Producers


@dataclass
class DoorCounts:
    """What went through the door, for ``/metrics``."""

    events: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    bytes: int = 0
    published: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    dead_letters: int = 0
    #: Dead letters by topic and class of reason.
    refused: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))
    producers: Producers = field(default_factory=Producers)
    states_dropped: int = 0
    unreadable: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    remade: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    checkpoints: int = 0
    checkpoint_bytes: int = 0
    commits: int = 0
    newest_event_s: float | None = None
    #: When a snapshot was stored last, or nothing was left to store, by the door's clock.
    stored_s: float = 0.0
    jobs: JobMeters = field(default_factory=JobMeters)
