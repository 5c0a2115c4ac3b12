"""The box that an MPI launcher prints of the first process that it saw end, or of a node that it has lost, whatever
the width of its lines.

Rule of this file: pure, a few lines at most. Open MPI 4 (mpirun) and 5 (prterun) wrap the sentence at other words, and
terminals once more, so it is put together first. The launcher saw an exit, which is no cause.
"""

import re
from collections.abc import Iterator

from ..evidence import Exit, Outside, Source

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
#: The rank itself called it, of the world that mpirun started.
_ABORTED = re.compile(
    r"MPI_ABORT was invoked on rank (\d{1,7}) in communicator MPI_COMM_WORLD "
    r"(?:with errorcode|Proc: \[(?:\[\d{1,9},1\]|[A-Za-z0-9._-]{1,255}@1),\d{1,7}\] Errorcode:) (-?\d{1,9})\b"
)
_MPICH = re.compile(r"application called MPI_Abort\(MPI_COMM_WORLD, (-?\d{1,9})\) - process (\d{1,7})\b")
#: Intel's; MPICH's own does not say the rank.
_INTEL = re.compile(r"RANK (\d{1,7}) PID (\d{1,10}) RUNNING AT ([A-Za-z0-9.-]{1,255}) = KILLED BY SIGNAL: (\d{1,2})\b")
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
        if found := _SIGNALLED.search(said):
            pid = int(found[2]) or None  # It prints 0 where the process had ended before it looked.
            yield Exit(rank=int(found[1]), node=found[3], source=source, code=-int(found[4]), pid=pid, first=True)
        elif found := _EXITED.search(said):
            code = int(found[2])
            code = 128 - code if 128 < code < 160 else code
            yield Exit(rank=int(found[1]), source=source, code=code, first=True)
        elif found := _ABORTED.search(said):
            yield Exit(rank=int(found[1]), source=source, code=int(found[2]) % 256 or 1, first=True)
        elif found := _MPICH.search(said):
            yield Exit(rank=int(found[2]), source=source, code=int(found[1]) % 256 or 1, first=True)
        elif found := _INTEL.search(said):
            code = -int(found[4])
            yield Exit(rank=int(found[1]), node=found[3], source=source, code=code, pid=int(found[2]), first=True)
        elif found := _LOST.search(said):
            yield Outside(node=found[1], source=source, reason="lost node", strong=True)
        self.open = not found and len(self._parts) < _MOST_LINES
