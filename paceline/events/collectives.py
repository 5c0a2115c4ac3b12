"""Who is blocked in a collective, and where the code of ranks is."""

from typing import Literal

import msgspec

from paceline.events.base import Count, LongWord, Rank, Seconds, Time, Word


class OpenCollective(msgspec.Struct, frozen=True, kw_only=True):
    """A collective that a rank has stood in for a while: who waits where. ``start_s`` is absolute (Unix time).

    ``bytes`` is as in CollectiveCalls; None where an earlier version does not tell it.
    """

    rank: Rank
    group: LongWord
    group_size: Count
    seq: Count
    operation: LongWord
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
