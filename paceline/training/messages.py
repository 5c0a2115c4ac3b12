"""What a rank tells the sidecar of its node: MessagePack over a local SEQPACKET socket.

Rule of this file: data and its codec only. It is read by a process that must survive anything, so it holds no pickle
and every message decodes into one of three structs or raises.
"""

from typing import NamedTuple

import msgspec

from paceline.events import Count, CountOrNone, PeerLink, Rank


class Hello(msgspec.Struct, frozen=True, kw_only=True, tag="hello"):
    """A rank has joined: who it is. ``job`` is "" where the rank's own environment names none."""

    rank: Rank
    world_size: Count
    local_rank: int
    pid: int
    device: str
    backend: str
    framework: str
    job: str
    attempt: int
    started_s: float
    batch_size: int | None = None
    dp: int | None = None
    tp: int | None = None
    pp: int | None = None
    labels: dict[str, str] = {}


class LinkReport(NamedTuple):
    """A rank's connections: how many, smallest round trip, retransmits, and which of them carried data."""

    connections: Count
    rtt_s: float
    retransmits: Count
    peers: list[PeerLink] = []  # noqa: RUF012 - never changed


class Report(msgspec.Struct, frozen=True, kw_only=True, tag="report"):
    """What a rank measured since its last report: op rows and collective rows, as in the events, times absolute.

    Times ``*_s`` are Unix seconds. ``op_name`` and ``operation`` hold words; the sidecar builds the vocabularies.
    ``lost`` counts rows that a full ring dropped.
    """

    step: list[CountOrNone]
    op: list[str]
    microbatch: list[CountOrNone]
    start_s: list[float]
    duration_s: list[float]
    c_step: list[CountOrNone]
    c_seq: list[Count]
    c_group: list[str]
    c_group_size: list[Count]
    c_operation: list[str]
    c_bytes: list[Count]
    c_start_s: list[float]
    c_duration_s: list[float]
    c_wait_s: list[float]
    link: LinkReport | None = None
    lost: Count = 0


class Bye(msgspec.Struct, frozen=True, kw_only=True, tag="bye"):
    """A rank has left in good order."""

    ended_s: float


Message = Hello | Report | Bye
encoder = msgspec.msgpack.Encoder()
decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)

#: Environment variable with the path of the sidecar's socket.
SOCKET_VARIABLE = "PACELINE_SOCKET"
#: Environment variable with the job id `paceline run` made up, used only where nothing else names the job.
FALLBACK_JOB_VARIABLE = "PACELINE_JOB_FALLBACK"
