"""How far each rank is from its nearest peer, by the round trips of connections that carried data.

Rule of this file: pure. A connection touches two ranks, so its round trip, measured at the end that sent, counts for
both: in a ring the neighbours of a rank with a slow link see one slow connection each, and one fast one on their other
side. Which rank is at the far end is known from the ends that the ranks named as their own.
"""

import math
from typing import Any

from paceline.events import LinkSample

#: Most connections taken of one sample; endpoints remembered are at most twice that for each rank.
_MOST_PEERS = 64


class Distances:
    """The latest round trips between the ranks of one job."""

    def __init__(self) -> None:
        self.owners: dict[str, int] = {}
        #: By rank and the rank at the far end (-1 where unknown): smallest round trip that the first one measured.
        self.legs: dict[int, dict[int, float]] = {}
        #: The same, by the rank at the far end.
        self.back: dict[int, dict[int, float]] = {}

    def update(self, links: list[LinkSample]) -> dict[int, float]:
        """Take in one batch's samples; the distances of the ranks in it whose connections carried data."""
        for link in links:
            for peer in link.peers[:_MOST_PEERS]:
                self.owners.pop(peer.local, None)
                self.owners[peer.local] = link.rank
        heard = [link for link in links if link.peers]
        for link in heard:
            self._measure(link)
        while len(self.owners) > 2 * _MOST_PEERS * len(self.legs):
            del self.owners[next(iter(self.owners))]
        nearest = {link.rank: self._nearest(link.rank) for link in heard}
        return {rank: rtt for rank, rtt in nearest.items() if rtt is not None}

    def _measure(self, link: LinkSample) -> None:
        """Replace what ``link.rank`` measured before."""
        for peer in self.legs.get(link.rank, {}):
            if peer >= 0:
                del self.back[peer][link.rank]
        legs: dict[int, float] = {}
        for connection in link.peers[:_MOST_PEERS]:
            rtt_s = connection.rtt_s
            if rtt_s is not None and math.isfinite(rtt_s) and rtt_s >= 0:
                peer = self.owners.get(connection.remote, -1)
                legs[peer] = min(rtt_s, legs.get(peer, rtt_s))
        self.legs[link.rank] = legs
        for peer, rtt_s in legs.items():
            if peer >= 0:
                self.back.setdefault(peer, {})[link.rank] = rtt_s

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
