"""What is told to those who advise a cluster: events of other keys, each in an envelope, in a topic keyed by cluster.

Rule of this file: pure. The topic is the workers' own, and only they write it: what one says itself is put there beside
the topic of its own, what it reads for nothing else is forwarded. So advice has one order of events, which a restart
repeats, whatever workers wrote them; of two that were written at the same time any may be first.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from paceline import topics, wire
from paceline.decoders import msgpack_decoder
from paceline.events import (
    BY_QUARTER_HOUR,
    FREE_GPUS,
    LONG_WINDOW_S,
    MEDIUM_WINDOW_S,
    SUGGESTION_TARGET,
    Command,
    DeviceWindow,
    Event,
    Finding,
    Forecast,
    HostWindow,
    JobDescribed,
    JobProfile,
    JobWindow,
    NodeDescribed,
    Time,
)
from paceline.topics import HOUR_MS, RAW_BYTES, STREAMS_GROUP, Topic

ADVICE = Topic(f"{STREAMS_GROUP}-advice", bytes, "cluster", "derived", 24 * HOUR_MS, retention_bytes=RAW_BYTES)
#: What is read for this alone.
PASSED_ON = (topics.JOB, topics.PROFILE, topics.FORECAST, topics.COMMAND)
#: Windows of a job, and of a device or host, that advice is made of.
JOB_LENGTHS_S, NODE_LENGTH_S = (MEDIUM_WINDOW_S, LONG_WINDOW_S), LONG_WINDOW_S
#: The forecasts that advice is made of, behind the cluster's name: of free GPUs, an hour and a day ahead.
FREE_GPUS_SERIES = (f"/cluster/{FREE_GPUS}", f"/cluster/{FREE_GPUS}{BY_QUARTER_HOUR}")


class Envelope(msgspec.Struct, frozen=True, array_like=True):
    """A message of the topic: the ``value`` of which topic it is, and when the worker that wrote it heard it."""

    topic: str
    heard_s: Time
    value: bytes


class Heard(NamedTuple):
    """An event of ``topic``, for a cluster's advice; ``heard_s`` (Unix time) is the same in every replay."""

    topic: Topic
    event: Any
    heard_s: float

    @property
    def cluster(self) -> str:
        """Whose advice it is for."""
        return str(self.event.cluster)


_decoder = msgpack_decoder(Envelope)
_encoder = msgspec.msgpack.Encoder()


def _always(event: Any) -> bool:
    return True


def _of_node(event: DeviceWindow | HostWindow) -> bool:
    return event.length_s == NODE_LENGTH_S


def _of_free_gpus(event: Forecast) -> bool:
    return event.series.removeprefix(event.cluster) in FREE_GPUS_SERIES


_CONCERNED: dict[type, Callable[[Any], bool]] = {
    Finding: _always,
    JobWindow: lambda event: event.length_s in JOB_LENGTHS_S,
    DeviceWindow: _of_node,
    HostWindow: _of_node,
    JobProfile: _always,
    Forecast: _of_free_gpus,
    NodeDescribed: _always,
    JobDescribed: _always,
    Command: lambda event: event.target.startswith(SUGGESTION_TARGET),
}


def concerns(event: Event) -> bool:
    """Whether a cluster's advice is told of ``event``."""
    asked = _CONCERNED.get(type(event))
    return asked is not None and asked(event)


def enclosed(topic: Topic, value: bytes, heard_s: float) -> bytes:
    """``value``, a message of ``topic`` heard at ``heard_s``, as a message of ``ADVICE``."""
    return _encoder.encode(Envelope(topic.name, heard_s, value))


def read(topic: Topic, data: bytes) -> Any:
    """The event in ``data``, a message of ``topic``; of ``ADVICE`` a ``Heard``.

    Raises:
        WireError: there is none.
    """
    if topic is not ADVICE:
        return wire.decode(topic, data)
    try:
        envelope = _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise wire.WireError(f"no envelope: {error}"[:300]) from error
    source = topics.BY_NAME.get(envelope.topic)
    if source is None:
        raise wire.WireError(f"an envelope of {envelope.topic[:100]!r}, which is no topic")
    event = wire.decode(source, envelope.value)
    if not concerns(event):
        raise wire.WireError(f"an envelope of {type(event).__name__}, which no advice is made of")
    return Heard(source, event, envelope.heard_s)


def short(name: str) -> str:
    """The short name of the topic called ``name``; of one that no events are in the name itself."""
    topic = ADVICE if name == ADVICE.name else topics.BY_NAME.get(name)
    return name if topic is None else topic.short
