"""The box that an MPI launcher prints of the first process that it saw end, or of a node that it has lost, whatever
the width of its lines.

Rule of this file: pure, a few lines at most. Open MPI 4 (mpirun) and 5 (prterun) wrap the sentence at other words, and
terminals once more, so it is put together first. The launcher saw an exit, which is no cause.
"""

import re
from collections.abc import Iterator

from ..evidence import Exit, Outside, Source
from .job_lines import as_signal

WORDS = (
    "noticed that process",
    "detected that one or more processes exited",
    "MPI_ABORT was invoked on rank",
    "application called MPI_Abort(MPI_COMM_WORLD",
    "BAD TERMINATION OF ONE OF",
    "has lost communication with a remote daemon",
)
_MOST_LINES = 12
_SIGNALLED = re.compile(
    r"noticed that process rank (\d{1,7}) with PID (\d{1,10}) on node ([A-Za-z0-9.-]{1,255}) "
    r"exited on signal (\d{1,2})\b"
)
#: ``[[5872,1],2]`` of Open MPI 4, ``[prterun-node-1-77@1,2]`` of 5. A job but the first was spawned: it has no ranks.
_EXITED = re.compile(
    r"The first process to do so was: Process name: \[(?:\[\d{1,9},1\]|[A-Za-z0-9._-]{1,255}@1),(\d{1,7})\] "
    r"Exit code: (\d{1,4})\b"
)
#: Horovod's over gloo: a rank, or a node's local rank where ranks may change.
_HOROVODS = re.compile(
    r"The first process to do so was: Process name: (?:(\d{1,7})|([A-Za-z0-9.-]{1,255})\[(\d{1,5})\]) "
    r"Exit code: (\d{1,4})\b"
)
#: The rank itself called it, of the world that mpirun started.
_ABORTED = re.compile(
    r"MPI_ABORT was invoked on rank (\d{1,7}) in communicator MPI_COMM_WORLD "
    r"(?:with errorcode|Proc: \[(?:\[\d{1,9},1\]|[A-Za-z0-9._-]{1,255}@1),\d{1,7}\] Errorcode:) (-?\d{1,9})\b"
)
_MPICH = re.compile(r"application called MPI_Abort\(MPI_COMM_WORLD, (-?\d{1,9})\) - process (\d{1,7})\b")
#: Intel's, which says the rank.
_INTEL = re.compile(r"RANK (\d{1,7}) PID (\d{1,10}) RUNNING AT ([A-Za-z0-9.-]{1,255}) = KILLED BY SIGNAL: (\d{1,2})\b")
#: MPICH's own: the process in it is one of those that ended, which may be one that it has killed itself.
_MPICHS = re.compile(r"YOUR APPLICATION TERMINATED WITH THE EXIT STRING: [^()]{1,80} \(signal (\d{1,2})\)")
#: Of a whole node: its daemon answers no more.
_LOST = re.compile(
    r"lost communication with a remote daemon\..{1,300}? Remote daemon: \S{1,200} on node ([A-Za-z0-9.-]{1,255})"
)


class MpiBox:
    """The sentence of one voice's box."""

    def __init__(self) -> None:
        self.open = False
        self._parts: list[str] = []

    def line(self, text: str, source: Source) -> Iterator[Exit | Outside]:
        """Take a line; what the box says comes with the line that completes it."""
        if any(word in text for word in WORDS):
            self.open, self._parts = True, []
        if not self.open:
            return
        if text.startswith("----"):
            self.open = False
            return
        self._parts.append(text.strip())
        said = re.sub(r"\s{1,400}", " ", " ".join(self._parts))
        made = _first(said, source)
        if made is not None:
            yield made
        self.open = made is None and len(self._parts) < _MOST_LINES


def _first(said: str, source: Source) -> Exit | Outside | None:
    """What a box says of the first process, or of a node; None where it is not over yet."""
    if found := _SIGNALLED.search(said):
        pid = int(found[2]) or None  # It prints 0 where the process had ended before it looked.
        return Exit(rank=int(found[1]), node=found[3], source=source, code=-int(found[4]), pid=pid, first=True)
    if found := _EXITED.search(said):
        return Exit(rank=int(found[1]), source=source, code=as_signal(int(found[2])), first=True)
    if found := _HOROVODS.search(said):
        rank, local = (int(one) if one else None for one in (found[1], found[3]))
        code = as_signal(int(found[4]))
        return Exit(rank=rank, node=found[2] or "", source=source, code=code, local_rank=local, first=True)
    if found := _ABORTED.search(said):
        return Exit(rank=int(found[1]), source=source, code=int(found[2]) % 256 or 1, first=True)
    if found := _MPICH.search(said):
        return Exit(rank=int(found[2]), source=source, code=int(found[1]) % 256 or 1, first=True)
    if found := _INTEL.search(said):
        code, pid = -int(found[4]), int(found[2])
        return Exit(rank=int(found[1]), node=found[3], source=source, code=code, pid=pid, first=True)
    if found := _MPICHS.search(said):
        return Exit(source=source, code=-int(found[1]), first=True)
    if found := _LOST.search(said):
        return Outside(node=found[1], source=source, reason="lost node", strong=True)
    return None
