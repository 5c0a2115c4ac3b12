"""One look at one GPU: is it slowed down, is its link down, is it idle?

Rule of this file: pure. A look is yes, no, or None where the numbers do not tell; with the facts that say so.
"""

from typing import NamedTuple

from paceline.gpu import throttle

from ..stored import Kept, Stored
from .node_config import NodeConfig
from .node_episodes import Fact
from .rules import reading
from .tally import Tally

#: What to do about links between GPUs, whether they lose speed or work.
MEND_LINKS = "reset the GPUs when they are idle; check NVLink bridges, baseboard or switch"


class Rated(NamedTuple):
    """What the inventory says that a GPU can do at most."""

    pcie_generation: int | None = None
    pcie_width: int | None = None
    sm_clock_mhz: int | None = None


Look = tuple[bool | None, list[Fact]]


def throttling(tally: Tally, rated: Rated, config: NodeConfig) -> Look:
    """Whether heat or power supply slow the GPU down."""
    samples = tally.counts.get("throttle_reasons", 0)
    if not samples:
        return None, []
    share = tally.slowed / samples
    if share < config.throttled_share:
        return False, []
    most = max(tally.slowdowns.values())
    why = throttle.in_words(sum(bit for bit, count in tally.slowdowns.items() if count == most))
    facts = [
        Fact(
            name="throttled",
            value=share,
            unit="ratio",
            peers=0.0,
            rule=f"share of samples with a slowdown of hardware or heat; reported from {config.throttled_share:g} "
            "(NVML's clock-event reasons)",
            says=f"{why} in {share:.0%} of the samples",
            advice="check fans, air flow, power supplies and cables of that node",
        )
    ]
    clock = tally.mean("sm_clock_mhz")
    if clock is not None and rated.sm_clock_mhz:
        rule = "mean SM clock beside the highest that the card has"
        facts.append(Fact(name="sm_clock", value=clock, unit="MHz", peers=float(rated.sm_clock_mhz), rule=rule))
    heat = tally.most.get("temperature_celsius")
    said = reading("temperature_celsius", heat)
    if heat is not None and said is not None:
        facts.append(Fact(name="temperature", value=heat, unit="°C", rule=f"{said.word}: {said.rule}", severity="info"))
    return True, facts


def link(tally: Tally, rated: Rated, config: NodeConfig) -> Look:
    """Whether the PCIe link is narrower or slower than it can be, while the GPU works: idle links train down."""
    busy = tally.mean("utilization_ratio")
    if busy is None or busy < config.loaded_ratio:
        return None, []
    facts = []
    measured = False
    for name, most, what in (
        ("pcie_generation", rated.pcie_generation, "generation"),
        ("pcie_width", rated.pcie_width, "width"),
    ):
        seen = tally.most.get(name)
        if seen is None or not most:
            continue
        measured = True
        if 0 < seen < most:
            facts.append(
                Fact(
                    name=name,
                    value=seen,
                    unit="lanes" if name == "pcie_width" else "",
                    peers=float(most),
                    rule=f"highest {what} seen while at least {config.loaded_ratio:.0%} busy, beside the card's own",
                    says=f"PCIe {what} {seen:g} of {most:g} while it works",
                    advice="reseat the card and its riser; compare the slot's rating and the BIOS setting",
                )
            )
    return (bool(facts) if measured else None), facts


def idle(tally: Tally, config: NodeConfig) -> Look:
    """Whether nothing ran on the GPU."""
    busy = tally.mean("utilization_ratio")
    if busy is None or config.idle_ratio < busy < config.busy_ratio:
        return None, []
    if busy >= config.busy_ratio:
        return False, []
    facts = [
        Fact(
            name="utilization",
            value=busy,
            unit="ratio",
            rule=f"idle up to {config.idle_ratio:.0%}, for at least {config.idle.suspect_s / 60:g} min",
            advice="find what the job waits for, or end it",
        )
    ]
    used = tally.last.get("fb_used_bytes")
    if used is not None:
        facts.append(Fact(name="memory_held", value=used / 2**30, unit="GiB", rule="held meanwhile", severity="info"))
    return True, facts


class Growth(Stored):
    """How fast a counter rose in the last minute."""

    seen: Kept[list[tuple[float, float]]]

    def __init__(self, column: str) -> None:
        self.column = column
        self.seen = []

    def per_s(self, at_s: float, tally: Tally, config: NodeConfig) -> float | None:
        """A second's rise; None before there is a minute of it."""
        count = tally.last.get(self.column)
        if count is None:
            return None
        if self.seen and (count < self.seen[-1][1] or not 0 <= at_s - self.seen[-1][0] <= config.gap_s):
            self.seen = []
        self.seen.append((at_s, count))
        while len(self.seen) > 2 and self.seen[1][0] <= at_s - 60.0:
            del self.seen[0]
        span_s = at_s - self.seen[0][0]
        return None if span_s < 60.0 else (count - self.seen[0][1]) / span_s


def replays(per_s: float | None, config: NodeConfig) -> Look:
    """Whether transfers over PCIe are repeated more often than a good link needs."""
    if per_s is None:
        return None, []
    rate = per_s * 60.0
    if rate <= config.replays_per_min:
        return False, []
    fact = Fact(
        name="pcie_replays",
        value=rate,
        unit="a minute",
        peers=config.replays_per_min,
        rule=f"more than {config.replays_per_min:g} a minute (DCGM's health check)",
        says=f"{rate:.0f} PCIe replays a minute",
        advice="reseat the card and its riser; check the slot",
    )
    return True, [fact]


def damaged(per_s: float | None, config: NodeConfig) -> Look:
    """Whether the links to other GPUs damage more than they should: what they repair costs their speed."""
    if per_s is None:
        return None, []
    if per_s < config.nvlink_crc_per_s:
        return False, []
    fact = Fact(
        name="nvlink_crc_errors",
        value=per_s,
        unit="a second",
        peers=config.nvlink_crc_per_s,
        rule=f"{config.nvlink_crc_per_s:g} a second and more (DCGM's health check)",
        says=f"{per_s:.0f} damaged transfers a second on its links to other GPUs",
        advice=MEND_LINKS,
    )
    return True, [fact]
