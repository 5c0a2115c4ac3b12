"""The outbox: messages waiting for the bus, bounded by bytes, the oldest shed first.

Rule of this file: pure. No I/O, no clock, no locks; whoever owns an outbox guards it. Its state is data.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator

import msgspec

#: What a message costs beside its key and value, so that a flood of empty ones is bounded too.
OVERHEAD_BYTES = 128


class Message(msgspec.Struct, frozen=True, array_like=True):
    """An encoded event on its way: where to, when it was published, and its bytes."""

    topic: str
    key: bytes | None
    value: bytes
    timestamp_ms: int

    @property
    def size(self) -> int:
        """Bytes it is charged for."""
        return len(self.value) + len(self.key or b"") + OVERHEAD_BYTES


class Snapshot(msgspec.Struct, frozen=True):
    """The whole state of an outbox."""

    messages: tuple[Message, ...]
    shed: dict[str, int]


class Outbox:
    """A queue that forgets the oldest rather than grow past ``limit_bytes``.

    >>> box = Outbox(limit_bytes=2 * (OVERHEAD_BYTES + 1))
    >>> for value in (b"1", b"2", b"3"):
    ...     box.put(Message("t", None, value, 0))
    >>> [message.value for message in box], box.shed
    ([b'2', b'3'], Counter({'t': 1}))
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.bytes = 0
        #: How many messages were shed, exactly, by topic.
        self.shed: Counter[str] = Counter()
        self._queue: deque[Message] = deque()

    def __len__(self) -> int:
        return len(self._queue)

    def __iter__(self) -> Iterator[Message]:
        return iter(self._queue)

    def put(self, message: Message) -> None:
        """Add ``message`` as the newest; shed the oldest until it fits, itself where it never can."""
        self._queue.append(message)
        self.bytes += message.size
        self._shed()

    def put_back(self, messages: Iterable[Message]) -> None:
        """Add ``messages``, popped before and in order, as the oldest again."""
        for message in reversed(tuple(messages)):
            self._queue.appendleft(message)
            self.bytes += message.size
        self._shed()

    def pop(self, limit_bytes: int, limit_messages: int) -> list[Message]:
        """Remove and return the oldest messages, at least one where there is one, within both limits."""
        messages: list[Message] = []
        size = 0
        while self._queue and len(messages) < limit_messages:
            size += self._queue[0].size
            if messages and size > limit_bytes:
                break
            messages.append(self._queue.popleft())
            self.bytes -= messages[-1].size
        return messages

    def snapshot(self) -> Snapshot:
        """The state, as data."""
        return Snapshot(tuple(self._queue), dict(self.shed))

    @classmethod
    def restore(cls, limit_bytes: int, snapshot: Snapshot) -> "Outbox":
        """An outbox that continues where ``snapshot`` was taken."""
        box = cls(limit_bytes)
        box.shed.update(snapshot.shed)
        for message in snapshot.messages:
            box.put(message)
        return box

    def _shed(self) -> None:
        while self.bytes > self.limit_bytes and self._queue:
            lost = self._queue.popleft()
            self.bytes -= lost.size
            self.shed[lost.topic] += 1
