"""Targets: what the streams stored of themselves and read back after a restart.

Rule of this file: it comes from a topic that others may write to, so a damaged state is refused with ``ValueError``,
whatever is wrong with it; then its job or node starts again.
"""

from collections.abc import Callable
from functools import cache, partial

import msgspec
import numpy as np
import zstandard

from paceline import recording, topics, wire
from paceline.recording import Line
from streams import snapshots
from streams.cluster_events import ADVICE, Heard, concerns
from streams.keyed_state import Key, KeyedState
from streams.processor import Processor
from streams.routes import ROUTES, Decision
from streams.store import Header, Store, StoreError

from .bus import golden, recorded
from .target import Target

_LAYOUT = 1
_PLAIN = {"numbers": np.arange(6.0).reshape(2, 3), "flags": np.ones(3, dtype=np.bool_), "words": {"a": [1, None]}}
_DECISIONS = {kind.__name__: kind for kinds in ROUTES.values() for kind in kinds}


@cache
def _states() -> tuple[KeyedState, ...]:
    """States of jobs and nodes after some real messages."""
    processor = Processor()
    for name in ("compute", "collectives-only", "node-faults"):
        for raw in recorded(name, 12).splitlines():
            line = recording.parse(0, raw)
            if isinstance(line, Line) and line.topic in ROUTES:
                topic = topics.BY_NAME[line.topic]
                processor.update(topic, wire.decode(topic, line.value))
    for topic in (topics.HOST, topics.BALANCE):
        for data in golden(topic):
            processor.update(topic, wire.decode(topic, data))
    for topic in topics.TOPICS:
        for event in (wire.decode(topic, data) for data in golden(topic)):
            if concerns(event):
                processor.update(ADVICE, Heard(topic, event, 1.7e9))
    return tuple(state for state, _ in processor.states.values())


def _snapshots(name: str) -> list[bytes]:
    return [state.decisions[name].snapshot() for state in _states() if name in state.decisions]


def _contents(name: str) -> list[bytes]:
    """What is inside of real snapshots: packed, a change would only be seen to be damage."""
    return [zstandard.decompress(data) for data in _snapshots(name)]


def _restore(kind: type[Decision]) -> Callable[[bytes], None]:
    def feed(data: bytes) -> None:
        kind.restore(zstandard.compress(data, 1))

    return feed


def _unpack(data: bytes) -> None:
    snapshots.unpack(_LAYOUT, data)


def _parts(data: bytes) -> None:
    KeyedState.restore(data)


def _key(data: bytes) -> None:
    key = Key.read(data.decode("utf-8", "replace"))
    assert Key.read(key.text()) == key


def _header(data: bytes) -> None:
    async def delivered() -> None:
        """Everything is, at once."""

    name = b"0|key"
    Store({name: data, b"0|key#0.0": b"chunk"}, delivered).read(0, "key")


def _headers() -> list[bytes]:
    return [msgspec.msgpack.encode(one) for one in (Header(0, 0, 0), Header(1, 2, 7, b"data"))]


TARGETS = (
    Target("state.snapshot", _unpack, lambda: [snapshots.pack(_LAYOUT, _PLAIN)], (ValueError,)),
    Target("state.parts", _parts, lambda: [state.snapshot() for state in _states()], (ValueError,), "msgpack", 65_536),
    *(
        Target(f"state.{name}", _restore(kind), partial(_contents, name), (ValueError,), "msgpack", 65_536)
        for name, kind in _DECISIONS.items()
    ),
    Target("state.key", _key, lambda: [b'["job","c","j",0]'], (msgspec.DecodeError,), "json", 256),
    Target("state.header", _header, _headers, (StoreError,), "msgpack", 256),
)
