"""The links of a node's ranks, the latest sample of each, as columns.

Rule of this file: pure. Ranks whose connections no longer fit into a message stay for the next one.
"""

import math

from paceline import columns
from paceline.events import LinkColumns
from paceline.training.messages import LinkReport, Peer

#: Connections of one rank that are told, the busiest first; of one message.
MOST_PEERS = 64
MOST_CONNECTIONS = 2000


class Links:
    """The latest sample of each rank, until a message takes it along."""

    def __init__(self) -> None:
        self._samples: dict[int, LinkReport] = {}

    def __bool__(self) -> bool:
        return bool(self._samples)

    def update(self, rank: int, sample: LinkReport) -> None:
        """A rank's sample; one without a round trip tells nothing."""
        if math.isfinite(sample.rtt_s):
            self._samples[rank] = sample

    def take(self) -> LinkColumns | None:
        """As many as fit into a message; None where there is none."""
        samples: dict[int, LinkReport] = {}
        peers: list[tuple[int, Peer]] = []
        for rank in sorted(self._samples):
            if len(peers) > MOST_CONNECTIONS - MOST_PEERS:
                break
            peers += [(len(samples), peer) for peer in self._samples[rank].peers[:MOST_PEERS]]
            samples[rank] = self._samples.pop(rank)
        return _columns(samples, peers) if samples else None


def _columns(samples: dict[int, LinkReport], peers: list[tuple[int, Peer]]) -> LinkColumns:
    told = samples.values()
    rated = [_number(one.rated_bytes_per_s) for one in told]
    return LinkColumns(
        rank=columns.whole(list(samples)),
        connections=columns.whole([one.connections for one in told]),
        rtt_s=columns.durations([one.rtt_s for one in told]),
        retransmits=columns.whole([one.retransmits for one in told]),
        rated_bytes_per_s=columns.encoded("f8", rated) if any(map(math.isfinite, rated)) else None,
        of=columns.whole([place for place, _ in peers]),
        local=columns.encoded("u8", [columns.end_of_link(peer.local) for _, peer in peers]),
        remote=columns.encoded("u8", [columns.end_of_link(peer.remote) for _, peer in peers]),
        peer_rtt_s=columns.durations([_number(peer.rtt_s) for _, peer in peers]),
    )


def _number(value: float | None) -> float:
    return math.nan if value is None or not math.isfinite(value) else value
