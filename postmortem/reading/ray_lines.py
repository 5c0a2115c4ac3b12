"""What Ray writes of its workers in the driver's log: where each runs, whose an exception is, which process is gone.

Rule of this file: pure. Ray's own guesses at why a process ended ("potential root causes") are no evidence. A worker's
rank is what the trainer lists, or what the worker shows of itself; its number within a node or group is none.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from ..evidence import Failure, Placed, Source, Statement

WORDS = (
    "ray::",
    "Error Snippet]:",
    "world_rank=",
    "Setting up process group for",
    "died unexpectedly before finishing",
    "Worker exit type: ",
)
_MOST_LINES = 10
_REMOTE = re.compile(
    r"ray::\S{1,300}\(\) \(pid=(\d{1,10}), ip=([\w.:-]{2,253})(?:, actor_id=\w{1,80})?(?:, repr=(.{1,400}?))?\)$"
)
_SNIPPET = re.compile(r"\[Rank (\d[\d,]{0,40000}) Error Snippet\]:")
_RANK = re.compile(r"(?:^|[^A-Za-z_])(?:world_|global_)?rank[ =:]{1,2}(\d{1,7})\b", re.IGNORECASE)
_LISTED = re.compile(
    r"\(?(?:node_id=\w{1,80}, )?ip=([\w.:-]{2,253}), pid=(\d{1,10})\) world_rank=(\d{1,7}), local_rank=(\d{1,5})"
)
_JOINS = re.compile(r"Setting up process group for: \S{1,300} \[rank=(\d{1,7}), world_size=\d{1,7}\]")
_ENDED = re.compile(
    r"Worker IP address: (?P<ip>[\w.:-]{2,253}) Worker port: \d{1,5} Worker PID: (?P<pid>\d{1,10}) "
    r"Worker exit type: (?P<how>SYSTEM_ERROR|NODE_OUT_OF_MEMORY)\b"
)
#: What a statement says of a process that Ray names in place of several.
ONE_OF_SEVERAL = "one of several"
_FIELD = re.compile(r"\s{1,8}(pid|ip): (\S{1,100})$")


class Remote(NamedTuple):
    """Whose the frames are that follow: a process on a node, or ranks."""

    pid: int | None
    node: str
    ranks: tuple[int, ...]


def remote(text: str) -> Remote | None:
    """The worker whose traceback follows this line; None if none does.

    >>> remote("ray.exceptions.RayTaskError(ValueError): ray::W.fn() (pid=7, ip=10.0.0.3, actor_id=3e, repr=W(rank=2))")
    Remote(pid=7, node='10.0.0.3', ranks=(2,))
    >>> remote("[Rank 0,3 Error Snippet]:")
    Remote(pid=None, node='', ranks=(0, 3))
    """
    if "ray::" in text and (found := _REMOTE.search(text)):
        rank = _RANK.search(found[3] or "")
        return Remote(int(found[1]), found[2], (int(rank[1]),) if rank else ())
    if text.startswith("[Rank ") and (found := _SNIPPET.match(text)):
        return Remote(None, "", tuple(int(one) for one in found[1].split(",")[:4096] if one and len(one) < 8))
    return None


def placed(text: str, pid: int | None, node: str, source: Source) -> Iterator[Placed]:
    """Which rank a process is, by the trainer's list or by its own line when it joins the others."""
    if "world_rank=" in text and (found := _LISTED.search(text)):
        yield Placed(rank=int(found[3]), node=found[1], source=source, pid=int(found[2]), local_rank=int(found[4]))
    elif pid is not None and text.startswith("Setting up process group") and (found := _JOINS.match(text)):
        yield Placed(rank=int(found[1]), node=node, source=source, pid=pid)


def ended(text: str, repeated: bool, source: Source) -> Iterator[Failure]:
    """What a raylet says of a worker's process that is gone, on one line; ``repeated`` if of others that are alike."""
    if "Worker exit type: " in text and (found := _ENDED.search(text)):
        yield Failure(
            source=source,
            node=found["ip"],
            role="own" if found["how"] == "NODE_OUT_OF_MEMORY" else "teardown",
            name="memory_host" if found["how"] == "NODE_OUT_OF_MEMORY" else "actor_died",
            text=ONE_OF_SEVERAL if repeated else "",
            of_pid=int(found["pid"]),
        )


class LostActor:
    """The fields below the sentence that an actor's process is gone."""

    def __init__(self) -> None:
        self.open = False
        self._lines = 0
        self._fields: dict[str, str] = {}

    def line(self, text: str, source: Source) -> Iterator[Statement]:
        """Take a line; the process is known once its number and its node are."""
        if "The actor died unexpectedly before finishing this task" in text:
            self.open, self._lines, self._fields = True, 0, {}
            return
        if not self.open:
            return
        self._lines += 1
        if found := _FIELD.match(text):
            self._fields[found[1]] = found[2]
        pid, node = self._fields.get("pid", ""), self._fields.get("ip", "")
        if pid.isdigit() and len(pid) < 11 and node:
            yield Failure(source=source, node=node, role="teardown", name="actor_died", text="", of_pid=int(pid))
            self.open = False
        elif self._lines > _MOST_LINES:
            self.open = False
