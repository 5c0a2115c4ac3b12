"""The verdicts on one node: its samples in, findings out.

Rule of this file: it wires the pieces of this package together and holds no rule of its own. Rows are judged in the
order of the node's clock; looks are cut by it alone, so any batching gives the same findings. GPUs and host arrive on
two topics whose order against each other nobody promises: they share no look.
"""

from typing import Any

import msgspec

from paceline.events import Coverage, DeviceSamples, Finding, HostSamples, NodeDescribed
from paceline.words import many

from ..episodes.crowd import Crowds
from ..episodes.finding import finding
from ..ingest.coverage import CoverageTracker
from ..ingest.roster import Roster
from ..stored import Kept, Stored, StoredDecision
from . import node_findings
from .balance import Balance
from .detectors import Rated
from .gpu_diagnosis import GpuDiagnosis, filling
from .gpu_rows import indexed, names, possible, samples
from .memory_trend import MemoryTrend
from .node_config import MOST_DEVICES, NodeConfig
from .node_episodes import Fact, NodeEpisode, NodeEpisodes, Tenant, Watched
from .tally import Tally
from .tenants import Tenants, claims

#: What NVML says of a device that is gone, by ``not_measured``.
_LOST = ("GPU is lost", "GPU needs a reset")


class NodeDiagnosis(StoredDecision):
    """Judges one (cluster, node); every event given to it must be of that one."""

    layout = 8
    roster: Kept[Roster]
    host_roster: Kept[Roster]
    coverage: Kept[CoverageTracker]
    host_coverage: Kept[CoverageTracker]
    owners: Kept[Tenants]
    gpus: Kept[dict[str, GpuDiagnosis]]
    rated: Kept[dict[str, Rated]]
    indices: Kept[dict[int, str]]
    number: Kept[int | None]
    open: Kept[dict[str, Tally]]
    balances: Kept[dict[str, Balance]]
    host_number: Kept[int | None]
    host_trend: Kept[MemoryTrend]
    episodes: Kept[NodeEpisodes]
    crowds: Kept[Crowds]

    def __init__(self, config: NodeConfig | None = None) -> None:
        self.config = config or NodeConfig()
        self.roster, self.host_roster = Roster(), Roster()
        self.coverage, self.host_coverage = CoverageTracker(self.roster), CoverageTracker(self.host_roster)
        self.owners = Tenants()
        self.gpus = {}
        self.rated = {}
        self.indices = {}
        self.number = None
        self.open = {}
        self.balances = {}
        self.host_number = None
        self.host_trend = MemoryTrend(self.config.memory_rise, self.config.gap_s)
        self.host_memory = Watched("out_of_memory_risk", "host memory", "memory_pressure", self.config.memory)
        #: Of the host, and of jobs on several GPUs; each GPU keeps its own.
        self.episodes = NodeEpisodes(self.config)
        #: Many GPUs with the same trouble.
        self.crowds = Crowds()

    def update(self, event: DeviceSamples | HostSamples | NodeDescribed) -> list[Finding]:
        """Take in one event; the findings that it brings to light or changes."""
        if isinstance(event, NodeDescribed):
            self._describe(event)
            return []
        if isinstance(event, HostSamples):
            coverage, told = self.host_coverage, self._host(event)
        else:
            coverage, told = self.coverage, self._devices(event)
        return [one for look in told for one in self._reported(look, event, coverage)]

    def _reported(
        self, told: list[NodeEpisode], event: DeviceSamples | HostSamples, coverage: CoverageTracker
    ) -> list[Finding]:
        """What is reported of the episodes of one look."""
        made = (
            finding(
                episode,
                node_findings.said(episode, event.node),
                node_findings.job_key(episode, event.cluster),
                self._coverage(episode, coverage),
            )
            for episode in told
        )
        return self.crowds.gather([(node_findings.sort_of(one), said) for one, said in zip(told, made, strict=True)])

    def _describe(self, event: NodeDescribed) -> None:
        rated = {
            device.uuid: Rated(device.pcie_generation_max, device.pcie_width_max, device.sm_clock_max_mhz)
            for device in event.devices[:MOST_DEVICES]
        }
        earlier = {uuid: one for uuid, one in self.rated.items() if uuid not in rated}
        self.rated = dict([*earlier.items(), *rated.items()][-MOST_DEVICES:])
        present = {device.index: device.uuid for device in event.devices[:MOST_DEVICES]}
        # An inventory lists what opened: a GPU that was lost before keeps its name until another is in its place.
        before = {at: uuid for at, uuid in self.indices.items() if at not in present and uuid not in present.values()}
        self.indices = dict([*before.items(), *present.items()][-MOST_DEVICES:])

    # --- GPUs ---------------------------------------------------------------------------------------------------------

    def _devices(self, event: DeviceSamples) -> list[list[NodeEpisode]]:
        """The episodes with something new, by row and look: what is reported together does not depend on messages."""
        if not self.roster.admit(event.producer, event.sequence):
            return []
        told: list[list[NodeEpisode]] = []
        lost = self._lost(event)
        gone = sorted(lost.keys() - set(event.uuids))
        who = claims(event)
        for row in samples(event, gone):
            told.append(self._pass_on(who, row.at_s))
            told.append(self._make_room(row.uuid, row.at_s))
            gpu = self._gpu(row.uuid)
            if gpu is None:
                continue
            told.append(self._advance(row.at_s))
            told.append(gpu.row(row, lost.get(row.uuid), self.owners.of(row.uuid)))
            if row.answered:
                self.open.setdefault(row.uuid, Tally()).add(row)
        return told

    def _make_room(self, uuid: str, at_s: float) -> list[NodeEpisode]:
        """Forget a GPU that is gone, where one more is to be followed: MIG instances get new names each time."""
        if uuid in self.gpus or len(self.gpus) < MOST_DEVICES:
            return []
        oldest = min(self.gpus.values(), key=lambda one: one.heard_s)
        if at_s - oldest.heard_s <= self.config.gone_s:
            return []
        del self.gpus[oldest.uuid]
        self.open.pop(oldest.uuid, None)
        self.owners.forget(oldest.uuid)
        return oldest.leave(at_s) + self._end_balances(at_s)

    def _gpu(self, uuid: str) -> GpuDiagnosis | None:
        if uuid not in self.gpus:
            if len(self.gpus) >= MOST_DEVICES:
                self.coverage.note("GPUs beyond the limit")
                return None
            self.gpus[uuid] = GpuDiagnosis(uuid, self.config)
        return self.gpus[uuid]

    def _lost(self, event: DeviceSamples) -> dict[str, str]:
        """The GPUs that the driver no longer reaches, and what it says."""
        lost: dict[str, str] = {}
        named = names(event) | self.indices
        for key, why in event.not_measured.items():
            if not why.startswith(_LOST):
                continue
            at = indexed(key)
            if at is None:
                lost |= dict.fromkeys(event.uuids, why)
            else:
                lost[named.get(at.number, f"GPU {at.number}")] = why
        return lost

    def _pass_on(self, who: dict[str, Tenant], at_s: float) -> list[NodeEpisode]:
        moved = self.owners.update(who, at_s)
        told: list[NodeEpisode] = []
        for uuid, before in moved.items():
            if uuid in self.gpus:
                told += self.gpus[uuid].pass_on(at_s, before, self.owners.of(uuid))
        if len(self.owners.tenants) > MOST_DEVICES:
            self.owners.keep(self.gpus.keys() | who.keys())
        return told + self._end_balances(at_s) if moved else told

    def _end_balances(self, at_s: float) -> list[NodeEpisode]:
        """Nobody has GPUs for these jobs any more."""
        told: list[NodeEpisode] = []
        for job in sorted(self.balances.keys() - self.owners.jobs().keys()):
            ended = self.episodes.end(self._evenness(job), at_s, f"{job} has left")
            told += [ended] if ended else []
            self.episodes.forget(self._evenness(job))
            del self.balances[job]
        return told

    def _advance(self, at_s: float) -> list[NodeEpisode]:
        """Close the open look, where ``at_s`` is beyond it, or so far before it that the clock was set back."""
        number = int(at_s // self.config.tick_s)
        before = self.number
        if before is not None and before - 1 <= number <= before:
            return []
        self.number = number
        if before is None:
            return []
        tallies, self.open = self.open, {}
        return self._look((before + 1) * self.config.tick_s, tallies)

    def _look(self, at_s: float, tallies: dict[str, Tally]) -> list[NodeEpisode]:
        told: list[NodeEpisode] = []
        for uuid, tally in tallies.items():
            gpu = self._gpu(uuid)
            if gpu is not None:
                told += gpu.look(at_s, tally, self.rated.get(uuid, Rated()), self.owners.of(uuid))
        for job, uuids in sorted(self.owners.jobs().items()):
            told += self._balance(at_s, job, [uuid for uuid in uuids if uuid in tallies], tallies)
        return told

    def _balance(self, at_s: float, job: str, uuids: list[str], tallies: dict[str, Tally]) -> list[NodeEpisode]:
        means = {uuid: mean for uuid in uuids if (mean := tallies[uuid].mean("utilization_ratio")) is not None}
        if len(means) < 2:
            return []
        balance = self.balances.setdefault(job, Balance(self.config))
        seen = balance.look(at_s, means)
        tenant = Tenant(job, (), balance.extremes())
        episode = self.episodes.look(self._evenness(job), at_s, seen, tenant, idle_gpus=balance.wasted())
        return [episode] if episode else []

    def _evenness(self, job: str) -> Watched:
        return Watched("load_imbalance", f"balance {job}", "unknown", self.config.apart)

    # --- the host -----------------------------------------------------------------------------------------------------

    def _host(self, event: HostSamples) -> list[list[NodeEpisode]]:
        if not self.host_roster.admit(event.producer, event.sequence):
            return []
        told: list[list[NodeEpisode]] = []
        columns = (event.time_s, event.memory_used_bytes, event.memory_total_bytes, event.swap_used_bytes)
        for time_s, used, total, swap in zip(*columns, strict=True):
            at_s = event.t0_s + time_s
            if used is None or not total or not 0 <= used <= total or not possible(at_s):
                continue
            number = int(at_s // self.config.tick_s)
            if number == self.host_number:
                continue  # One reading a look is enough of a memory.
            self.host_number = number
            self.host_trend.push(at_s, float(used), float(total))
            bad, facts = filling(self.host_trend, self.config)
            if bad and swap:
                rule = "swapped out meanwhile"
                facts.append(Fact(name="swap_used", value=swap / 2**30, unit="GiB", rule=rule))
            episode = self.episodes.look(self.host_memory, at_s, (bad, facts), self.owners.only())
            told.append([episode] if episode else [])
        return told

    # --- what it rests on, and state ----------------------------------------------------------------------------------

    def _coverage(self, episode: NodeEpisode, coverage: CoverageTracker) -> Coverage:
        """Counts are of this node: the ranks of the job on it, all of which are seen through their GPUs."""
        job = episode.measured.tenant.job
        heard = len(self.owners.ranks(job)) if job else 0
        held = msgspec.structs.replace(coverage.counts(), ranks_expected=heard, ranks_heard=heard)
        seen = many(len(self.gpus), "GPU")
        return msgspec.structs.replace(held, notes=[*held.notes, f"of this node alone: {seen} seen"])

    def element(self, kind: type[Stored], data: dict[str, Any]) -> Stored:
        """A GPU or a balance, by this decision's thresholds."""
        return GpuDiagnosis(data["uuid"], self.config) if kind is GpuDiagnosis else Balance(self.config)
