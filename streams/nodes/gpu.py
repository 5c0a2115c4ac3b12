"""All that is watched of one GPU.

Rule of this file: it joins the signs, the looks and the watches of one GPU, and holds no rule of its own.
"""

from typing import Any

from paceline.gpu.xids import PARTS

from ..episodes.lifecycle import Signal
from . import detectors
from .detectors import Look, Rated
from .faults import Faults
from .gpu_rows import Row
from .node_config import Config
from .tally import Tally
from .tracker import Fact, Seat, Spell, Watch
from .trend import Trend

#: What a look is about; the rest, the parts that faults speak of, follow from signs.
_LOOKS = ("throttling", "link", "replays", "idle", "memory")
#: Signs that are no proof by themselves confirm a fault when there are so many of them in an episode.
_SIGNS = 3


class Gpu:
    """One GPU of a node."""

    def __init__(self, uuid: str, config: Config) -> None:
        self.uuid = uuid
        self.config = config
        self.faults = Faults(config)
        self.trend = Trend(config.memory_rise, config.gap_s)
        self.replays = detectors.Replays()
        self.signs: dict[str, int] = {}
        self.watches = {
            "throttling": Watch("device_fault", f"clocks {uuid}", "throttling", config, config.throttled),
            "link": Watch("device_fault", f"link {uuid}", "unknown", config, config.link),
            "replays": Watch("device_fault", f"replays {uuid}", "unknown", config, config.replays),
            "idle": Watch("idle_device", f"idle {uuid}", "unknown", config, config.idle),
            "memory": Watch("out_of_memory_risk", f"memory {uuid}", "memory_pressure", config, config.memory),
        } | {
            f"fault {part}": Watch("device_fault", f"{part} {uuid}", "unknown", config, config.throttled)
            for part in PARTS
        }

    def row(self, row: Row, lost: str | None, seat: Seat) -> list[Spell]:
        """Take in a row: faults are told at once."""
        found: list[Spell | None] = []
        struck = set()
        for part, proof, fact in self.faults.update(row, lost):
            struck.add(part)
            self.signs[part] = self.signs.get(part, 0) + 1
            sure = proof or (part != "program" and self.signs[part] >= _SIGNS)
            signal: Signal = "persistent" if sure else "late"
            found.append(self.watches[f"fault {part}"].move(row.at_s, signal, [fact], seat, row.at_s))
        for part in PARTS:
            watch = self.watches[f"fault {part}"]
            quiet = row.answered and watch.spell is not None and part not in struck
            if quiet and watch.spell and row.at_s - watch.spell.last_s >= self.config.fault_calm_s:
                self.signs.pop(part, None)
                found.append(watch.move(row.at_s, "calm", [], seat, row.at_s))
        return [spell for spell in found if spell is not None]

    def look(self, at_s: float, tally: Tally, rated: Rated, seat: Seat) -> list[Spell]:
        """Take in a look; the episodes that have something new to tell."""
        config, watches = self.config, self.watches
        found = [
            watches["throttling"].look(at_s, *detectors.throttling(tally, rated, config), seat),
            watches["link"].look(at_s, *detectors.link(tally, rated, config), seat),
            watches["replays"].look(at_s, *self.replays.look(at_s, tally, config), seat),
            watches["memory"].look(at_s, *self._memory(at_s, tally), seat),
        ]
        if seat.job:
            found.append(watches["idle"].look(at_s, *detectors.idle(tally, config), seat, rate=1.0))
        return [spell for spell in found if spell is not None]

    def _memory(self, at_s: float, tally: Tally) -> Look:
        used, total = tally.last.get("fb_used_bytes"), tally.last.get("fb_total_bytes")
        if used is None or total is None:
            return None, []
        self.trend.push(at_s, used, total)
        return filling(self.trend, self.config)

    def pass_on(self, at_s: float, before: Seat, seat: Seat) -> list[Spell]:
        """Another job, or none, has the GPU now: what was said of the first ends; a fault stays and is told anew."""
        found: list[Spell | None] = []
        self.trend = Trend(self.config.memory_rise, self.config.gap_s)  # Another job's memory is another trend.
        for name, watch in self.watches.items():
            old = watch.spell
            if name in _LOOKS:
                found.append(watch.end(at_s, f"{before.job or 'nobody'} no longer has it"))
            elif old is not None and old.state is not None and seat.job:
                facts, sure = list(old.facts.values()), old.state == "confirmed"
                found.append(watch.end(at_s, f"{before.job or 'nobody'} no longer has it"))
                found.append(watch.move(at_s, "persistent" if sure else "late", facts, seat, at_s))
        return [spell for spell in found if spell is not None]

    def snapshot(self) -> dict[str, Any]:
        """The state as plain data."""
        return {
            "faults": self.faults.snapshot(),
            "trend": self.trend.snapshot(),
            "replays": [list(pair) for pair in self.replays.seen],
            "signs": dict(self.signs),
            "watches": {name: watch.snapshot() for name, watch in self.watches.items()},
        }

    def load(self, data: dict[str, Any]) -> None:
        """Take the state that ``snapshot`` described."""
        self.faults.load(data["faults"])
        self.trend.load(data["trend"])
        self.replays.seen = [(at_s, count) for at_s, count in data["replays"]]
        self.signs = dict(data["signs"])
        self.watches |= {name: Watch.restore(watch, self.config) for name, watch in data["watches"].items()}


def filling(trend: Trend, config: Config) -> Look:
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
