"""Columns of numbers as bytes: what the topics of the highest rates carry in place of lists of JSON numbers."""

from typing import Literal

import msgspec

from paceline.events.base import Accounted, LongWord, Produced, Seconds, Time, Whole, Word
from paceline.events.collectives import OpenCollective, RankLook
from paceline.events.ends import RankEnd
from paceline.events.training import RankBreakdown, RankFacts

#: Signed or unsigned whole numbers or floating point ones, and the bytes of each: numpy's names without the ``<``.
ColumnType = Literal["u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f4", "f8"]


class Column(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Numbers of one type, one after the other, little-endian: ``["f4", b"…"]``. NaN is *not measured*."""

    type: ColumnType
    data: bytes


class Speakers(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """For whom a message speaks, one entry a rank: the world as each believes it to be, its device, and its places in
    the data, tensor and pipeline dimensions, -1 where unknown; left out where no rank has one. ``switch`` is what their
    node hangs from, as the scheduler names it."""

    ranks: Column
    world_sizes: Column
    devices: list[Word]
    dp: Column | None = None
    tp: Column | None = None
    pp: Column | None = None
    switch: Word | None = None


class Microbatches(msgspec.Struct, frozen=True, kw_only=True):
    """Micro-batches of steps that have more than one, a row each: seconds in forward and in backward."""

    rank: Column
    step: Column
    microbatch: Column
    forward_s: Column
    backward_s: Column


class ConditionColumns(msgspec.Struct, frozen=True, kw_only=True):
    """What the ranks' processes, devices and nodes went through: a row a rank and look.

    A row is of the ``span_s`` seconds before ``time_s``, an offset from the message's ``t0_s``. ``values`` has, as far
    as any row measured them: ``throttle_reasons`` (NVML's bit mask, all that was seen in the span),
    ``sm_clock_mhz``, ``sm_clock_max_mhz``, ``utilization_ratio``, ``temperature_celsius``, ``fb_used_bytes`` and
    ``fb_total_bytes`` of the device; ``major_faults`` (pages read back from disk) of the process; ``swap_used_bytes``
    and ``pressure_cpu_ratio``, ``pressure_memory_ratio``, ``pressure_io_ratio`` (PSI's ``some avg10``) of the node;
    ``cpu_quota_count`` (how many processors the tightest control group around the process may use) and
    ``cpu_throttled_ratio`` (in what share of its periods it was stopped for having used them up).
    """

    rank: Column
    time_s: Column
    span_s: Column
    values: dict[Word, Column]


class CollectiveSums(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The collectives of a node's ranks, summed by step, group, operation and size.

    ``step … duration_s`` has a row a step, group, operation and power of two of the bytes: how many collectives
    (``count``), by how many of the node's ranks (``members``), their bytes in all, and of each the least ``wait_s`` and
    ``duration_s`` of these ranks, summed: the last rank of a collective does not wait. A step is reported once it is
    complete, in one message. ``group`` indexes ``groups``, ``operation`` ``operations``.

    ``reached_*`` has a row a rank and group: the number of its latest collective there. ``span_*`` has a row a rank:
    the first start and the last end of the collectives since the message before, as offsets from ``t0_s``, and the
    seconds stood waiting meanwhile. ``longest_wait_s`` is the longest wait for one of them.
    """

    groups: list[Word]
    group_sizes: Column
    operations: list[Word]
    step: Column
    group: Column
    operation: Column
    count: Column
    members: Column
    bytes: Column
    wait_s: Column
    duration_s: Column
    reached_rank: Column
    reached_group: Column
    reached_seq: Column
    span_rank: Column
    span_first_s: Column
    span_last_s: Column
    span_waited_s: Column
    longest_wait_s: Seconds = 0.0


class LinkColumns(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """TCP connections of a node's ranks to other ranks, as the kernel saw them (TCP_INFO): a row a rank, and in
    ``of … peer_rtt_s`` a row a connection that carried data since the message before.

    ``rtt_s`` is the smallest smoothed round trip over a rank's connections: a rank with a slow link is slow to
    everybody, so its smallest is large, while its peers have other, fast connections. ``rated_bytes_per_s`` is what the
    network interface of its busiest connection is rated at, one way. An idle connection keeps an old round trip, so
    ``of … peer_rtt_s`` have those that were not idle, the busiest first, at most 64 a rank: ``of`` is the row of the
    rank; ``local`` and ``remote`` stand for the connection's ends: the first 8 bytes of BLAKE2b of ``ip:port``, as a
    number; equal ends show which two ranks a connection joins. Only the sender knows the round trip.
    """

    rank: Column
    connections: Column
    rtt_s: Column
    retransmits: Column
    rated_bytes_per_s: Column | None = None
    of: Column
    local: Column
    remote: Column
    peer_rtt_s: Column


class StepTimings(Accounted, frozen=True, kw_only=True, omit_defaults=True):
    """A node's steps: phases, collectives and links of its ranks together. Key: job.

    ``rank``, ``step``, ``start_s``, ``step_s`` and every column of ``phases`` have a row a rank and step: when the step
    began, its whole duration, and its seconds in each phase and overlay: one in which no rank was is left out, and NaN
    throughout says that it is not measured. A rank reports a step when it is over.
    ``left_out``, where there is one, says how many steps right after it the rank leaves out on purpose: it keeps to its
    probe's budget, and reports every so many steps whole. No more than ``MOST_LEFT_OUT`` count.
    ``lost`` counts marks that were dropped on the node before this message. ``open`` lists the ranks that have stood in
    a collective for seconds, as of ``now_s``; a hang shows in nothing else. A message may have no row, and only tell
    of links or of what is open; or of ranks as a whole, in ``facts`` and, from a profiler's trace, ``breakdowns``.
    While no step ends for seconds, one without anything says that its ranks still run, as of ``now_s``. ``ended`` is a
    node's goodbye: all its ranks have left, and its producer says no more of this attempt unless they come again.
    ``looks`` has where ranks are, once one of the node's has not got any further for seconds. ``ends`` says how the
    processes of ranks ended.
    """

    job: LongWord
    attempt: Whole
    node: LongWord
    t0_s: Time
    speakers: Speakers
    rank: Column
    step: Column
    start_s: Column
    step_s: Column
    phases: dict[Word, Column]
    lost: Whole = 0
    microbatches: Microbatches | None = None
    conditions: ConditionColumns | None = None
    collectives: CollectiveSums | None = None
    links: LinkColumns | None = None
    open: list[OpenCollective] = []
    now_s: Time | None = None
    facts: RankFacts | None = None
    breakdowns: list[RankBreakdown] = []
    left_out: Column | None = None
    ended: bool = False
    looks: list[RankLook] = []
    ends: list[RankEnd] = []


class CollectiveCalls(Produced, frozen=True, kw_only=True, omit_defaults=True):
    """The collectives of a node's ranks one by one, a row a rank and collective. Key: job.

    Sent where a job's steps have no phases, and on demand. ``operation`` indexes ``operations`` (``all_reduce``,
    ``all_gather``, …); ``group`` indexes ``groups``, whose sizes are ``group_sizes``. ``seq`` counts the collectives of
    a group, the same on every member. ``duration_s`` runs from issue to the result; ``wait_s`` is the part of it in
    which the rank waited: all leave together, so the **shortest** wait is the late one. ``step`` is -1 where unknown.
    ``bytes`` is what the rank puts in, or what it gets where it puts nothing in.

    ``summed`` says that the same producer sends the same collectives elsewhere, as sums in StepTimings mostly, and that
    carries the verdict. ``phases`` says that it sends the phases of the same steps, which carry the verdict, and no
    sums: only links and traffic are judged by these.

    ``by_nccl``: the same collectives once more, as NCCL Inspector timed them on the ranks' devices, never to be counted
    beside the others. They start with their kernel, and all of a kernel's time is its wait: the shortest is the late
    rank's. Each communicator and operation is a group of its own, whose name holds NCCL's id of the communicator and
    whose numbers are NCCL's. ``step`` is the one in which the kernel started, -1 where that is not certain.
    """

    job: LongWord
    attempt: Whole
    node: LongWord
    t0_s: Time
    summed: bool = False
    phases: bool = False
    by_nccl: bool = False
    speakers: Speakers
    groups: list[Word]
    group_sizes: Column
    operations: list[Word]
    rank: Column
    step: Column
    seq: Column
    group: Column
    operation: Column
    bytes: Column
    start_s: Column
    duration_s: Column
    wait_s: Column
