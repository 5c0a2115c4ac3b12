"""Collectives between ranks: how long each took, who is blocked in one, and the links that carried them."""

from typing import Literal

import msgspec

from paceline.events.base import Count, CountOrNone, Index, Number, Produced, Rank, Seconds, Time, Whole, Word


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
    """A collective that a rank has stood in for a while: who waits where. ``start_s`` is absolute (Unix time).

    ``bytes`` is as in CollectiveTimings; None where an earlier version does not tell it.
    """

    rank: Rank
    group: str
    group_size: Count
    seq: Count
    operation: str
    start_s: Time
    bytes: Count | None = None


#: What a rank does when it is looked at.
Doing = Literal[
    "moving",
    "evaluating",
    "compiling",
    "loading",
    "unknown",
    "computing",
    "waiting",
    "waiting_for_loader",
    "in_kernel",
    "not_answering",
    "stopped",
    "gone",
]


class RankLook(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where the code of a rank is, and what its process does (``doing``, in a word of ``Doing``).

    ``moved`` says whether it has got anywhere since the look before: None for a first look, or where that cannot be
    known. ``frames`` (file:line function) is the stack of the thread that trains, the innermost first, and ``line`` of
    it the innermost in the user's own code; empty where the rank did not answer. ``pid`` is the node's number of the
    process, 0 where it is not visible; ``wait_channel`` is where in the kernel it sleeps. ``cpu_s`` is the processor
    time that it took, and ``written_bytes`` what it wrote, in the ``span_s`` seconds since the look before.
    ``worker_line`` is where the code of a worker of its data loader is, if the rank waits for that, and
    ``worker_unseen`` why it could not be read.
    """

    rank: Rank
    time_s: Time
    doing: Word
    moved: bool | None = None
    line: Word = ""
    frames: list[Word] = []
    pid: Count = 0
    wait_channel: Word = ""
    span_s: Seconds = 0.0
    cpu_s: Seconds = 0.0
    written_bytes: Count = 0
    worker_line: Word = ""
    worker_unseen: Word = ""


class CollectiveTimings(Produced, frozen=True, kw_only=True):
    """Collectives of the ranks of one node. Key: job.

    ``operation`` indexes ``operations`` (``all_reduce``, ``all_gather``, …); ``group`` indexes ``groups``, whose sizes
    are ``group_sizes``. ``seq`` counts the collectives of a group, the same on every member. ``duration_s`` runs from
    issue to the result; ``wait_s`` is the part of it in which the rank waited: all leave together,
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
