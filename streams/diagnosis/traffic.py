"""Is the job bound by its communication: how much of the time every rank stands in transfers, and how fast they are.

Rule of this file: pure arithmetic over the batches of a span. Waiting for a slow rank is no communication: only the
rank that waits least counts, for it waits for nobody. Sends and receives of a pipeline are left out: time in them is
mostly the pipeline's bubble.

Bus bandwidth is that of NCCL's own tests (nccl-tests, PERFORMANCE.md): bytes over time, times what the operation moves
over the busiest link. The fastest tenth counts, for the others waited for somebody.
"""

from typing import Any

import numpy as np

from paceline.events import CollectiveTimings

from .cohort import Array
from .config import MOST_RANKS, Config
from .episode import Episode
from .standing import Standing, Window
from .steps import ABSURD_S

#: What an operation of n ranks moves over the busiest link: so many times (n - 1) / n, or 0 for once, whatever n.
FACTORS = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1, "all_to_all": 1, "broadcast": 0, "reduce": 0}
_POINT_TO_POINT = ("send", "recv", "isend", "irecv")
#: Transfers smaller than this measure latency, not bandwidth.
_LEAST_BYTES = 4096


class Traffic:
    """Waiting and transfers of one job, span by span."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.standing = Standing()
        self._clear()

    def _clear(self) -> None:
        self.first_s: dict[int, float] = {}
        self.last_s: dict[int, float] = {}
        self.waited: dict[int, float] = {}
        self.steps = [-1, -1]
        self.speeds: dict[tuple[str, int], list[float]] = {}

    def update(self, batch: CollectiveTimings) -> Episode | None:
        """Take in one batch; the episode where it has something new to tell."""
        rank = np.asarray(batch.rank, dtype=np.int64)
        if not rank.size:
            return None
        start = np.asarray(batch.start_s, dtype=np.float64) + batch.t0_s
        wait, took = np.asarray(batch.wait_s, dtype=np.float64), np.asarray(batch.duration_s, dtype=np.float64)
        operation, group = np.asarray(batch.operation, dtype=np.int64), np.asarray(batch.group, dtype=np.int64)
        pair = np.array([word in _POINT_TO_POINT for word in batch.operations] or [False])
        sound = (rank >= 0) & (rank < MOST_RANKS) & (operation < len(batch.operations)) & (group < len(batch.groups))
        sound &= np.isfinite(start + wait + took) & (wait >= 0) & (took >= 0) & (took < ABSURD_S)
        if not sound.any():
            return None
        counted = np.where(sound & ~pair[np.where(sound, operation, 0)], wait, 0.0)
        for one in np.unique(rank[sound]):
            mine = sound & (rank == one)
            key = int(one)
            self.first_s.setdefault(key, float(start[mine].min()))
            self.last_s[key] = max(self.last_s.get(key, 0.0), float((start + took)[mine].max()))
            self.waited[key] = self.waited.get(key, 0.0) + float(counted[mine].sum())
        steps = [step for step in batch.step if step >= 0]
        if steps:
            self.steps = [min(steps) if self.steps[0] < 0 else self.steps[0], max(self.steps[1], max(steps))]
        self._weigh(batch, sound, took)
        return self._judge()

    def _weigh(self, batch: CollectiveTimings, sound: Any, took: Array) -> None:
        """Bus bandwidth of each operation and size, from the fastest tenth of this batch."""
        operation, group = np.asarray(batch.operation), np.asarray(batch.group)
        size = np.asarray(batch.bytes, dtype=np.float64)
        fit = sound & (size >= _LEAST_BYTES) & (took > 0)
        for at, word in enumerate(batch.operations):
            factor = next((FACTORS[name] for name in FACTORS if word.startswith(name)), None)
            mine = fit & (operation == at)
            if factor is None or not mine.any():
                continue
            members = np.maximum(np.array(batch.group_sizes, dtype=np.float64)[group[mine]], 2)
            speed = size[mine] / took[mine] * (factor * (members - 1) / members if factor else 1.0)
            for power in np.unique(np.floor(np.log2(size[mine]))):
                alike = np.floor(np.log2(size[mine])) == power
                self.speeds.setdefault((word, int(power)), []).append(float(np.quantile(speed[alike], 0.9)))

    def _judge(self) -> Episode | None:
        spans = {rank: self.last_s[rank] - first for rank, first in self.first_s.items()}
        longest = max(spans.values())
        if longest < self.config.traffic_s:
            return None
        shares = {rank: self.waited[rank] / spans[rank] for rank in spans if spans[rank] >= longest / 2}
        window = Window(max(self.steps[0], 0), max(self.steps[1], 0), longest)
        least, middle = min(min(shares.values()), 1.0), min(float(np.median(list(shares.values()))), 1.0)
        evidence = {"least": least, "share": middle}
        for (word, power), speeds in sorted(self.speeds.items(), key=lambda item: -item[0][1])[:4]:
            evidence[f"speed:{word}:{power}"] = float(np.median(speeds))
        self._clear()
        lost = least / max(1 - least, 0.01)
        return self.standing.see("traffic", window, least, self.config.communication_bound, lost, "link", evidence)

    def snapshot(self) -> dict[str, Any]:
        """The state as plain data."""
        tables = {name: list(getattr(self, name).items()) for name in ("first_s", "last_s", "waited")}
        speeds = [[word, power, found] for (word, power), found in self.speeds.items()]
        return {"standing": self.standing.snapshot(), **tables, "steps": self.steps, "speeds": speeds}

    def load(self, data: dict[str, Any]) -> None:
        """Take the state that ``snapshot`` described."""
        self.standing.load(data["standing"])
        for name in ("first_s", "last_s", "waited"):
            setattr(self, name, dict(data[name]))
        self.steps = list(data["steps"])
        self.speeds = {(word, power): list(found) for word, power, found in data["speeds"]}
