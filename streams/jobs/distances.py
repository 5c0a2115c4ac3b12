"""How far each rank is from its nearest peer, by the round trips of connections that carried data.

Rule of this file: pure. A connection touches two ranks, so its round trip, measured at the end that sent, counts for
both: in a ring the neighbours of a rank with a slow link see one slow connection each, and one fast one on their other
side. Which rank is at the far end is known from the ends that the ranks named as their own.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..ingest.link_rows import LinkRows
from ..raw_columns import Ints
from ..robust import Array
from ..runs import places, starts
from ..stored import Kept, Stored

#: Most connections taken of one sample; endpoints remembered are at most twice that for each rank.
_MOST_PEERS = 64


class _Connections(NamedTuple):
    """Equally long columns: the rank that measured, its place among that rank's connections, both ends, round trip."""

    rank: Ints
    nth: Ints
    local: Ints
    remote: Ints
    rtt_s: Array


class Distances(Stored):
    """The latest round trips between the ranks of one job."""

    owners: Kept[dict[int, int]]
    peers: Kept[Ints]
    rtts_s: Kept[Array]
    heard: Kept[NDArray[np.bool_]]

    def __init__(self) -> None:
        self.owners = {}
        #: By rank and connection: the rank at the far end, -1 where unknown, and the round trip, infinite for none.
        self.peers = np.empty((0, 0), dtype=np.int64)
        self.rtts_s = np.empty((0, 0))
        self.heard = np.empty(0, dtype=bool)

    @property
    def told_apart(self) -> bool:
        """Whether any rank has told its connections one by one."""
        return bool(self.heard.any())

    def update(self, links: LinkRows) -> tuple[Ints, Array]:
        """Take in a few samples; the ranks in them whose connections carried data, ascending, and their distances."""
        told = _connections(links)
        if not told.rank.size:
            return told.rank, told.rtt_s
        owners = self.owners
        for end, rank in zip(told.local.tolist(), told.rank.tolist(), strict=True):
            if owners.get(end) != rank:
                owners.pop(end, None)
                owners[end] = rank
        peers = np.array([owners.get(end, -1) for end in told.remote.tolist()], dtype=np.int64)
        fresh = np.unique(told.rank)
        self._widen(max(int(fresh[-1]), int(peers.max())) + 1, int(told.nth.max()) + 1)
        self.heard[fresh] = True
        self.peers[fresh], self.rtts_s[fresh] = -1, np.inf
        measured = np.isfinite(told.rtt_s) & (told.rtt_s >= 0)
        self.peers[told.rank, told.nth] = peers
        self.rtts_s[told.rank, told.nth] = np.where(measured, told.rtt_s, np.inf)
        most = 2 * _MOST_PEERS * int(self.heard.sum())
        while len(owners) > most:
            del owners[next(iter(owners))]
        nearest = self._nearest()[fresh]
        known = np.isfinite(nearest)
        return fresh[known], nearest[known]

    def _nearest(self) -> Array:
        """Each rank's shortest round trip, measured by itself or by the far end."""
        nearest = self.rtts_s.min(axis=1, initial=np.inf)
        there = (self.peers >= 0) & np.isfinite(self.rtts_s)
        np.minimum.at(nearest, self.peers[there], self.rtts_s[there])
        return np.asarray(nearest)

    def _widen(self, ranks: int, connections: int) -> None:
        more = (max(ranks - self.heard.size, 0), max(connections - self.peers.shape[1], 0))
        if any(more):
            self.peers = np.pad(self.peers, ((0, more[0]), (0, more[1])), constant_values=-1)
            self.rtts_s = np.pad(self.rtts_s, ((0, more[0]), (0, more[1])), constant_values=np.inf)
            self.heard = np.pad(self.heard, (0, more[0]))


def _connections(links: LinkRows) -> _Connections:
    """The connections of the newest sample of each rank, at most so many of each."""
    sound = np.flatnonzero((links.of >= 0) & (links.of < links.rank.size))
    at = sound[np.argsort(links.of[sound], kind="stable")]
    of = links.of[at]
    nth = places(starts(of), of.size)
    newest = np.full(int(links.rank.max(initial=-1)) + 1, -1, dtype=np.int64)
    newest[links.rank[of]] = of  # the last assignment to a rank stays
    kept = (nth < _MOST_PEERS) & (newest[links.rank[of]] == of)
    at, rank = at[kept], links.rank[of[kept]]
    return _Connections(rank, nth[kept], links.local[at], links.remote[at], links.peer_rtt_s[at])
