"""Whether an attempt of a job goes on, and in which stages its ranks are, from what its nodes say of it.

Rule of this file: pure and bounded. Each node's sidecar speaks for its own ranks, in any order and more than once; a
job has ended when all nodes that ever spoke have left, and how is told by an exit status that is not 0, if any. Who
died without a word, and whose ranks another has started since (a pod that was killed, and the next one), has left.
Two runs may have one name by mistake: what is measured well after the end is of the one that goes on.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from paceline.events import JobDescribed
from paceline.held_bytes import size_of

#: Nodes of one job that are known by name; no job has more.
MOST_NODES = 20_000
#: Bytes of their names: twice so many of 100 characters. Beyond it a node that was not known is passed over.
MOST_NAME_BYTES = 8 * 2**20
#: What an entry takes beside its name.
_ENTRY_BYTES = 128
#: What begins so long after the end of a job shows that it runs: clocks of nodes are closer than that.
BEYOND_S = 20.0


def stages_of(parts: Iterable[JobDescribed]) -> dict[int, int]:
    """By rank its pipeline stage, where that is known, from what the nodes of one job say."""
    return {place.rank: place.pp for part in parts for place in part.places if place.pp is not None}


@dataclass
class JobLife:
    """One attempt of a job: its nodes, or parts of them, each with the time when its ranks left, None before."""

    attempt: int
    nodes: dict[str, float | None] = field(default_factory=dict)
    exit_status: int | None = None
    #: By the lowest rank that it speaks for: who started last, and when.
    speakers: dict[int, tuple[str, float]] = field(default_factory=dict)
    #: What the names take; worked out again when it is read back.
    name_bytes: int = 0

    def __post_init__(self) -> None:
        names = [*self.nodes, *(teller for teller, _ in self.speakers.values())]
        self.name_bytes = sum(map(size_of, names))
        # Both times are asked for far more often than a node speaks, and a job may have thousands of nodes.
        self._running = sum(end is None for end in self.nodes.values())
        self._last_end_s: float | None = None
        self._begun: tuple[float | None] | None = None

    @property
    def held_bytes(self) -> int:
        """What all of it takes in memory."""
        return self.name_bytes + _ENTRY_BYTES * (len(self.nodes) + len(self.speakers))

    def update(self, event: JobDescribed) -> None:
        """Take what one node says; what it says of another attempt is passed over."""
        if event.attempt != self.attempt:
            return
        self._begun = None
        if self._is_replaced(event) and not self._ran_beside(event):
            self._leave(event.teller)
            return
        self._join(event.teller, event.ended_s)
        if event.exit_status or self.exit_status is None:
            self.exit_status = event.exit_status

    def _join(self, teller: str, ended_s: float | None) -> None:
        if teller not in self.nodes:
            size = size_of(teller)
            if len(self.nodes) >= MOST_NODES or self.name_bytes + size > MOST_NAME_BYTES:
                return
            self.name_bytes += size
        else:
            self._forget_end(self.nodes[teller])
        self.nodes[teller] = ended_s
        self._running += ended_s is None
        if ended_s is not None and self._last_end_s is not None:
            self._last_end_s = max(self._last_end_s, ended_s)

    def _leave(self, teller: str) -> None:
        if teller in self.nodes:
            self._forget_end(self.nodes.pop(teller))
            self.name_bytes -= size_of(teller)

    def _forget_end(self, end_s: float | None) -> None:
        self._running -= end_s is None
        if end_s is not None and end_s == self._last_end_s:
            self._last_end_s = None

    def _speak(self, lowest: int, teller: str, started_s: float) -> None:
        """Note who started the ranks from ``lowest`` on last, where there is room for one more."""
        known = self.speakers.get(lowest)
        more = size_of(teller) - (size_of(known[0]) if known is not None else 0)
        if (known is None and len(self.speakers) >= MOST_NODES) or self.name_bytes + more > MOST_NAME_BYTES:
            return
        self.name_bytes += more
        self.speakers[lowest] = teller, started_s

    def _is_replaced(self, event: JobDescribed) -> bool:
        """Whether somebody else has started the ranks of ``event`` since; whom ``event`` replaces is forgotten."""
        lowest = min((place.rank for place in event.places), default=None)
        if lowest is None:
            return False
        teller, started_s = self.speakers.get(lowest, (event.teller, event.started_s))
        if teller != event.teller and event.started_s < started_s:
            return True
        if (
            teller != event.teller
            and event.started_s > started_s
            and not (self.nodes.get(teller) or 0.0) > event.started_s
        ):
            self._leave(teller)
        self._speak(lowest, event.teller, event.started_s)
        return False

    def _ran_beside(self, event: JobDescribed) -> bool:
        """Whether ``event`` is the goodbye of one that ran when somebody else started its ranks as well."""
        lowest = min(place.rank for place in event.places)
        return event.ended_s is not None and event.ended_s > self.speakers[lowest][1]

    def ended_by(self, measured_s: float | None) -> float | None:
        """When it ended; None as well where something that began at ``measured_s`` shows that a run goes on.

        >>> life = JobLife(0, {"a": 5.0})
        >>> life.ended_by(6.0), life.ended_by(26.0), life.ended_by(None)
        (5.0, None, 5.0)
        """
        ended_s = self.ended_s
        goes_on = ended_s is not None and measured_s is not None and measured_s > ended_s + BEYOND_S
        return None if goes_on else ended_s

    def succeeded_by(self, event: JobDescribed) -> bool:
        """Whether ``event`` is of a later attempt, or of another run of this name that began after this one's end."""
        ended_s = self.ended_s
        return event.attempt > self.attempt or (ended_s is not None and event.started_s > ended_s)

    @property
    def ended_s(self) -> float | None:
        """When the last node's ranks left; None while some are there, or where nobody has spoken.

        >>> life = JobLife(0, {"a": 5.0, "b": None})
        >>> life.ended_s
        >>> JobLife(0, {"a": 5.0, "b": 7.0}).ended_s
        7.0
        """
        if self._running or not self.nodes:
            return None
        if self._last_end_s is None:
            self._last_end_s = max(end for end in self.nodes.values() if end is not None)
        return self._last_end_s

    @property
    def begun_s(self) -> float | None:
        """When the first of those was started whose ranks run, or of all once all have left; None where it is unknown.

        A node that left before may be of an earlier run of this name: the bus keeps what each said last.

        >>> JobLife(0, {"a": 5.0, "b": None}, speakers={0: ("a", 1.0), 8: ("b", 7.0)}).begun_s
        7.0
        """
        if self._begun is None:
            running = [start_s for teller, start_s in self.speakers.values() if self.nodes.get(teller) is None]
            self._begun = (min(running or (start_s for _, start_s in self.speakers.values()), default=None),)
        return self._begun[0]
