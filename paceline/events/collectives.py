"""Collectives between ranks: how long each took, who stands in one, and the links that carried them."""

import msgspec

from paceline.events.base import Count, CountOrNone, Index, Number, Produced, Rank, Seconds, Time, Whole


class PeerLink(msgspec.Struct, frozen=True, kw_only=True):
    """One connection between two ranks that carried data since the sample before; its ends are ``ip:port``.

    ``rtt_s`` is None at the end that only received: the sender alone measures it.
    """

    local: str
    remote: str
    rtt_s: Seconds | None = None


class LinkSample(msgspec.Struct, frozen=True, kw_only=True):
    """A rank's TCP connections to other ranks, as its kernel saw them (TCP_INFO).

    ``rtt_s``: smallest smoothed round trip over its connections; a rank with a slow link is slow to everybody, so its
    smallest is large, while its peers have other, fast connections. An idle connection keeps an old one; ``peers`` are
    those that were not idle, the busiest first, at most 64. ``rated_bytes_per_s``: what the network interface of the
    busiest one is rated at, one way; null where the kernel does not tell.
    """

    rank: Rank
    connections: Count
    rtt_s: Seconds
    retransmits: Count
    peers: list[PeerLink] = []
    rated_bytes_per_s: Number | None = None


class OpenCollective(msgspec.Struct, frozen=True, kw_only=True):
    """A collective that a rank has stood in for a while: who waits where. ``start_s`` is absolute (Unix time)."""

    rank: Rank
    group: str
    group_size: Count
    seq: Count
    operation: str
    start_s: Time


class CollectiveTimings(Produced, frozen=True, kw_only=True):
    """Collectives of the ranks of one node. Key: job.

    ``operation`` indexes ``operations`` (``all_reduce``, ``all_gather``, …); ``group`` indexes ``groups``, whose sizes
    are ``group_sizes``. ``seq`` counts the collectives of a group, the same on every member. ``duration_s`` runs from
    issue until the result was there; ``wait_s`` is the part of it in which the rank stood still: all leave together,
    so the **shortest** wait is the late one. ``step`` is -1 where unknown. ``bytes`` is what the rank puts in, or what
    it gets where it puts nothing in.
    ``phases`` tells that the same producer also sends OpTimings, which then carry the verdict. ``open`` lists the ranks
    that have stood in a collective for seconds, as of ``now_s``; a hang shows in nothing else.
    """

    job: str
    attempt: Whole
    node: str
    backend: str
    phases: bool
    t0_s: Time
    ranks: list[Rank]
    world_sizes: list[Whole]
    groups: list[str]
    group_sizes: list[Whole]
    operations: list[str]
    rank: list[Rank]
    step: list[CountOrNone]
    seq: list[Count]
    group: list[Index]
    operation: list[Index]
    bytes: list[Count]
    start_s: list[Seconds]
    duration_s: list[Seconds]
    wait_s: list[Seconds]
    links: list[LinkSample] = []
    open: list[OpenCollective] = []
    now_s: Time | None = None
