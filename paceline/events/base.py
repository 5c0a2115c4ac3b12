"""What every event is built on: the schema's version, bounded whole numbers, the two base types."""

from typing import Annotated

import msgspec

from paceline.bounds import LATEST_S, RANK_LIMIT

SCHEMA_VERSION = 1

# Every number is bounded, so that a wrong one is refused on reading and never met by what sums, stores or shows it:
# whole numbers fit 64 bits, and those that readers size or index arrays with are smaller.
Whole = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Rank = Annotated[int, msgspec.Meta(ge=0, lt=RANK_LIMIT)]
Index = Annotated[int, msgspec.Meta(ge=0, lt=2**20)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
CountOrNone = Annotated[int, msgspec.Meta(ge=-1, le=2**53)]
#: A name that comes from a job: of a phase, a group, a device.
Word = Annotated[str, msgspec.Meta(max_length=256)]
#: Any other name: of a cluster, job, node or device. Our own producers cut theirs to 200 characters; whoever reads
#: names keeps many of them.
LongWord = Annotated[str, msgspec.Meta(max_length=1024)]
Time = Annotated[float, msgspec.Meta(ge=0.0, le=LATEST_S)]
#: A difference of two times: an offset or a duration.
Seconds = Annotated[float, msgspec.Meta(ge=-LATEST_S, le=LATEST_S)]
#: Any other measured number; its square, and sums of many, are still numbers.
MOST_MEASURED = 1e30
Number = Annotated[float, msgspec.Meta(ge=-MOST_MEASURED, le=MOST_MEASURED)]


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Base of every event."""

    schema_version: Whole = SCHEMA_VERSION


class Produced(Event, frozen=True, kw_only=True):
    """An event whose producer numbers its messages, so that consumers see gaps and drop duplicates.

    ``producer`` is unique per process start; ``sequence`` counts its messages **on this topic** from 0.
    """

    cluster: LongWord
    producer: LongWord
    sequence: Count


class DeliveryAccount(msgspec.Struct, frozen=True, kw_only=True):
    """What a producer has done with all its messages, on every topic, when it handed this one over.

    ``waiting`` are in its memory and ``spooled`` on its disk, in ``spooled_bytes``; ``shed`` are lost for good, by
    topic; ``outages`` counts how often the brokers went away. Numbers begin at 0 with the process.
    """

    sent: Count = 0
    waiting: Count = 0
    spooled: Count = 0
    spooled_bytes: Count = 0
    shed: dict[Word, Count] = {}
    outages: Count = 0


class Accounted(Produced, frozen=True, kw_only=True):
    """An event that carries its producer's account, from a producer that keeps one."""

    account: DeliveryAccount | msgspec.UnsetType = msgspec.UNSET
