"""What every event is built on: the schema's version, bounded whole numbers, the two base types."""

from typing import Annotated

import msgspec

SCHEMA_VERSION = 1

# Whole numbers that readers size or index arrays with are bounded, so that a wrong one is refused on reading.
Rank = Annotated[int, msgspec.Meta(ge=0, lt=2**20)]
Index = Annotated[int, msgspec.Meta(ge=0, lt=2**20)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
CountOrNone = Annotated[int, msgspec.Meta(ge=-1, le=2**53)]


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Base of every event."""

    schema_version: int = SCHEMA_VERSION


class Produced(Event, frozen=True, kw_only=True):
    """An event whose producer numbers its messages, so that consumers see gaps and drop duplicates.

    ``producer`` is unique per process start; ``sequence`` counts its messages **on this topic** from 0.
    """

    cluster: str
    producer: str
    sequence: int
