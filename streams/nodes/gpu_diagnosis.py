"""All that is watched of one GPU.

Rule of this file: it joins the signs, the detectors and the episodes of one GPU, and holds no rule of its own.
"""

from paceline.gpu.xids import PARTS

from ..episodes.lifecycle import Signal
from ..stored import Kept, Stored
from . import detectors
from .detectors import Look, Rated
from .faults import Faults
from .gpu_rows import Row
from .memory_trend import MemoryTrend
from .node_config import NodeConfig
from .node_episodes import Fact, NodeEpisode, NodeEpisodes, Tenant, Watched
from .tally import Tally

#: Signs that are no proof by themselves confirm a fault when there are so many of them in an episode.
_SIGNS = 3


class GpuDiagnosis(Stored):
    """One GPU of a node."""

    uuid: Kept[str]
    #: When its last row was sampled, on the node's clock.
    heard_s: Kept[float]
    faults: Kept[Faults]
    trend: Kept[MemoryTrend]
    replays: Kept[detectors.Growth]
    damage: Kept[detectors.Growth]
    signs: Kept[dict[str, int]]
    episodes: Kept[NodeEpisodes]

    def __init__(self, uuid: str, config: NodeConfig) -> None:
        self.uuid = uuid
        self.heard_s = 0.0
        self.config = config
        self.faults = Faults(config)
        self.trend = MemoryTrend(config.memory_rise, config.gap_s)
        self.replays, self.damage = detectors.Growth("pcie_replays"), detectors.Growth("nvlink_crc_errors")
        self.signs = {}
        self.episodes = NodeEpisodes(config)
        self.throttling = Watched("device_fault", f"clocks {uuid}", "throttling", config.throttled)
        self.link = Watched("device_fault", f"link {uuid}", "unknown", config.link)
        self.replaying = Watched("device_fault", f"replays {uuid}", "unknown", config.replays)
        self.damaged = Watched("device_fault", f"nvlinks {uuid}", "unknown", config.replays)
        self.idle = Watched("idle_device", f"idle {uuid}", "unknown", config.idle)
        self.memory = Watched("out_of_memory_risk", f"memory {uuid}", "memory_pressure", config.memory)
        #: What single rows give away, told at once: no look is needed.
        self.parts = {part: Watched("device_fault", f"{part} {uuid}", "unknown", config.throttled) for part in PARTS}

    def row(self, row: Row, lost: str | None, tenant: Tenant) -> list[NodeEpisode]:
        """Take in a row: faults are reported at once."""
        self.heard_s = row.at_s
        told: list[NodeEpisode | None] = []
        struck = set()
        for part, proof, fact in self.faults.update(row, lost):
            struck.add(part)
            self.signs[part] = self.signs.get(part, 0) + 1
            sure = proof or (part != "program" and self.signs[part] >= _SIGNS)
            signal: Signal = "persistent" if sure else "late"
            told.append(self.episodes.revise(self.parts[part], row.at_s, signal, [fact], tenant))
        for part, watched in self.parts.items():
            episode = self.episodes.get(watched)
            if episode is None or not row.answered or part in struck:
                continue
            if row.at_s - episode.last >= self.config.fault_calm_s:
                self.signs.pop(part, None)
                told.append(self.episodes.revise(watched, row.at_s, "calm", [], tenant))
        return [episode for episode in told if episode is not None]

    def look(self, at_s: float, tally: Tally, rated: Rated, tenant: Tenant) -> list[NodeEpisode]:
        """Take in a look; the episodes that have something new to tell."""
        config, episodes = self.config, self.episodes
        told = [
            episodes.look(self.throttling, at_s, detectors.throttling(tally, rated, config), tenant),
            episodes.look(self.link, at_s, detectors.link(tally, rated, config), tenant),
            episodes.look(
                self.replaying, at_s, detectors.replays(self.replays.per_s(at_s, tally, config), config), tenant
            ),
            episodes.look(
                self.damaged, at_s, detectors.damaged(self.damage.per_s(at_s, tally, config), config), tenant
            ),
            episodes.look(self.memory, at_s, self._memory(at_s, tally), tenant),
        ]
        if tenant.job:
            told.append(episodes.look(self.idle, at_s, detectors.idle(tally, config), tenant, idle_gpus=1.0))
        return [episode for episode in told if episode is not None]

    def _memory(self, at_s: float, tally: Tally) -> Look:
        used, total = tally.last.get("fb_used_bytes"), tally.last.get("fb_total_bytes")
        if used is None or total is None:
            return None, []
        self.trend.push(at_s, used, total)
        return filling(self.trend, self.config)

    def pass_on(self, at_s: float, before: Tenant, tenant: Tenant) -> list[NodeEpisode]:
        """Another job, or none, has the GPU now: what was said of the first ends; a fault stays and is told again."""
        told: list[NodeEpisode | None] = []
        why = f"{before.job or 'no job'} no longer has it"
        self.trend = MemoryTrend(self.config.memory_rise, self.config.gap_s)  # Another job's memory is another trend.
        for watched in self._looked:
            told.append(self.episodes.end(watched, at_s, why))
        for watched in self.parts.values():
            episode = self.episodes.get(watched)
            if episode is not None and tenant.job:
                facts: list[Fact] = list(episode.measured.facts.values())
                signal: Signal = "persistent" if episode.state == "confirmed" else "late"
                told.append(self.episodes.end(watched, at_s, why))
                told.append(self.episodes.revise(watched, at_s, signal, facts, tenant))
        return [episode for episode in told if episode is not None]

    def leave(self, at_s: float) -> list[NodeEpisode]:
        """It was not sampled for long, and is forgotten: what was said of it ends."""
        ends = (self.episodes.end(watched, at_s, "it is sampled no more") for watched in self._watched)
        return [episode for episode in ends if episode is not None]

    @property
    def _looked(self) -> tuple[Watched, ...]:
        """What looks tell, whoever has the GPU."""
        return self.throttling, self.link, self.replaying, self.damaged, self.idle, self.memory

    @property
    def _watched(self) -> tuple[Watched, ...]:
        return *self._looked, *self.parts.values()


def filling(trend: MemoryTrend, config: NodeConfig) -> Look:
    """Whether a memory is nearly full and still rising."""
    risk = trend.risk(config.memory_ratio)
    if risk is None:
        return False, []
    minutes = risk.full_in_s / 60
    return True, [
        Fact(
            name="memory_used",
            value=risk.ratio,
            unit="ratio",
            peers=config.memory_ratio,
            rule=f"above {config.memory_ratio:.0%} and rising (FB_USED / (FB_USED + FB_FREE))",
            says=f"{risk.ratio:.1%} used, rising by {risk.bytes_per_s * 60 / 2**20:,.0f} MiB a minute, "
            f"full in {minutes:.0f} min",
            advice="a smaller batch, activation checkpointing, sharded optimizer state; look for tensors that are kept",
            severity="critical" if risk.full_in_s < 300.0 else "warning",
        ),
        Fact(
            name="full_in",
            value=risk.full_in_s,
            unit="s",
            rule=f"at the pace of the last {risk.over_s / 60:.0f} min (medians of its three parts)",
        ),
    ]
