"""The states in memory as the door keeps them, and when each is to be stored.

Rule of this file: time is an argument, and nothing is sent. Snapshots are taken often, but for their share of the time.
"""

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field

from .keyed_state import Key
from .offsets import Partition

#: A state is stored this often, or after so many events, whichever comes first …
CHECKPOINT_S = 2.0
CHECKPOINT_EVENTS = 500
#: … but snapshots may take no more than one part in so many of the time, those of one state and those of all together;
SNAPSHOT_SHARE = 20
#: of all together only as long as none is older than this: so much is read again after a restart.
OLDEST_S = 20.0


@dataclass
class OpenState:
    """What the door keeps of a state between two snapshots."""

    partition: int
    #: Where its newest event stands.
    newest: tuple[Partition, int]
    events: int = 0
    #: Events ever, and how many they were at the last look; whether what waits of them for more has been judged.
    taken: int = 0
    looked: int = 0
    flushed: bool = True
    due_s: float = 0.0
    #: Before then another snapshot would take more than its share of the time; and how long the last one took.
    rests_until_s: float = 0.0
    took_s: float = 0.0
    waiting: list[Awaitable[object]] = field(default_factory=list)
    #: Held from an event's arrival until all its answers are handed over: a snapshot in between would hold the event,
    #: and be stored without waiting for them.
    telling: asyncio.Lock = field(default_factory=asyncio.Lock)

    def due(self, now_s: float) -> bool:
        """Whether it is time to store it."""
        return now_s >= self.due_s or (self.events >= CHECKPOINT_EVENTS and now_s >= self.rests_until_s)


class OpenStates(dict[Key, OpenState]):
    """Those in memory, by key."""

    def __init__(self) -> None:
        super().__init__()
        #: How long a snapshot of each of these takes, together.
        self._round_s = 0.0

    def open(self, key: Key, newest: tuple[Partition, int], now_s: float) -> OpenState:
        """The state of ``key``, which has another event; a new one is stored soon."""
        opened = self.get(key)
        if opened is None:
            opened = self[key] = OpenState(newest[0].number, newest, due_s=now_s + CHECKPOINT_S)
        opened.newest = newest
        return opened

    def rest(self, opened: OpenState, began_s: float, now_s: float) -> None:
        """A snapshot that began then has been taken: when the next one is due."""
        took_s = now_s - began_s
        self._round_s += took_s - opened.took_s
        opened.took_s = took_s
        rest_s = max(SNAPSHOT_SHARE * took_s, min(SNAPSHOT_SHARE * self._round_s, OLDEST_S))
        opened.rests_until_s = began_s + rest_s
        opened.due_s = began_s + max(CHECKPOINT_S, rest_s)

    def close(self, key: Key) -> None:
        """The state is no longer in memory."""
        if (opened := self.pop(key, None)) is not None:
            self._round_s -= opened.took_s

    def clear(self) -> None:
        """None is."""
        super().clear()
        self._round_s = 0.0
