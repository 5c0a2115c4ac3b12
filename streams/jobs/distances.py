"""How far each rank is from its nearest peer, by the round trips of connections that carried data.

Rule of this file: pure. A connection touches two ranks, so its round trip, measured at the end that sent, counts for
both: in a ring the neighbours of a rank with a slow link see one slow connection each, and one fast one on their other
side. Which rank is at the far end is known from the ends that the ranks named as their own.
"""

import math
from typing import Any

import numpy as np

from .collective_batch import LinkRows

#: Most connections taken of one sample; endpoints remembered are at most twice that for each rank.
_MOST_PEERS = 64


class Distances:
    """The latest round trips between the ranks of one job."""

    def __init__(self) -> None:
        self.owners: dict[int, int] = {}
        #: By rank and the rank at the far end (-1 where unknown): smallest round trip that the first one measured.
        self.legs: dict[int, dict[int, float]] = {}
        #: The same, by the rank at the far end.
        self.back: dict[int, dict[int, float]] = {}

    def update(self, links: LinkRows) -> dict[int, float]:
        """Take in a few samples; the distances of the ranks in them whose connections carried data."""
        if not links.of.size:
            return {}
        connections = self._connections(links)
        for rank, local, _, _ in connections:
            self.owners.pop(local, None)
            self.owners[local] = rank
        legs: dict[int, dict[int, float]] = {}
        for rank, _, remote, rtt_s in connections:
            mine = legs.setdefault(rank, {})
            if math.isfinite(rtt_s) and rtt_s >= 0:
                peer = self.owners.get(remote, -1)
                mine[peer] = min(rtt_s, mine.get(peer, rtt_s))
        for rank, mine in legs.items():
            self._replace(rank, mine)
        while len(self.owners) > 2 * _MOST_PEERS * len(self.legs):
            del self.owners[next(iter(self.owners))]
        nearest = {rank: self._nearest(rank) for rank in legs}
        return {rank: rtt for rank, rtt in nearest.items() if rtt is not None}

    @staticmethod
    def _connections(links: LinkRows) -> list[tuple[int, int, int, float]]:
        """Rank, both ends and round trip of each connection, of the newest sample of each rank."""
        sound = np.flatnonzero((links.of >= 0) & (links.of < links.rank.size))
        at = sound[np.argsort(links.of[sound], kind="stable")]
        of = links.of[at]
        first = np.flatnonzero(np.diff(of, prepend=-1))
        nth = np.arange(of.size) - np.repeat(first, np.diff(first, append=of.size))
        newest = np.zeros(links.rank.size, dtype=bool)
        last = np.unique(links.rank[of][::-1], return_index=True)[1]
        newest[of[of.size - 1 - last]] = True
        at = at[(nth < _MOST_PEERS) & newest[of]]
        columns = (links.rank[links.of[at]], links.local[at], links.remote[at], links.peer_rtt_s[at])
        return list(zip(*(column.tolist() for column in columns), strict=True))

    def _replace(self, rank: int, legs: dict[int, float]) -> None:
        """Replace what ``rank`` measured before."""
        before = self.legs.get(rank, {})
        self.legs[rank] = legs
        for peer in before.keys() - legs.keys():
            if peer >= 0:
                del self.back[peer][rank]
        for peer, rtt_s in legs.items():
            if peer >= 0:
                self.back.setdefault(peer, {})[rank] = rtt_s

    def _nearest(self, rank: int) -> float | None:
        return min((*self.legs.get(rank, {}).values(), *self.back.get(rank, {}).values()), default=None)

    def snapshot(self) -> dict[str, Any]:
        """The state as plain data."""
        legs = [[rank, [[peer, rtt_s] for peer, rtt_s in row.items()]] for rank, row in self.legs.items()]
        return {"owners": [[end, rank] for end, rank in self.owners.items()], "legs": legs}

    def load(self, data: dict[str, Any]) -> None:
        """Take the state that ``snapshot`` described."""
        self.owners, self.back = dict(data["owners"]), {}
        self.legs = {rank: dict(row) for rank, row in data["legs"]}
        for rank, row in self.legs.items():
            for peer, rtt_s in row.items():
                if peer >= 0:
                    self.back.setdefault(peer, {})[rank] = rtt_s
