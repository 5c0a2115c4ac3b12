"""Are the GPUs of one job on this node equally busy?

Rule of this file: a decision on means of a minute. It accuses nobody: who is less busy mostly waits for the others.
"""

import math
from statistics import fmean, pvariance

from ..stored import Kept, Stored
from .detectors import Look
from .node_config import NodeConfig
from .node_episodes import Fact


class Balance(Stored):
    """How busy each GPU of one job was in the looks of the last minute.

    >>> balance = Balance(NodeConfig())
    >>> looks = [balance.look(5.0 * number, {"GPU-0": 0.9, "GPU-1": 0.7})[0] for number in range(14)]
    >>> looks.index(True), set(looks[:11])
    (11, {None})
    """

    looks: Kept[list[tuple[float, dict[str, float]]]]

    def __init__(self, config: NodeConfig) -> None:
        self.config = config
        self.looks = []

    def look(self, at_s: float, busy: dict[str, float]) -> Look:
        """Whether they are apart; None until a minute of the same GPUs is known, and where the job does nothing."""
        if self.looks and (self.looks[-1][1].keys() != busy.keys() or self._gap(at_s)):
            self.looks = []
        self.looks.append((at_s, busy))
        while self.looks[0][0] <= at_s - self.config.apart_window_s - self.config.tick_s:
            del self.looks[0]
        if len(busy) < 2 or at_s - self.looks[0][0] < self.config.apart_window_s - self.config.tick_s:
            return None, []
        means = self.means()
        low, high = self.extremes()
        if means[high] < self.config.busy_ratio or len(self.looks) < 3:
            return None, []
        apart = means[high] - means[low]
        if apart <= self.config.apart_ratio + self._noise(low, high):
            return False, []
        return True, [_fact(means, low, high, self.config)]

    def means(self) -> dict[str, float]:
        """GPU -> share of time it was busy."""
        return {uuid: fmean(look[uuid] for _, look in self.looks) for uuid in self.looks[-1][1]}

    def extremes(self) -> tuple[str, str]:
        """The least and the most busy GPU."""
        means = self.means()
        return min(means, key=lambda uuid: (means[uuid], uuid)), max(means, key=lambda uuid: (means[uuid], uuid))

    def wasted(self) -> float:
        """How many GPUs' worth of time the less busy ones stand still, beside the busiest."""
        means = self.means()
        return sum(max(means.values()) - mean for mean in means.values())

    def _gap(self, at_s: float) -> bool:
        return not 0.0 <= at_s - self.looks[-1][0] <= self.config.gap_s

    def _noise(self, low: str, high: str) -> float:
        """What chance alone may put between the extremes of so many GPUs."""
        count = len(self.looks)
        spread = sum(pvariance([look[uuid] for _, look in self.looks]) for uuid in (low, high)) / count
        return (self.config.sigmas + math.sqrt(2 * math.log(len(self.looks[-1][1])))) * math.sqrt(spread)


def _fact(means: dict[str, float], low: str, high: str, config: NodeConfig) -> Fact:
    apart = means[high] - means[low]
    return Fact(
        name="apart",
        value=means[low],
        unit="ratio",
        peers=means[high],
        rule=f"least and most busy GPU of the job here, means of {config.apart_window_s:g} s; reported from "
        f"{config.apart_ratio:.0%} apart (dcgm-exporter guides: GPUs of one job within 5 %)",
        says=f"{low} is busy {means[low]:.0%} of the time and {high} {means[high]:.0%}",
        advice="give each rank the same work: batch size, sequence lengths, pipeline cut",
        severity="info" if apart < 3 * config.apart_ratio else "warning",
    )
