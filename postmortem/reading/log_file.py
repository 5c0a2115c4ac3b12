"""A log, whatever wrote it: lines that may matter are found fast, taken out of their wrappers and read.

Rule of this file: bounded memory. A log of hundreds of megabytes is read in blocks; only lines that hold one of
``WORDS`` are decoded, and the lines behind a traceback or a table until that ends. Whose a line is follows from its
own prefix, else from what other lines of the same voice say, else from the file's name.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Protocol

import msgspec

from ..evidence import Failure, Present, Source, Statement
from . import job_lines, kernel_lines
from .agent_tables import AgentTable
from .prefixes import Line, texts, unwrapped
from .tracebacks import Tracebacks, Voiced

_BLOCK = 1 << 20
#: A line without an end is cut there.
_MOST_LINE = 1 << 16
#: So much of a log's start is read line by line, to learn which ranks there are: some lines of each of 4,096.
_SAMPLED = 1 << 22
_MOST_STATEMENTS = 200_000
WORDS = tuple(
    sorted(
        {
            *(row.words for row in job_lines.ROWS if row.name not in ("peer_gone",)),
            *kernel_lines.WORDS,
            *(
                "Traceback (most",
                "Connection closed by",
                "Read error [",
                "Write error [",
                "NCCL error",
                "ncclRemoteError",
            ),
            *(
                "closing signal",
                "Unable to shutdown process",
                "failed (exitcode",
                "srun: error",
                "noticed that process",
                "terminated with",
            ),
            *(
                "CANCELLED AT",
                "death signal",
                "got signal",
                "oom_kill event",
                "oom-kill event",
                "Root Cause (first",
                "Failures:",
            ),
        }
        - {"out of memory", "gloo"}
        | {"of memory. Tried"}
    )
)
_WORDS = tuple(word.encode() for word in WORDS)
#: ``rank3``, but not the number of a process on its node (``local_rank3``) or of a node (``node_rank1``).
_IN_NAME = re.compile(r"(?:^|(?<!local)(?<!node)(?<!group)[^A-Za-z0-9])rank[_.-]?(\d{1,7})(?![\d])")
_OF_LOCAL = re.compile(r"(?:^|/)attempt_\d{1,6}/(\d{1,4})/(?:std(?:out|err)\.log|error\.json)$")
_NODE = re.compile(
    r"^([A-Za-z][A-Za-z0-9-]{0,62})(?:\.(?:kernel|dmesg|slurm|slurmd|syslog|journal|messages|kern))?\.(?:log|txt|out|err)$"
)


def rank_in_name(name: str) -> int | None:
    """The rank that a file's name says.

    >>> [rank_in_name(name) for name in ("stacks/rank3.worker.41377.txt", "job.log", "node_rank1.log")]
    [3, None, None]
    """
    found = _IN_NAME.search(name.rpartition("/")[2])
    return int(found[1]) if found else None


def local_rank_in_path(path: str) -> int | None:
    """The local rank whose file it is, in the folders that torchrun makes; which rank that is the path does not say.

    >>> local_rank_in_path("logs/none_x1/attempt_0/3/stderr.log"), local_rank_in_path("logs/3/stderr.log")
    (3, None)
    """
    found = _OF_LOCAL.search(path)
    return int(found[1]) if found else None


def node_in_name(name: str) -> str:
    """The node that a file's name says, "" for none: ``node-1.kernel.log`` is node-1's.

    >>> node_in_name("node-1.kernel.log"), node_in_name("job.log")
    ('node-1', '')
    """
    found = _NODE.match(name.rpartition("/")[2])
    if not found or (not re.search(r"\d$", found[1]) and "kernel" not in name and "dmesg" not in name):
        return ""
    return "" if _IN_NAME.search(found[1]) or found[1] in ("kernel", "dmesg") else found[1]


class Readable(Protocol):
    """What a log is read from."""

    def read(self, size: int, /) -> bytes:
        """The next bytes; none at the end."""


class LogFile:
    """One log: give it bytes, take statements."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._rank = rank_in_name(name)
        self._node = node_in_name(name)
        self._local = local_rank_in_path(name)
        self._number = 0
        self._sampled = _SAMPLED
        self._tracebacks = Tracebacks()
        self._tables: dict[str, AgentTable] = {}
        self._said: list[Statement] = []
        self._voices: dict[str, set[int]] = {}
        self._tasks: dict[str, int | None] = {}
        self._unknown: list[tuple[str, int]] = []
        self._seen: dict[int, str] = {}
        self._spoke: tuple[int | None, int] = None, 0
        self.left_out = 0

    def read(self, stream: Readable) -> list[Statement]:
        """All that the log says."""
        rest = b""
        while block := stream.read(_BLOCK):
            block = rest + block
            cut = block.rfind(b"\n") + 1
            if not cut and len(block) > _MOST_LINE:
                cut = len(block)
            rest = block[cut:]
            self._block(block[:cut])
        self._block(rest)
        self._keep_voiced(self._tracebacks.end())
        return self._owned()

    def _block(self, block: bytes) -> None:
        end = len(block)
        at = self._lines(block, 0, min(self._sampled, end))
        self._sampled -= min(self._sampled, end)
        for hit in _hits(block, at):
            if hit < at:
                continue
            self._number += block.count(b"\n", at, hit)
            at = self._lines(block, hit, hit + 1)
        self._number += block.count(b"\n", at, end)

    def _lines(self, block: bytes, at: int, until: int) -> int:
        """Read lines from ``at``, to ``until`` and on while something is open; where the next begins."""
        end = len(block)
        while at < end and (at < until or self._open()):
            stop = block.find(b"\n", at)
            stop = end if stop < 0 else stop
            self._number += 1
            self._line(block[at : min(stop, at + _MOST_LINE)].decode("utf-8", "replace"))
            at = stop + 1
        return min(at, end)

    def _open(self) -> bool:
        return self._tracebacks.reading or any(table.open for table in self._tables.values())

    def _line(self, raw: str) -> None:
        for text in texts(raw):
            line = unwrapped(text)
            rank = line.rank if line.rank is not None else self._rank
            if line.rank is not None:
                self._voices.setdefault(_launchers(line.voice), set()).add(line.rank)
                if not self._seen.get(line.rank):
                    self._seen[line.rank] = line.node or self._node
            self._read(line, rank)

    def _read(self, line: Line, rank: int | None) -> None:
        source = Source("log", self._name, self._number, line.text[:400])
        voice, node = line.voice, line.node or self._node
        if len(self._tasks) < _MOST_STATEMENTS:
            self._tasks.setdefault(voice, line.task)
        table = self._tables.get(voice)
        if table is None and line.text.startswith(("Failures:", "Root Cause (first")):
            table = self._tables.setdefault(voice, AgentTable())
        if table is not None:
            self._keep(table.line(line.text, source), voice)
        was_open = self._tracebacks.has(voice)
        self._keep_voiced(self._tracebacks.line(voice, line.text, rank, node, source))
        said = job_lines.statements(line, self._speaker(line, rank), source)
        if was_open and _is_exception(line.text):  # The traceback has the failure, and only that.
            said = (one for one in said if not isinstance(one, Failure))
        self._keep(said, voice)
        self._keep(kernel_lines.statements(line, self._node, msgspec.structs.replace(source, kind="kernel")), voice)

    def _speaker(self, line: Line, rank: int | None) -> int | None:
        """Whose a line is: NCCL's words on an error go on, without a prefix, below the line of their rank."""
        if line.rank is not None:
            self._spoke = line.rank, self._number
        last, number = self._spoke
        goes_on = (
            not line.voice and line.text.startswith(("nccl", "Last error", "socket")) and self._number - number < 5
        )
        return last if rank is None and goes_on else rank

    def _keep_voiced(self, pairs: Iterable[Voiced]) -> None:
        for voice, said in pairs:
            self._keep((said,), voice)

    def _keep(self, statements: Iterable[Statement], voice: str) -> None:
        for said in statements:
            if len(self._said) >= _MOST_STATEMENTS:
                self.left_out += 1
                return
            if said.rank is None and isinstance(said, Failure):
                self._unknown.append((voice, len(self._said)))
            self._said.append(said)

    def _owned(self) -> list[Statement]:
        """All statements; those without a rank get the one that the same voice has elsewhere."""
        several = any(len(ranks) > 1 for voice, ranks in self._voices.items() if voice)
        for voice, index in self._unknown:
            ranks = self._voices.get(_launchers(voice), set())
            # A task of srun's or mpirun's is a rank, unless one task has several ranks.
            alone = len(ranks) == 1 and (voice or self._local is not None)
            rank = next(iter(ranks)) if alone else None if several else self._tasks.get(voice)
            if rank is not None:
                self._said[index] = msgspec.structs.replace(self._said[index], rank=rank)
            elif self._local is not None:
                self._said[index] = msgspec.structs.replace(self._said[index], of_local=self._local)
        seen = self._seen if self._rank is None else {self._rank: self._node} | self._seen
        present = Source("log", self._name)
        return [*self._said, *(Present(rank=rank, node=seen[rank], source=present) for rank in sorted(seen))]


def _launchers(voice: str) -> str:
    """The voice without the rank's own prefix, so that lines with and without it are one voice."""
    return re.sub(r"\s*\[rank\d{1,7}\]:?", "", voice)


def _is_exception(text: str) -> bool:
    return bool(re.match(r"[A-Za-z_][\w.]{0,200}(?:Error|Exception|Interrupt|Exit)\b", text))


def _hits(block: bytes, at: int) -> Iterator[int]:
    """Where the lines begin that hold one of the words, in order."""
    starts = set()
    for word in _WORDS:
        found = block.find(word, at)
        while found >= 0:
            starts.add(block.rfind(b"\n", 0, found) + 1)
            following = block.find(b"\n", found)
            found = block.find(word, following) if following >= 0 else -1
    yield from sorted(starts)
