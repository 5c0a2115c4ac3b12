"""What was handed to the broker on behalf of single messages, and is waited for together.

Rule of this file: no message waits for another's answer. A message's offset is safe when what was handed over for it is
on the broker; how much may be under way is bounded, so that a flood waits for the broker and fills no memory.
"""

import asyncio
from collections.abc import Awaitable, Callable

#: What is not on the broker yet, at most.
MOST_UNDER_WAY = 1000


class Deliveries:
    """What is under way. ``release`` is told the serial of each message whose part has arrived."""

    def __init__(self, release: Callable[[int], None]) -> None:
        self.release = release
        self._under_way: list[tuple[int | None, Awaitable[object]]] = []
        self._settling = asyncio.Lock()

    async def make_room(self) -> None:
        """Return when another may be handed over.

        Raises:
            Exception: one could not be delivered.
        """
        if len(self._under_way) >= MOST_UNDER_WAY:
            await self.settle()

    def add(self, sent: Awaitable[object], serial: int | None = None) -> None:
        """``sent`` is under way for the message that got ``serial``."""
        self._under_way.append((serial, sent))

    async def settle(self) -> None:
        """Wait until all so far is on the broker.

        Raises:
            Exception: something could not be delivered.
        """
        async with self._settling:
            arriving, self._under_way = self._under_way, []
            await asyncio.gather(*(arrived for _, arrived in arriving))
            for serial, _ in arriving:
                if serial is not None:
                    self.release(serial)

    def clear(self) -> None:
        """The partitions were taken away: what is under way is somebody else's affair."""
        self._under_way.clear()
