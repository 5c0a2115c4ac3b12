"""What is known of each job: where it runs, how fast, what kind it is.

Rule of this file: pure and bounded; a job that was not heard of for longest goes first.
"""

import msgspec

from paceline.events import JobDescribed, JobProfile, JobWindow
from paceline.held_bytes import HeldBytes, size_of
from paceline.job_life import JobLife

from ..stored import Kept, Stored
from .apply_commands import Scheduler, scheduler_of

MOST_JOBS = 2000
#: Ranks whose processes are remembered, of a job.
MOST_PLACES = 20_000
MOST_LABELS = 32
#: Bytes of the names of one job's nodes, a rank each: of 20,000 with 300 characters; and of its labels.
MOST_NAME_BYTES, MOST_LABEL_BYTES = 8 * 2**20, 64 * 1024
#: What all jobs take: 2,000 of 500 ranks.
JOB_BYTES = 256 * 2**20
#: What a rank takes beside the name of its node.
_PLACE_BYTES = 192
#: Windows of ``MEDIUM_WINDOW_S`` whose pace is kept.
KEPT_PACE = 12


class JobFacts(msgspec.Struct, kw_only=True):
    """One job, at its newest attempt. ``places``: rank -> (node, process). ``pace``: the newest step times, s."""

    attempt: int = 0
    described: bool = False
    world_size: int = 0
    batch_size: int | None = None
    labels: dict[str, str] = {}
    places: dict[int, tuple[str, int]] = {}
    #: What the names of the nodes in ``places`` take.
    name_bytes: int = 0
    #: Which parts of its nodes are there, and which have left.
    life: JobLife = msgspec.field(default_factory=lambda: JobLife(0))
    has_steps: bool = False
    kind: str = ""
    kind_probability: float = 0.0
    pace: list[float] = []
    #: Windows of this attempt, and seconds in them.
    windows: int = 0
    newest_s: float = -1.0

    @property
    def nodes(self) -> set[str]:
        """The nodes that it runs on."""
        return {node for node, _ in self.places.values()}

    def beyond(self, node: str) -> bool:
        """Whether it has ranks on another node than ``node``."""
        return any(other != node for other, _ in self.places.values())

    @property
    def over(self) -> bool:
        """Whether all of its ranks have left."""
        return self.complete and self.life.ended_s is not None

    @property
    def complete(self) -> bool:
        """Whether all of its nodes have described it."""
        return self.world_size > 0 and len(self.places) >= self.world_size

    @property
    def held_bytes(self) -> int:
        """What it takes in memory."""
        about = size_of(self.labels) + size_of(self.kind) + size_of(self.pace)
        return about + self.name_bytes + _PLACE_BYTES * len(self.places) + self.life.held_bytes

    def place(self, rank: int, node: str, pid: int) -> None:
        """Note where a rank runs, where there is room for it."""
        known = self.places.get(rank)
        more = size_of(node) - (size_of(known[0]) if known is not None else 0)
        if (known is None and len(self.places) >= MOST_PLACES) or self.name_bytes + more > MOST_NAME_BYTES:
            return
        self.name_bytes += more
        self.places[rank] = (node, pid)

    def is_kind(self, least_probability: float) -> str:
        """What kind of job it is: one that steps trains, whatever its GPUs look like; "" where nobody is sure."""
        if self.has_steps:
            return "training"
        return self.kind if self.kind_probability >= least_probability else ""


class Jobs(Stored):
    """All jobs of a cluster."""

    facts: Kept[dict[str, JobFacts]]
    scheduler: Kept[Scheduler]

    def __init__(self) -> None:
        self.facts = {}
        #: Who starts jobs here, by the newest job that tells.
        self.scheduler = ""
        self._held = HeldBytes[str](JOB_BYTES, MOST_JOBS)

    def loaded(self) -> None:
        """Count again what they take."""
        self._held = HeldBytes[str](JOB_BYTES, MOST_JOBS)
        for job, facts in list(self.facts.items()):
            facts.name_bytes = sum(size_of(node) for node, _ in facts.places.values())
            self._make_room(job)

    def of(self, job: str) -> JobFacts:
        """What is known of ``job``; nothing is remembered by asking."""
        return self.facts.get(job) or JobFacts()

    def know_another(self, node: str) -> bool:
        """Whether any job runs, or ran, on another node than ``node``."""
        return any(facts.beyond(node) for facts in self.facts.values())

    def describe(self, event: JobDescribed) -> bool:
        """Take in where one node says that a job runs; whether it is a newer attempt than was known."""
        facts = self._at(event.job, event.attempt)
        if facts is None:
            return False
        fresh = not facts.described
        facts.described = True
        facts.world_size = max(event.world_size, 0)
        facts.batch_size = event.batch_size
        facts.labels = _few(event.labels)
        self.scheduler = scheduler_of(facts.labels) or self.scheduler
        for place in event.places:
            facts.place(place.rank, place.node, place.pid)
        facts.life.update(event)
        self._make_room(event.job)
        return fresh

    def profile(self, event: JobProfile) -> None:
        """Take in what kind of job it is."""
        facts = self._at(event.job, event.attempt)
        if facts is not None:
            facts.kind, facts.kind_probability = event.kind or "", event.kind_probability or 0.0

    def window(self, event: JobWindow) -> JobFacts | None:
        """Take in ten seconds of a job's steps; None where they were reported before, or are of an older attempt."""
        facts = self._at(event.job, event.attempt)
        # A clock that was set back does not stop a job's pace; a stretch that is told again does not count twice.
        if facts is None or facts.newest_s - 3600.0 < event.start_s <= facts.newest_s:
            return None
        facts.newest_s = event.start_s
        facts.has_steps = True
        facts.windows += 1
        if event.steps > 0 and event.step_median_s > 0.0:
            facts.pace = [*facts.pace[1 - KEPT_PACE :], event.step_median_s]
        return facts

    def steps(self, job: str, attempt: int) -> None:
        """A job has steps, for a finding says so."""
        facts = self._at(job, attempt)
        if facts is not None:
            facts.has_steps = True

    def _at(self, job: str, attempt: int) -> JobFacts | None:
        """The facts of an attempt, which a newer one begins anew; None of an older one."""
        before = self.facts.pop(job, None)
        if before is None or attempt > before.attempt:
            facts = JobFacts(attempt=attempt, life=JobLife(attempt))
            if before is not None:
                facts.kind, facts.kind_probability = before.kind, before.kind_probability
        else:
            facts = before
        self.facts[job] = facts
        self._make_room(job)
        return facts if attempt == facts.attempt else None

    def _make_room(self, job: str) -> None:
        """Count what is kept of ``job``, the newest; those that were not heard of for longest go."""
        for gone in self._held.note(job, self.facts[job].held_bytes):
            self._forget(gone)

    def _forget(self, job: str) -> None:
        del self.facts[job]
        self._held.forget(job)


def _few(labels: dict[str, str]) -> dict[str, str]:
    """The first ones, up to ``MOST_LABELS`` and ``MOST_LABEL_BYTES``."""
    kept: dict[str, str] = {}
    size = 0
    for name, value in list(labels.items())[:MOST_LABELS]:
        size += size_of(name) + size_of(value)
        if size > MOST_LABEL_BYTES:
            break
        kept[name] = value
    return kept
