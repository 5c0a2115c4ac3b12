"""What went through a worker's door, for ``/metrics``.

Rule of this file: counts only, of a bounded number of jobs; who counts is the door.
"""

from collections import defaultdict
from dataclasses import dataclass, field

from paceline.events import JobWindow

from .producers import Producers

#: The windows that ``/metrics`` tells of, and for how many jobs at most.
WINDOW_S = 10.0
MOST_JOBS = 1000


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
    #: The latest window of each job: median step in seconds, and steps a second.
    jobs: dict[str, tuple[float, float]] = field(default_factory=dict)

    def see(self, window: JobWindow) -> None:
        """Keep what a window tells of its job; of many jobs the newest."""
        self.jobs.pop(window.job, None)
        self.jobs[window.job] = (window.step_median_s, window.steps / window.length_s)
        while len(self.jobs) > MOST_JOBS:
            del self.jobs[next(iter(self.jobs))]
