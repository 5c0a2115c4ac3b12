"""Which stored states are forgotten unread: of jobs and nodes that were silent when a worker took over.

Rule of this file: pure; stream time is an argument. A state comes into memory with its next message, and what is in
memory is forgotten once idle. One whose next message never comes would be stored for ever, its findings open.
"""

import msgspec

from .keyed_state import Key

#: So many at a time: each is read, and says its last words, between two messages.
AT_A_TIME = 8


class Unread:
    """When it is time to look for them, ``idle_s`` of stream time after the last look, and those that were found."""

    def __init__(self, idle_s: float) -> None:
        self._idle_s = idle_s
        self._since_s: float | None = None
        self._found: list[tuple[int, Key]] = []

    def due(self, now_s: float, *, backlog: bool) -> bool:
        """Whether to look. In a backlog the next message of any state may lie on the broker: that waits for its end."""
        if backlog:
            return False
        if self._since_s is None:
            self._since_s = now_s
        if now_s - self._since_s <= self._idle_s:
            return False
        self._since_s = now_s
        return True

    def add(self, partition: int, texts: list[str]) -> None:
        """What is stored in ``partition``. What clusters are advised is kept, as are notes of other kinds."""
        keys = (key for text in texts if (key := _key(text)) is not None)
        self._found += [(partition, key) for key in keys if key.kind in ("job", "node")]

    def take(self) -> list[tuple[int, Key]]:
        """Some of those that were found, with their partitions; each once."""
        taken, self._found = self._found[:AT_A_TIME], self._found[AT_A_TIME:]
        return taken

    def clear(self) -> None:
        """The partitions were taken away."""
        self._since_s = None
        self._found.clear()


def _key(text: str) -> Key | None:
    try:
        return Key.read(text)
    except msgspec.DecodeError:
        return None
