"""What a rank and the sidecar of its node tell each other: MessagePack over a local SEQPACKET socket.

The rank tells what it wrote down; the sidecar answers how much of it is safe, so that what died with a sidecar can be
sent to the next. It stands with ``marks`` on the user's side, for that process may
import nothing of the node's; the two are all that the sidecar imports from here (import-linter holds it).

Rule of this file: data and its codec only. It is read by a process that must survive anything, so it holds no pickle
and every message decodes into one of these structs or raises.
"""

from typing import Annotated, NamedTuple

import msgspec

from paceline.events import Count, CountOrNone, Number, PeerLink, Rank, Seconds, Time, Whole

#: More steps follow the last that a rank tells, and each has to fit into an event.
MOST_STEPS = 2**40


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A place between two steps of a rank, from which its marks can be read without those before.

    ``step`` begins there, at ``start_ns`` of the rank's clock; ``explicit``, ``compiled`` and ``exchanges`` say how
    this script's steps end. Collectives that ended in the first ``repeated`` marks from there were told before, though
    perhaps not the sums of their steps, and so were the rows of steps before ``told``.
    """

    step: Annotated[int, msgspec.Meta(ge=0, le=MOST_STEPS)]
    start_ns: int
    explicit: bool
    compiled: bool
    exchanges: bool
    repeated: Count = 0
    told: Count = 0


class Hello(msgspec.Struct, frozen=True, kw_only=True, tag="hello"):
    """A rank has joined, or knows more of itself: who it is. ``job`` is "" where its own environment names none.

    ``place`` is where its marks go on, after a sidecar that died. ``measures``: what the probe costs is to be told.
    """

    rank: Rank
    world_size: Count
    local_rank: Whole
    pid: Whole
    device: str
    backend: str
    framework: str
    job: str
    attempt: Whole
    started_s: Time
    batch_size: Whole | None = None
    dp: CountOrNone | None = None
    tp: CountOrNone | None = None
    pp: CountOrNone | None = None
    labels: dict[str, str] = {}
    place: Place | None = None
    measures: bool = False


#: What a rank may not know at first: it says hello again once it does, at most so many times in all on a connection.
LEARNED = ("device", "framework", "batch_size", "dp", "tp", "pp")
MOST_HELLOS = 8


class LinkReport(NamedTuple):
    """A rank's connections: how many, smallest round trip, retransmits, and which of them carried data.

    What the interface is rated at, in bytes a second, is filled in by the sidecar.
    """

    connections: Count
    rtt_s: Seconds
    retransmits: Count
    peers: list[PeerLink] = []  # noqa: RUF012 - never changed
    rated_bytes_per_s: Number | None = None


#: Group, its size, number within it, operation, bytes, and who issued it.
Issued = tuple[str, Count, Count, str, Count, Whole]


class Marks(msgspec.Struct, frozen=True, kw_only=True, tag="marks"):
    """What a rank wrote down since its last message, oldest first: time, kind and payload, as in ``marks``.

    Times are nanoseconds of the rank's monotonic clock, in order; ``offset_ns`` makes them Unix time. ``on_device``
    tells that spans are timed on a device. ``lost`` counts marks that a full ring dropped.
    """

    marks: list[tuple[int, int, int | Issued | None]]
    offset_ns: int
    on_device: bool = False
    link: LinkReport | None = None
    lost: Count = 0


class Settled(msgspec.Struct, frozen=True, kw_only=True, tag="settled"):
    """What a rank has sent on this connection is safe so far: out of the sidecar's hands.

    Another sidecar needs its marks from number ``marks`` on, where ``place`` is. Of what was ``lost`` so many have been
    told; ``open`` collectives began before the place and have no result: their rows would end with this sidecar.
    """

    marks: Count
    place: Place
    lost: Count = 0
    open: Count = 0


class Bye(msgspec.Struct, frozen=True, kw_only=True, tag="bye"):
    """A rank has left in good order."""

    ended_s: float


RankMessage = Hello | Marks | Bye
encoder = msgspec.msgpack.Encoder()
decoder: msgspec.msgpack.Decoder[RankMessage] = msgspec.msgpack.Decoder(RankMessage)
settled_decoder: msgspec.msgpack.Decoder[Settled] = msgspec.msgpack.Decoder(Settled)

#: Environment variable with the path of the sidecar's socket.
SOCKET_VARIABLE = "PACELINE_SOCKET"
#: ... and, where it is not empty, that ranks turn the probe off and on in turn, to measure what it costs.
MEASURE_VARIABLE = "PACELINE_MEASURE_OVERHEAD"
