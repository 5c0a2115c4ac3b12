"""The diagnosis of one attempt of one job: events in, findings out.

Rule of this file: it wires the pieces of this package together and holds no rule of its own. Phases and collectives
arrive on two topics whose order against each other nobody promises, so the two lines of judgement share nothing.
"""

from typing import Any

from paceline.events import CollectiveTimings, Finding, OpTimings, Thresholds

from ..coverage import Ledger
from ..gather import Gather
from ..snapshots import pack, unpack
from . import job_findings, rank_findings
from .cohorts import Cohorts
from .collective_verdicts import Collectives
from .config import Config, changed
from .job_episodes import Standing, Window
from .pace import Pace
from .rank_conditions import Circumstances
from .steps import Steps
from .straggler import Straggler
from .structure import Structure
from .ticks import Tick, Ticks

#: Layout of the snapshot; another version is not read.
_LAYOUT = 4
_STRUCTURES = {
    "stage_imbalance": job_findings.stage_imbalance,
    "data_imbalance": job_findings.data_imbalance,
    "data_bound": job_findings.data_bound,
}


class Phases:
    """The verdict from phases: OpTimings to findings."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.ledger = Ledger()
        self.gather = Gather(OpTimings)
        self.steps = Steps(config, self.ledger)
        self.cohorts = Cohorts()
        self.ticks = Ticks(config.tick_s, self.cohorts)
        self.around = Circumstances()
        self.straggler = Straggler(config, self.cohorts, self.around)
        self.structure = Structure(config, self.cohorts)
        self.pace = Pace(config)
        self.silence = Standing()
        self.judged = 0
        self.has_loader = False
        self.places: dict[int, tuple[str, str]] = {}

    def update(self, batch: OpTimings) -> list[Finding]:
        """Take in one batch."""
        if not self.ledger.admit(batch.producer, batch.sequence):
            return []
        self.ledger.hear(batch.ranks, batch.world_sizes)
        self.cohorts.place(batch.ranks, batch.pp, _pipelines(batch))
        for rank, device in zip(batch.ranks, batch.devices, strict=True):
            self.places[rank] = (batch.node, device)
        self.around.take(batch.conditions)
        self.has_loader = self.has_loader or "data" in batch.ops
        ready = self.gather.add(batch, len(self.ledger.last))
        return self._advance(ready) if ready else []

    def finish(self) -> list[Finding]:
        """What the messages that still wait bring to light."""
        return self._advance(ready) if (ready := self.gather.take()) else []

    def _advance(self, batches: list[OpTimings]) -> list[Finding]:
        found = []
        for step in self.steps.update(batches):
            self.judged += 1
            if step.step < self.config.warmup_steps:
                continue
            self.around.ends_s = step.ends_s
            self.structure.step(step)
            tick = self.ticks.update(step)
            if tick is not None:
                found += self._judge(tick, batches[-1])
        return found

    def _judge(self, tick: Tick, batch: OpTimings) -> list[Finding]:
        """Every line of judgement on one tick. A rank that is accused explains what it does to the job."""
        config, coverage = self.config, self.ledger.coverage()
        whole = job_findings.Whole(batch.cluster, batch.job, batch.attempt, coverage)
        found = []
        wary = "data" in self.structure.standing.episodes
        for episode in self.straggler.update(tick, self.has_loader, wary=wary):
            node, device = self.places.get(episode.rank, ("", ""))
            subject = rank_findings.Subject(*whole[:3], node, device, self.cohorts.stage_of(episode.rank))
            cleared = self.straggler.verdict(episode.rank).cleared
            found.append(rank_findings.straggler(episode, subject, coverage, cleared, config))
        accused = set(self.straggler.episodes) | set(self.straggler.rests)
        for kind, standing in self.structure.tick(tick, accused, self.has_loader):
            found.append(_STRUCTURES[kind](standing, whole, config))
        slow = self.pace.update(tick, accused, staged=self.cohorts.staged)
        if slow is not None:
            found.append(job_findings.slowdown(slow, whole, config))
        return found + self._silent(tick, whole)

    def _silent(self, tick: Tick, whole: job_findings.Whole) -> list[Finding]:
        """Ranks that were never heard, told once the job has run for a while without them."""
        expected, heard = whole.coverage.ranks_expected, whole.coverage.ranks_heard
        if self.judged < self.config.silent_steps:
            return []
        window = Window(tick.first_step, tick.last_step, tick.span_s)
        episode = self.silence.see("ranks", window, float(heard < expected), 1.0, 0.0, "unknown", {})
        return [job_findings.silence(episode, whole)] if episode else []

    def snapshot(self) -> dict[str, Any]:
        """The state as plain data and arrays."""
        return {
            "ledger": self.ledger.snapshot(),
            "gather": self.gather.snapshot(),
            "steps": self.steps.snapshot(),
            "cohorts": self.cohorts.snapshot(),
            "ticks": self.ticks.snapshot(),
            "around": self.around.snapshot(),
            "straggler": self.straggler.snapshot(),
            "structure": self.structure.snapshot(),
            "pace": self.pace.snapshot(),
            "silence": self.silence.snapshot(),
            "has_loader": self.has_loader,
            "judged": self.judged,
            "places": [[rank, *place] for rank, place in self.places.items()],
        }

    def load(self, data: dict[str, Any]) -> None:
        """Take the state that ``snapshot`` described."""
        self.ledger = Ledger.restore(data["ledger"])
        self.gather.load(data["gather"])
        self.steps = Steps(self.config, self.ledger)
        self.steps.load(data["steps"])
        self.cohorts.load(data["cohorts"])
        self.ticks.load(data["ticks"])
        self.around.load(data["around"])
        self.straggler.load(data["straggler"])
        self.structure.load(data["structure"])
        self.pace.load(data["pace"])
        self.silence.load(data["silence"])
        self.has_loader = bool(data["has_loader"])
        self.judged = data["judged"]
        self.places = {rank: (node, device) for rank, node, device in data["places"]}


def _pipelines(batch: OpTimings) -> list[int]:
    """A number for the pipeline of each rank: its place in the other dimensions; -1 where that is not known.

    Tensor-parallel ranks that do not tell their place count as one: they are fed the same micro-batches, too.
    """
    tensor = [max(tp, 0) for tp in batch.tp] or [0 for _ in batch.ranks]
    data = batch.dp or [-1 for _ in batch.ranks]
    wide = 1 + max(tensor, default=0)
    return [dp * wide + tp if dp >= 0 else -1 for dp, tp in zip(data, tensor, strict=True)]


class Diagnosis:
    """Judges one (cluster, job, attempt); every event given to it must be of that one.

    The same events give the same findings whatever their batching. Messages that repeat, by producer and sequence
    number, are dropped.
    """

    def __init__(self, config: Config | None = None) -> None:
        self.config = config or Config()
        self.values: dict[str, float] = {}
        self.phases = Phases(self.config)
        self.collectives = Collectives(self.config)

    def update(self, event: OpTimings | CollectiveTimings | Thresholds) -> list[Finding]:
        """Take in one event; the findings that it brings to light or changes."""
        if isinstance(event, Thresholds):
            self.configure(event.values)
            return []
        if isinstance(event, OpTimings):
            return self.phases.update(event)
        return self.collectives.update(event)

    def finish(self) -> list[Finding]:
        """What follows from all that was taken in, now that nothing more comes."""
        return self.phases.finish() + self.collectives.finish()

    def configure(self, values: dict[str, float]) -> None:
        """Judge by the default thresholds with ``values`` from now on; what is known stays."""
        self.values = dict(values)
        again = Diagnosis.restore(self.snapshot())
        self.config, self.phases, self.collectives = again.config, again.phases, again.collectives

    def snapshot(self) -> bytes:
        """The whole state, compressed."""
        parts = {"phases": self.phases.snapshot(), "collectives": self.collectives.snapshot()}
        return pack({"layout": _LAYOUT, "values": self.values, **parts})

    @classmethod
    def restore(cls, data: bytes, config: Config | None = None) -> "Diagnosis":
        """The diagnosis that ``snapshot`` described.

        Raises:
            ValueError: ``data`` is no snapshot of this version.
        """
        state = unpack(data)
        if state.get("layout") != _LAYOUT:
            raise ValueError(f"not a snapshot: layout {state.get('layout')!r}, this version reads {_LAYOUT}")
        values = {str(name): float(value) for name, value in state["values"].items()}
        diagnosis = cls(config or changed(values))
        diagnosis.values = values
        diagnosis.phases.load(state["phases"])
        diagnosis.collectives.load(state["collectives"])
        return diagnosis
