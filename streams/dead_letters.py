"""Dead letters: what could not be used, published at once and waited for together.

Rule of this file: a message that is refused holds up nobody but itself (``deliveries.py``).
"""

import base64
from collections.abc import Awaitable, Callable

from paceline import topics, wire
from paceline.events import DeadLetter
from paceline.topics import Topic

from .deliveries import Deliveries
from .offsets import Partition

EXCERPT_BYTES = 256
REASON_CHARACTERS = 500

#: Sends key and value to a topic; the awaitable it returns is done when the broker has them.
Publish = Callable[[Topic, str | None, bytes], Awaitable[Awaitable[object]]]


class DeadLetters:
    """Writes letters, and leaves them to ``deliveries``."""

    def __init__(self, publish: Publish, wall: Callable[[], float], deliveries: Deliveries) -> None:
        self.publish = publish
        self.wall = wall
        self.deliveries = deliveries

    async def put(self, source: Partition, offset: int, data: bytes, reason: str, serial: int | None = None) -> None:
        """Publish a letter on the message at ``offset``, whose first bytes are those of ``data``."""
        await self.deliveries.make_room()
        letter = DeadLetter(
            reason=reason[:REASON_CHARACTERS],
            topic=source.topic,
            partition=source.number,
            offset=offset,
            time_s=self.wall(),
            excerpt=base64.b64encode(data[:EXCERPT_BYTES]).decode(),
        )
        self.deliveries.add(await self.publish(topics.DEADLETTER, None, wire.encode(letter)), serial)
