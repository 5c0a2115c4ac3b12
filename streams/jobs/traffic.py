"""Is the job bound by its communication: how much of the time goes into transfers, and how fast they are.

Rule of this file: pure arithmetic over whole collectives. Waiting for a slow rank is no communication: of each
collective only the shortest wait of its members counts, for who comes last waits for nobody. Sends and receives of a
pipeline are left out: time in them is mostly the pipeline's bubble.

Bus bandwidth is that of NCCL's own tests (nccl-tests, PERFORMANCE.md): bytes over the shortest time of any member,
times what the operation moves over the busiest link. Of each size the fastest tenth counts: the others met traffic.
"""

from typing import Any, NamedTuple

import numpy as np

from paceline.events import Cause

from ..episodes.episode import Episode
from ..robust import Array
from .collective_batch import Heard, Ints, Spans, starts
from .config import Config
from .job_episodes import Standing, Window

#: What an operation of n ranks moves over the busiest link: so many times (n - 1) / n, or 0 for once, whatever n.
FACTORS = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1, "all_to_all": 1, "broadcast": 0, "reduce": 0}
_POINT_TO_POINT = ("send", "recv", "isend", "irecv")
#: Transfers smaller than this measure latency, not bandwidth.
_LEAST_BYTES = 4096
#: Collectives that members are still missing from; beyond it the oldest are given up.
_MOST_OPEN = 16_384

#: The share of transfers of a size that the one which counts is faster than.
_FAST = 0.9

#: Links that carry less than this share of what they are rated at are slow; above it there is simply much to move.
_FAR_UNDER = 0.5

#: Members heard, shortest wait, shortest duration.
_Open = list[float]


class _Calls(NamedTuple):
    """Collectives: how many members of each were heard, their shortest wait and their shortest time."""

    group: Ints
    seq: Ints
    operation: Ints
    bytes: Ints
    heard: Ints
    wait_s: Array
    took_s: Array


