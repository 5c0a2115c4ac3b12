"""A line of NCCL Inspector's JSON, and what its words mean.

Rule of this file: pure. What is no such line raises with a reason of which there are few, so that they can be counted.
Up to format 4.2 every operation has header and metadata of its own; since 4.3 it belongs to the last line before it
that has them (``dump_stats``). Numbers may be whole or not, and lines have fields that other versions lack.
"""

from typing import Annotated, Any

import msgspec

from paceline.decoders import json_decoder
from paceline.events import LATEST_S, RANK_LIMIT, Count, Number, Rank, Whole

#: The latest time and the largest count that an event may hold.
LATEST_US, MOST = int(LATEST_S * 1e6), 2**53
#: Longest name of an operation or a group.
_LONGEST = 64

#: NCCL's functions by the names that ``ncclFuncToString`` gives them, and by those of NCCL's API.
_OPERATIONS = {
    "AllReduce": "all_reduce",
    "AllGather": "all_gather",
    "AllGatherV": "all_gather",
    "ReduceScatter": "reduce_scatter",
    "Broadcast": "broadcast",
    "Reduce": "reduce",
    "AlltoAll": "all_to_all",
    "All2All": "all_to_all",
    "Gather": "gather",
    "Scatter": "scatter",
}


class LineError(ValueError):
    """No line of NCCL Inspector's: why, in words that many lines share."""


class Header(msgspec.Struct):
    """The communicator, and the rank **within it**."""

    id: str
    rank: Rank
    n_ranks: Annotated[int, msgspec.Meta(ge=1, le=RANK_LIMIT)]
    comm_name: str | None = None


class Metadata(msgspec.Struct):
    """Who wrote the line, and when."""

    dump_timestamp_us: Annotated[float, msgspec.Meta(ge=0, le=LATEST_US)]
    hostname: str | None = None
    pid: Whole = 0


class Kernel(msgspec.Struct):
    """One channel of a collective's kernel."""

    kernel_start_ts: Number | None = None


class Times(msgspec.Struct):
    """When it was called, and (``kernel_events``) when its kernel started; 0 is not known. In verbose files alone."""

    coll_start_ts: Number | None = None
    kernel_events: list[Kernel] | None = None


class Collective(msgspec.Struct):
    """One collective; ``coll_sn`` counts those of its communicator and function."""

    coll: str
    coll_sn: Whole
    coll_exec_time_us: Number
    coll_msg_size_bytes: Number = 0.0
    event_trace_ts: Times | None = None


class DumpStats(msgspec.Struct):
    """What begins a dump, since format 4.2."""

    coll_dropped_since_last_dump: Count = 0


class Line(msgspec.Struct):
    """A line; what it does not have is None."""

    header: Header | None = None
    metadata: Metadata | None = None
    coll_perf: Collective | None = None
    p2p_perf: Any = None
    dump_stats: DumpStats | None = None


_decoder = json_decoder(Line)


def read(line: bytes) -> Line:
    """What ``line`` says.

    Raises:
        LineError: it is none.
    """
    try:
        return _decoder.decode(line)
    except msgspec.ValidationError as error:
        # Which field, for a version that writes another type there; not which value.
        place = str(error).rpartition(" - at `")[2].rstrip("`") if " - at `" in str(error) else "its top"
        raise LineError(f"lines of NCCL Inspector with another type at {place[:60]}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise LineError("lines that are not NCCL Inspector's JSON") from None


def operation_of(collective: Collective) -> str:
    """The operation in our words.

    >>> operation_of(Collective(coll="ReduceScatter", coll_sn=1, coll_exec_time_us=5.0))
    'reduce_scatter'
    """
    return _OPERATIONS.get(collective.coll, collective.coll[:_LONGEST].lower())


def bytes_of(collective: Collective, header: Header) -> int:
    """What the rank puts in, as events have it; of a reduce_scatter NCCL tells what it gets, one of as many parts.

    >>> header = Header(id="0x7f8c", rank=0, n_ranks=8)
    >>> told = {"coll_sn": 1, "coll_exec_time_us": 5.0, "coll_msg_size_bytes": 512}
    >>> [bytes_of(Collective(coll=name, **told), header) for name in ("ReduceScatter", "AllGather")]
    [4096, 512]
    """
    parts = header.n_ranks if operation_of(collective) == "reduce_scatter" else 1
    return min(int(collective.coll_msg_size_bytes) * parts, MOST)


def group_of(header: Header, operation: str) -> str:
    """A name for the collectives that are counted together: those of one communicator and function.

    >>> group_of(Header(id="0x7f8c", rank=0, n_ranks=8, comm_name="unknown"), "all_reduce")
    '0x7f8c all_reduce'
    """
    name = header.comm_name if header.comm_name not in (None, "", "unknown") else ""
    return f"{name} {header.id} {operation}".strip()[-_LONGEST:]


def is_possible(collective: Collective, start_us: float) -> bool:
    """Whether an event may hold these numbers."""
    times_us, counts = (collective.coll_exec_time_us, start_us), (collective.coll_sn, collective.coll_msg_size_bytes)
    return all(0 <= one <= LATEST_US for one in times_us) and all(0 <= one <= MOST for one in counts)
