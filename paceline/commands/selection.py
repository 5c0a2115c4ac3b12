"""Which messages belong to a job: its own, and those of the nodes it runs on.

Rule of this file: pure. Nodes are learned from the job's own messages, so a node counts from the first of them on.
"""

import msgspec

from paceline.topics import BY_NAME, Topic


class _Whose(msgspec.Struct):
    node: str = ""


_json = msgspec.json.Decoder(_Whose)
_msgpack = msgspec.msgpack.Decoder(_Whose)


class Selection:
    """The messages of one job, or of all when ``job`` is None."""

    def __init__(self, job: str | None) -> None:
        self._job = job
        self.nodes: set[str] = set()

    def takes(self, topic: str, key: str | None, value: bytes) -> bool:
        """Whether the message belongs to the job."""
        if self._job is None:
            return True
        if key is None or topic not in BY_NAME:
            return False
        own = self._job
        if BY_NAME[topic].key == "job/node":
            own, key = f"{self._job}/", key[: len(self._job) + 1]
        if key == own:
            self._learn(BY_NAME[topic], value)
            return True
        return key in self.nodes

    def _learn(self, topic: Topic, value: bytes) -> None:
        try:
            node = (_json if topic.encoding == "json" else _msgpack).decode(value).node
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return
        if node:
            self.nodes.add(node)
