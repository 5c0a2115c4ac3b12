"""Which messages belong to a job, with the nodes it runs on, or to nodes, with the jobs that run there, in a cluster.

Rule of this file: pure. What belongs together is learned from the messages themselves, so a node counts from the
first message of the job that names it, and a job from the first that says it runs on one of the nodes.
"""

from collections.abc import Collection

import msgspec

from paceline.decoders import json_decoder, msgpack_decoder
from paceline.topics import BY_NAME, Topic


class Head(msgspec.Struct):
    """What a message says of itself, whatever its event is; nothing of what it does not say."""

    cluster: str = ""
    producer: str = ""
    sequence: int = -1
    node: str = ""
    job: str = ""


NOTHING = Head()
_json = json_decoder(Head)
_msgpack = msgpack_decoder(Head)


def head(topic: Topic, value: bytes) -> Head:
    """The head of a message on ``topic``; an empty one of what is no event."""
    try:
        return (_json if topic.encoding == "json" else _msgpack).decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return NOTHING


class Selection:
    """The messages of one job, or of ``on_nodes``; of all where neither is given. With ``cluster`` only those of it.

    What names no cluster, because it is no event, is taken by its key alone.
    """

    def __init__(self, job: str | None = None, on_nodes: Collection[str] = (), cluster: str = "") -> None:
        self._job, self._on_nodes = job, frozenset(on_nodes)
        #: May be given later, when it is known.
        self.cluster = cluster
        #: The nodes that the job was seen on, or the jobs that were seen on the nodes.
        self.nodes: set[str] = set()
        self.jobs: set[str] = set()

    def takes(self, topic: str, key: str | None, value: bytes) -> bool:
        """Whether the message is selected."""
        if self.cluster and topic in BY_NAME and head(BY_NAME[topic], value).cluster not in ("", self.cluster):
            return False
        if self._job is None and not self._on_nodes:
            return True
        if key is None or topic not in BY_NAME:
            return False
        return self._of_job(self._job, BY_NAME[topic], key, value) if self._job else self._there(topic, key, value)

    def _of_job(self, own: str, topic: Topic, key: str, value: bytes) -> bool:
        if topic.key == "job/node":
            own, key = f"{own}/", key[: len(own) + 1]
        if key == own:
            if node := head(topic, value).node:
                self.nodes.add(node)
            return True
        return key in self.nodes

    def _there(self, topic: str, key: str, value: bytes) -> bool:
        said = head(BY_NAME[topic], value)
        if key in self._on_nodes or said.node in self._on_nodes:
            if said.job:
                self.jobs.add(said.job)
            return True
        # What is told of a whole job (a finding, its thresholds) names no node.
        return not said.node and (said.job or key) in self.jobs
