"""The diagnosis of one attempt of one job: events in, findings out.

Rule of this file: it wires the pieces of this package together and holds no rule of its own. Phases and collectives
arrive on two topics whose order against each other nobody promises, so the two lines of judgement share nothing.
"""

from typing import Any

from paceline.events import CollectiveTimings, Finding, OpTimings

from . import wording
from .cohorts import Cohorts
from .collectives import Collectives
from .config import Config
from .ledger import Ledger
from .state import pack, unpack
from .steps import Steps
from .straggler import Straggler
from .ticks import Ticks

#: Layout of the snapshot; another version is not read.
_LAYOUT = 2


class Phases:
    """The verdict from phases: OpTimings to findings."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.ledger = Ledger()
        self.steps = Steps(config, self.ledger)
        self.cohorts = Cohorts()
        self.ticks = Ticks(config.tick_s, self.cohorts)
        self.straggler = Straggler(config)
        self.judged = 0
        self.places: dict[int, tuple[str, str]] = {}

    def update(self, batch: OpTimings) -> list[Finding]:
        """Take in one batch."""
        if not self.ledger.admit(batch.producer, batch.sequence):
            return []
        self.ledger.hear(batch.ranks, batch.world_sizes)
        self.cohorts.place(batch.ranks, batch.pp)
        for rank, device in zip(batch.ranks, batch.devices, strict=True):
            self.places[rank] = (batch.node, device)
        has_loader = "data" in batch.ops
        found = []
        for step in self.steps.update(batch):
            self.judged += 1
            if self.judged <= self.config.warmup_steps:
                continue
            tick = self.ticks.update(step)
            if tick is None:
                continue
            for episode in self.straggler.update(tick, has_loader):
                node, device = self.places.get(episode.rank, ("", ""))
                subject = wording.Subject(batch.cluster, batch.job, batch.attempt, node, device)
                cleared = self.straggler.verdict(episode.rank).cleared
                found.append(wording.straggler(episode, subject, self.ledger.coverage(), cleared, self.config))
        return found

    def snapshot(self) -> dict[str, Any]:
        """The state as plain data and arrays."""
        return {
            "ledger": self.ledger.snapshot(),
            "steps": self.steps.snapshot(),
            "cohorts": self.cohorts.snapshot(),
            "ticks": self.ticks.snapshot(),
            "straggler": self.straggler.snapshot(),
            "judged": self.judged,
            "places": [[rank, *place] for rank, place in self.places.items()],
        }

    def load(self, data: dict[str, Any]) -> None:
        """Take the state that ``snapshot`` described."""
        self.ledger = Ledger.restore(data["ledger"])
        self.steps = Steps(self.config, self.ledger)
        self.steps.load(data["steps"])
        self.cohorts.load(data["cohorts"])
        self.ticks.load(data["ticks"])
        self.straggler.load(data["straggler"])
        self.judged = data["judged"]
        self.places = {rank: (node, device) for rank, node, device in data["places"]}


class Diagnosis:
    """Judges one (cluster, job, attempt); every event given to it must be of that one.

    The same events give the same findings whatever their batching. Messages that repeat, by producer and sequence
    number, are dropped.
    """

    def __init__(self, config: Config | None = None) -> None:
        self.config = config or Config()
        self.phases = Phases(self.config)
        self.collectives = Collectives(self.config)

    def update(self, event: OpTimings | CollectiveTimings) -> list[Finding]:
        """Take in one event; the findings that it brings to light or changes."""
        if isinstance(event, OpTimings):
            return self.phases.update(event)
        return self.collectives.update(event)

    def snapshot(self) -> bytes:
        """The whole state, compressed."""
        return pack({"layout": _LAYOUT, "phases": self.phases.snapshot(), "collectives": self.collectives.snapshot()})

    @classmethod
    def restore(cls, data: bytes, config: Config | None = None) -> "Diagnosis":
        """The diagnosis that ``snapshot`` described.

        Raises:
            ValueError: ``data`` is no snapshot of this version.
        """
        state = unpack(data)
        if state.get("layout") != _LAYOUT:
            raise ValueError(f"not a snapshot: layout {state.get('layout')!r}, this version reads {_LAYOUT}")
        diagnosis = cls(config)
        diagnosis.phases.load(state["phases"])
        diagnosis.collectives.load(state["collectives"])
        return diagnosis
