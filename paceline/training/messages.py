"""What a rank and the sidecar of its node tell each other over a local SEQPACKET socket.

The rank tells what it wrote down; the sidecar answers how much of it is safe, so that what died with a sidecar can be
sent to the next. It stands with ``marks`` and ``balance_messages`` on the user's side, for that process may import
nothing of the node's; the three are all that the sidecar imports from here (import-linter holds it).

Rule of this file: data and how a rank writes it, by the standard library alone, for the training process need not have
anything else. What may be in it, the reader says (``paceline.sidecar.rank_messages``): names of bounded numbers in
annotations are for that reader and for the type checker, and nothing here ever looks them up.

A message is one byte that tells its kind and a body: JSON, but for marks, whose times and kinds are raw columns.
"""

from __future__ import annotations

import json
import struct
from array import array
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Union

if TYPE_CHECKING:
    from paceline.events import Count, CountOrNone, Number, Rank, Seconds, Time, Whole

    StepNumber = int

#: Another number, another language: a sidecar says so once of ranks whose Paceline speaks another, and times them not.
PROTOCOL = 1
#: More steps follow the last that a rank tells, and each has to fit into an event.
MOST_STEPS = 2**40

HELLO, MARKS, BYE = b"h", b"m", b"b"
#: Of marks, before their times (``q``), their kinds (``B``) and JSON of the rest: how many, their offset, those lost,
#: whether on a device. Both ends are on one machine, so numbers are as that has them.
MARKS_HEAD = struct.Struct("=IqQ?")


@dataclass(frozen=True)
class Place:
    """A place between two steps of a rank, from which its marks can be read without those before.

    ``step`` begins there, at ``start_ns`` of the rank's clock; ``explicit``, ``compiled`` and ``exchanges`` say how
    this script's steps end. Collectives that ended in the first ``repeated`` marks from there were told before, though
    perhaps not the sums of their steps, and so were the rows of steps before ``told``.
    """

    step: StepNumber
    start_ns: Whole
    explicit: bool
    compiled: bool
    exchanges: bool
    repeated: Count = 0
    told: Count = 0


@dataclass(frozen=True)
class Hello:
    """A rank has joined, or knows more of itself: who it is. ``job`` is "" where its own environment names none.

    ``place`` is where its marks go on, after a sidecar that died. ``measures``: what the probe costs is to be reported.
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
    labels: dict[str, str] = field(default_factory=dict)
    place: Place | None = None
    measures: bool = False
    #: What it runs on, by the names of ``RankFact``; a rank of before tells none.
    versions: dict[str, str] = field(default_factory=dict)
    protocol: Whole = PROTOCOL


#: What a rank may not know at first: it says hello again once it does, at most so many times in all on a connection.
LEARNED = ("device", "framework", "batch_size", "dp", "tp", "pp", "labels")
MOST_HELLOS = 8


class Peer(NamedTuple):
    """One connection to another rank that carried data since the sample before; its ends are ``ip:port``.

    ``rtt_s`` is None at the end that only received: the sender alone measures it.
    """

    local: str
    remote: str
    rtt_s: Seconds | None = None


class LinkReport(NamedTuple):
    """A rank's connections: how many, smallest round trip, retransmits, and which of them carried data.

    What the interface is rated at, in bytes a second, is filled in by the sidecar.
    """

    connections: Count
    rtt_s: Seconds
    retransmits: Count
    peers: list[Peer] = []  # noqa: RUF012 - never changed
    rated_bytes_per_s: Number | None = None


#: Group, its size, number within it, operation, bytes, and who issued it.
Issued = tuple[str, int, int, str, int, int]


@dataclass(frozen=True)
class Marks:
    """What a rank wrote down since its last message, oldest first: time, kind and payload, as in ``marks``.

    Times are nanoseconds of the rank's monotonic clock, in order; ``offset_ns`` makes them Unix time. ``on_device``
    tells that spans are timed on a device. ``lost`` counts marks that a full ring dropped.
    """

    marks: list[tuple[int, int, int | Issued | None]]
    offset_ns: int
    on_device: bool = False
    link: LinkReport | None = None
    lost: int = 0


@dataclass(frozen=True)
class Settled:
    """What a rank has sent on this connection is safe so far: out of the sidecar's hands.

    Another sidecar needs its marks from number ``marks`` on, where ``place`` is. Of what was ``lost`` so many have been
    told; ``open`` collectives began before the place and have no result: their rows would end with this sidecar.
    """

    marks: Count
    place: Place
    lost: Count = 0
    open: Count = 0


@dataclass(frozen=True)
class Bye:
    """A rank has left in good order."""

    ended_s: float


RankMessage = Union[Hello, Marks, Bye]
_json = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, check_circular=False)


def encode(message: RankMessage) -> bytes:
    """``message`` as it travels; half a character, as an environment may hold, becomes a question mark."""
    if isinstance(message, Marks):
        return _encode_marks(message)
    return (HELLO if isinstance(message, Hello) else BYE) + _text(asdict(message))


def _encode_marks(message: Marks) -> bytes:
    """By columns: the thread that sends marks takes the interpreter from the one that trains."""
    times, kinds, payloads = zip(*message.marks) if message.marks else ((), (), ())
    head = MARKS_HEAD.pack(len(times), message.offset_ns, message.lost, message.on_device)
    rest = _text({"payloads": payloads, "link": message.link})
    return b"".join((MARKS, head, array("q", times).tobytes(), bytes(kinds), rest))


def decode_settled(data: bytes) -> Settled | None:
    """What the sidecar told; None where that was something else. What only another version knows is passed over."""
    try:
        told = json.loads(data)
        place = _known(Place, told.pop("place"))
        settled = _known(Settled, {**told, "place": place})
    except (ValueError, TypeError, AttributeError, LookupError, RecursionError):
        return None
    numbers = (settled.marks, settled.lost, settled.open, place.step, place.start_ns, place.repeated, place.told)
    return settled if all(isinstance(number, int) for number in numbers) else None


def _known(kind: Any, told: dict[str, Any]) -> Any:
    return kind(**{name: value for name, value in told.items() if name in kind.__dataclass_fields__})


def _text(value: Any) -> bytes:
    return _json.encode(value).encode("utf-8", "replace")


#: Environment variable with the path of the sidecar's socket.
SOCKET_VARIABLE = "PACELINE_SOCKET"
#: ... and, where it is not empty, that ranks turn the probe off and on in turn, to measure what it costs.
MEASURE_VARIABLE = "PACELINE_MEASURE_OVERHEAD"
