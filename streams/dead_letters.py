"""Dead letters: what could not be used, published at once and waited for together.

Rule of this file: a message that is refused holds up nobody but itself. Its offset is safe when its letter is on the
broker; how many letters may be under way is bounded, so that a flood of nonsense waits for the broker and fills no
memory.
"""

import asyncio
import base64
from collections.abc import Awaitable, Callable

from paceline import topics, wire
from paceline.events import DeadLetter
from paceline.topics import Topic

from .offsets import Partition

#: Letters that are not on the broker yet, at most.
MOST_UNDER_WAY = 1000
EXCERPT_BYTES = 256
REASON_CHARACTERS = 500

#: Sends key and value to a topic; the awaitable it returns is done when the broker has them.
Publish = Callable[[Topic, str | None, bytes], Awaitable[Awaitable[object]]]


class DeadLetters:
    """The letters under way. ``release`` is told the serial of each message whose letter has arrived."""

    def __init__(self, publish: Publish, wall: Callable[[], float], release: Callable[[int], None]) -> None:
        self.publish = publish
        self.wall = wall
        self.release = release
        self._under_way: list[tuple[int | None, Awaitable[object]]] = []
        self._settling = asyncio.Lock()

    async def put(self, source: Partition, offset: int, data: bytes, reason: str, serial: int | None = None) -> None:
        """Publish a letter on the message at ``offset``, whose first bytes are those of ``data``."""
        if len(self._under_way) >= MOST_UNDER_WAY:
            await self.settle()
        letter = DeadLetter(
            reason=reason[:REASON_CHARACTERS],
            topic=source.topic,
            partition=source.number,
            offset=offset,
            time_s=self.wall(),
            excerpt=base64.b64encode(data[:EXCERPT_BYTES]).decode(),
        )
        sent = await self.publish(topics.DEADLETTER, None, wire.encode(letter))
        self._under_way.append((serial, sent))  # Another list by now, where others were waited for meanwhile.

    async def settle(self) -> None:
        """Wait until the letters so far are on the broker.

        Raises:
            Exception: one could not be delivered.
        """
        async with self._settling:
            arriving, self._under_way = self._under_way, []
            await asyncio.gather(*(arrived for _, arrived in arriving))
            for serial, _ in arriving:
                if serial is not None:
                    self.release(serial)

    def clear(self) -> None:
        """The partitions were taken away: whose letters are under way is somebody else's affair."""
        self._under_way.clear()