class Traffic:
    """Waiting and transfers of one job, span by span."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.standing = Standing()
        self.open: dict[tuple[str, int], _Open] = {}
        #: By rank: what the interface it uses is rated at, bytes a second.
        self.rated: dict[int, float] = {}
        self._clear()

    def _clear(self) -> None:
        self.first_s: dict[int, float] = {}
        self.last_s: dict[int, float] = {}
        self.groups: dict[int, set[str]] = {}
        self.waited: dict[str, float] = {}
        self.steps = [-1, -1]
        self.speeds: dict[tuple[str, int], list[float]] = {}

    def update(self, heard: Heard, spans: Spans) -> Episode | None:
        """Take in what was heard; the episode where it has something new to tell."""
        calls = heard.calls
        for rank, first_s, last_s in zip(spans.ranks, spans.first_s, spans.last_s, strict=True):
            self.first_s.setdefault(rank, first_s)
            self.last_s[rank] = max(self.last_s.get(rank, 0.0), last_s)
        if len(heard.groups) == 1:
            for rank in spans.ranks:
                self.groups.setdefault(rank, set()).add(heard.groups[0])
        else:
            for rank, at in {*zip(calls.rank.tolist(), calls.group.tolist(), strict=True)}:
                self.groups.setdefault(rank, set()).add(heard.groups[at])
        known = calls.step[calls.step >= 0]
        if known.size:
            first = int(known.min()) if self.steps[0] < 0 else self.steps[0]
            self.steps = [first, max(self.steps[1], int(known.max()))]
        self.rated.update({link.rank: link.rated_bytes_per_s for link in heard.links if link.rated_bytes_per_s})
        self._merge(heard)
        return self._judge(spans.ranks)

    def _merge(self, heard: Heard) -> None:
        """Add rows to their collectives; those that are whole now are counted."""
        calls = heard.calls
        order = np.lexsort((calls.seq, calls.group))
        first = starts(calls.group[order], calls.seq[order])
        lead = order[first]
        found = _Calls(
            calls.group[lead],
            calls.seq[lead],
            calls.operation[lead],
            calls.bytes[lead],
            np.append(first[1:], order.size) - first,
            np.minimum.reduceat(calls.wait_s[order], first),
            np.minimum.reduceat(calls.duration_s[order], first),
        )
        whole = found.heard >= np.array(heard.group_sizes)[found.group]
        if not self.open and whole.all():  # all members are on one node: the common case
            self._count(heard, found)
            return
        whole_now = self._join(heard, found)
        if whole_now.seq.size:
            self._count(heard, whole_now)
        while len(self.open) > _MOST_OPEN:
            del self.open[next(iter(self.open))]

    def _join(self, heard: Heard, found: "_Calls") -> "_Calls":
        """Add what other nodes have told of the same collectives; those that are whole with it."""
        sizes, names, known_so_far = heard.group_sizes, heard.groups, self.open
        done: list[int] = []
        waits, times = found.wait_s.tolist(), found.took_s.tolist()
        for at, (group, seq, members) in enumerate(
            zip(found.group.tolist(), found.seq.tolist(), found.heard.tolist(), strict=True)
        ):
            key = (names[group], seq)
            known = known_so_far.pop(key, None)
            if known is not None:
                members += int(known[0])
                waits[at], times[at] = min(waits[at], known[1]), min(times[at], known[2])
            if members < sizes[group]:
                known_so_far[key] = [members, waits[at], times[at]]
            else:
                done.append(at)
        joined = found._replace(wait_s=np.array(waits), took_s=np.array(times))
        return _Calls(*(column[done] for column in joined))  # type: ignore[arg-type]

    def _count(self, heard: Heard, found: "_Calls") -> None:
        """Add up whole collectives."""
        between_two = np.array([word in _POINT_TO_POINT for word in heard.operations])[found.operation]
        waited = np.bincount(found.group, np.where(between_two, 0.0, found.wait_s), len(heard.groups))
        for at in np.flatnonzero(np.bincount(found.group)).tolist():
            self.waited[heard.groups[at]] = self.waited.get(heard.groups[at], 0.0) + float(waited[at])
        size = np.array(heard.group_sizes, dtype=np.float64)[found.group]
        fit = (found.bytes >= _LEAST_BYTES) & (found.took_s > 0) & (size > 1)
        power = np.frexp(found.bytes.astype(np.float64))[1] - 1
        for at, word in enumerate(heard.operations):
            factor = next((FACTORS[name] for name in FACTORS if word.startswith(name)), None)
            mine = fit & (found.operation == at)
            if factor is None or not mine.any():
                continue
            turns = factor * (size[mine] - 1) / size[mine] if factor else 1.0
            speed = found.bytes[mine] / found.took_s[mine] * turns
            for one in np.unique(power[mine]).tolist():
                fast = float(np.quantile(speed[power[mine] == one], _FAST))
                self.speeds.setdefault((word, one), []).append(fast)

    def _judge(self, ranks: list[int]) -> Episode | None:
        if max(self.last_s[rank] - self.first_s[rank] for rank in ranks) < self.config.traffic_s:
            return None
        spans = {rank: self.last_s[rank] - first for rank, first in self.first_s.items()}
        longest = max(spans.values())
        waits = {rank: sum(self.waited.get(group, 0.0) for group in groups) for rank, groups in self.groups.items()}
        shares = [min(waits[rank] / span, 1.0) for rank, span in spans.items() if span >= longest / 2]
        window = Window(max(self.steps[0], 0), max(self.steps[1], 0), longest)
        least = min(shares)
        evidence = {"least": least, "share": float(np.median(shares))}
        if rated := self.config.rated_bytes_per_s or min(self.rated.values(), default=0.0):
            evidence["rated"] = rated
        for (word, power), speeds in sorted(self.speeds.items(), key=lambda item: -item[0][1])[:4]:
            evidence[f"speed:{word}:{power}"] = float(np.quantile(speeds, _FAST))
        fastest = max((value for name, value in evidence.items() if name.startswith("speed:")), default=rated)
        cause: Cause = "link" if fastest < _FAR_UNDER * rated else "unknown"
        self._clear()
        lost = least / max(1 - least, 0.01)
        return self.standing.see("traffic", window, least, self.config.communication_bound, lost, cause, evidence)

    def snapshot(self) -> dict[str, Any]:
        """The state as plain data."""
        return {
            "standing": self.standing.snapshot(),
            "rated": list(self.rated.items()),
            "open": [[group, seq, found] for (group, seq), found in self.open.items()],
            **{name: list(getattr(self, name).items()) for name in ("first_s", "last_s", "waited")},
            "groups": [[rank, sorted(groups)] for rank, groups in self.groups.items()],
            "steps": self.steps,
            "speeds": [[word, power, found] for (word, power), found in self.speeds.items()],
        }

    def load(self, data: dict[str, Any]) -> None:
        """Take the state that ``snapshot`` described."""
        self.standing.load(data["standing"])
        self.rated = dict(data["rated"])
        self.open = {(group, seq): list(found) for group, seq, found in data["open"]}
        for name in ("first_s", "last_s", "waited"):
            setattr(self, name, dict(data[name]))
        self.groups = {rank: set(groups) for rank, groups in data["groups"]}
        self.steps = list(data["steps"])
        self.speeds = {(word, power): list(found) for word, power, found in data["speeds"]}
