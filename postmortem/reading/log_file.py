"""A log, whatever wrote it: lines that may matter are found fast, taken out of their wrappers and read.

Rule of this file: bounded memory. A log of hundreds of megabytes is read in blocks; only lines with a word (``words``)
are read whole, and the lines behind a traceback or a table until that ends. Whose a line is follows from its own
prefix, else from what other lines of the same voice say, else from the file's name.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import msgspec

from ..evidence import Exit, Failure, Kernel, Outside, Placed, Present, Restarted, Source, Stalled, Statement, Timeout
from . import coordinator, job_lines, kernel_lines, mpi_boxes, ras_text, ray_lines, stall_reports, started
from .agent_tables import AgentTable
from .crash import Crash
from .file_names import local_rank_in_path, node_in_name, process_in_name, rank_in_name
from .prefixes import Line, texts, unwrapped
from .tasks import Tasks
from .tracebacks import Tracebacks, Voiced
from .words import line_starts

_BLOCK = 1 << 20
#: A line without an end is cut there.
_MOST_LINE = 1 << 16
#: So much of a log's end says when it was written last.
_END = 1 << 14
#: In so much of a log's start every line says who speaks, to learn which ranks there are: some lines of each of 4,096.
_SAMPLED = 1 << 22
_MOST_STATEMENTS = 200_000
#: So many lines further down somebody's words may go on without their prefix.
_GOES_ON = 7
#: What is read over several lines of one voice, with the words that a first line has.
_BLOCKS: tuple[tuple[Callable[[], "Block"], tuple[str, ...]], ...] = (
    (AgentTable, ("Failures:", "Root Cause (first")),
    (mpi_boxes.MpiBox, mpi_boxes.WORDS),
    (ray_lines.LostActor, ("died unexpectedly before finishing",)),
    (Crash, ("Fatal Python error: ",)),
    (ras_text.RasText, ras_text.WORDS),
    (stall_reports.StallReport, stall_reports.WORDS),
    (coordinator.TaskList, coordinator.WORDS),
)


#: Composer's launcher quotes what each rank has written.
_PART = re.compile(r"-{4,20}(Begin|End) global rank (\d{1,7}) STD(?:OUT|ERR)-{4,20}")
#: What ends an attempt.
_ENDS = (Exit, Failure, Outside, Timeout)


class Block(Protocol):
    """A reader of several lines, which says whether it needs the next."""

    open: bool

    def line(self, text: str, source: Source) -> Iterator[Statement]:
        """Take a line."""


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
        self._process = process_in_name(name)
        self._number = 0
        self._sampled = _SAMPLED
        self._tracebacks = Tracebacks()
        self._blocks: dict[tuple[str, int], Block] = {}
        self._said: list[Statement] = []
        self._voices: dict[str, set[int]] = {}
        #: Voices without the ranks' own prefixes.
        self._without: dict[str, str] = {}
        self._tasks: dict[str, Line] = {}
        self._in_group = Tasks()
        self._processes: dict[tuple[str, int], set[int]] = {}
        self._unknown: list[tuple[str, int]] = []
        self._seen: dict[int, str] = {}
        self._locals: set[int] = set()
        #: By voice, the ranks that its launcher has started last.
        self._listed: dict[str, tuple[int, ...]] = {}
        #: The ranks that have introduced themselves in this attempt, and whether something has failed in it.
        self._begun: set[int] = set()
        self._failed = False
        self._spoke: tuple[int | None, int] = None, 0
        #: The rank whose output is quoted from here on.
        self._part: int | None = None
        #: When lines of a kernel were written, by number, and the last lines of all.
        self._dated: dict[int, float] = {}
        self._last_s = 0.0
        self.left_out = 0

    def read(self, stream: Readable) -> list[Statement]:
        """All that the log says."""
        rest = end = b""
        while block := stream.read(_BLOCK):
            block = rest + block
            cut = block.rfind(b"\n") + 1
            if not cut and len(block) > _MOST_LINE:
                cut = len(block)
            rest = block[cut:]
            self._block(block[:cut])
            end = (end + block[-_END:])[-_END:]
        self._block(rest)
        self._last_s = max((*self._dated.values(), *_times(end)), default=0.0)
        self._keep_voiced(self._tracebacks.end())
        return self._owned()

    def _block(self, block: bytes) -> None:
        sampled = min(self._sampled, len(block))
        self._sampled -= sampled
        at = self._lines(block, 0, 0)
        for hit in line_starts(block, every=sampled > 0):
            if hit >= at:
                at = self._lines(block, self._between(block, at, hit, sampled), hit + 1)
        self._between(block, at, len(block), sampled)

    def _between(self, block: bytes, at: int, until: int, sampled: int) -> int:
        """Pass lines without a word; where the next one begins. Those before ``sampled`` tell who speaks, and of the
        last few somebody's words may go on."""
        while at < min(until, sampled):
            raw, at = self._next(block, at)
            for text in texts(raw):
                self._heard(unwrapped(text))
        last = _before(block, at, until)
        self._number += block.count(b"\n", at, last)
        while last < until:
            raw, last = self._next(block, last)
            self._speaks(unwrapped(next(texts(raw), "")))
        return max(at, until)

    def _next(self, block: bytes, at: int) -> tuple[str, int]:
        """The line that begins at ``at``, counted, and where the next one begins."""
        stop = block.find(b"\n", at)
        stop = len(block) if stop < 0 else stop
        self._number += 1
        return block[at : min(stop, at + _MOST_LINE)].decode("utf-8", "replace"), min(stop + 1, len(block))

    def _lines(self, block: bytes, at: int, until: int) -> int:
        """Read lines from ``at``, to ``until`` and on while something is open; where the next begins."""
        while at < len(block) and (at < until or self._open()):
            raw, at = self._next(block, at)
            for text in texts(raw):
                line = unwrapped(text)
                self._read(line, self._heard(line), text)
        return at

    def _open(self) -> bool:
        return self._tracebacks.reading or any(block.open for block in self._blocks.values())

    def _heard(self, line: Line) -> int | None:
        """Note who speaks; the rank that the line is of."""
        if found := _PART.match(line.text):
            self._part = int(found[2]) if found[1] == "Begin" else None
        if len(self._tasks) < _MOST_STATEMENTS:
            self._tasks.setdefault(line.voice, line)
        if line.local_rank is not None:
            self._locals.add(line.local_rank)
        self._speaks(line)
        if line.rank is not None:
            self._voices.setdefault(self._launchers(line.voice), set()).add(line.rank)
            if line.pid is not None:
                self._processes.setdefault((line.node, line.pid), set()).add(line.rank)
            if not self._seen.get(line.rank):
                self._seen[line.rank] = line.node or self._node
        return next((one for one in (line.rank, self._part, self._rank) if one is not None), None)

    def _read(self, line: Line, rank: int | None, whole: str) -> None:
        source = Source("log", self._name, self._number, line.text[:400])
        voice, node = line.voice, line.node or self._node
        for number, (made, words) in enumerate(_BLOCKS):
            block = self._blocks.get((voice, number))
            if block is None and any(word in line.text for word in words):
                block = self._blocks.setdefault((voice, number), made())
            if block is not None:
                self._keep((_of(rank, said) for said in block.line(line.text, source)), voice)
        self._keep(ray_lines.placed(line.text, line.pid, node, source), voice)
        self._keep(ray_lines.ended(line.text, line.repeated, source), voice)
        self._start(line)
        was_open = self._tracebacks.has(voice)
        self._keep_voiced(self._tracebacks.line(voice, line.text, rank, node, source))
        said = job_lines.statements(line, self._speaker(line, rank), source)
        if was_open and _is_exception(line.text):  # The traceback has the failure, and only that.
            said = (one for one in said if not isinstance(one, Failure))
        self._keep(said, voice)
        for kernel in kernel_lines.statements(line, self._node, msgspec.structs.replace(source, kind="kernel")):
            if (time_s := kernel_lines.time_of(whole)) is not None and len(self._dated) < _MOST_STATEMENTS:
                self._dated[self._number] = time_s
            self._keep((kernel,), voice)

    def _start(self, line: Line) -> None:
        if not any(word in line.text for word in started.WORDS):
            return
        source = Source("log", self._name, self._number, line.text[:400])
        if (rank := started.own(line.text)) is not None:
            self._seen.setdefault(rank, line.node or self._node)
            self._begin(rank, source)
        elif (child := started.child(line.text)) is not None:
            # On a log's only node with rank 0 the number is the rank.
            rank = child.number if child.number and {0, child.number} <= self._begun else None
            self._keep((Exit(rank=rank, source=source, code=child.code, pid=child.pid, first=True),), line.voice)
        elif (ranks := started.listed(line.text)) and len(self._listed) < _MOST_STATEMENTS:
            self._listed[line.voice] = ranks

    def _begin(self, rank: int, source: Source) -> None:
        """A rank introduces itself: once more behind a failure, all ranks were started again."""
        if rank in self._begun and (self._failed or self._tracebacks.reading):
            self._keep((Restarted(source=msgspec.structs.replace(source, line=source.line - 1)),), "")
            self._begun, self._failed = set(), False
        self._begun.add(rank)

    def _launchers(self, voice: str) -> str:
        """The voice without the rank's own prefix, so that lines with and without it are one voice."""
        known = self._without.get(voice)
        if known is None:
            known = re.sub(r"\s*\[rank\d{1,7}\]:?", "", voice)
            if len(self._without) < _MOST_STATEMENTS:
                self._without[voice] = known
        return known

    def _speaks(self, line: Line) -> None:
        if line.rank is not None:
            self._spoke = line.rank, self._number

    def _speaker(self, line: Line, rank: int | None) -> int | None:
        """Whose a line is: NCCL's words on an error, and a desync report, go on below the line of their rank."""
        last, number = self._spoke
        goes_on = (
            not line.voice
            and line.text.startswith(("nccl", "Last error", "socket", "Cuda failure", "\t "))
            and self._number - number <= _GOES_ON
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
            self._failed = self._failed or isinstance(said, _ENDS)
            if isinstance(said, Failure) and said.rank is None and said.of_pid is None:
                self._unknown.append((voice, len(self._said)))
            elif voice in self._tasks and self._tasks[voice].rank is None:
                self._in_group.note(self._tasks[voice].task, len(self._said), said)
            self._said.append(said)

    def _ranks_seen(self, by_task: bool) -> dict[int, str]:
        """The ranks that wrote anything, with their nodes; ``by_task``: the number of a task is its rank."""
        seen = self._seen if self._rank is None else {self._rank: self._node} | self._seen
        tasks = {line.task for line in self._tasks.values() if line.task is not None and line.rank is None}
        if by_task and tasks == set(range(len(tasks))):  # Otherwise a line of the script's own is among them.
            seen = dict.fromkeys(tasks, self._node) | seen
        return dict.fromkeys((rank for ranks in self._listed.values() for rank in ranks), self._node) | seen

    def _owned(self) -> list[Statement]:
        """All statements; those without a rank get the one that the same voice has elsewhere."""
        several = any(len(ranks) > 1 for voice, ranks in self._voices.items() if voice)
        failed: set[int] = set()
        for voice, index in self._unknown:
            ranks = self._voices.get(self._launchers(voice), set())
            # A task of srun's or mpirun's is a rank, unless one task has several ranks.
            alone = len(ranks) == 1 and (voice or self._local is not None)
            line = self._tasks.get(voice)
            rank = next(iter(ranks)) if alone else None if several or line is None else line.task
            said = self._said[index]
            if rank is not None:
                self._said[index] = msgspec.structs.replace(said, rank=rank)
                failed.update(() if alone else (rank,))
            elif self._local is not None:
                self._said[index] = msgspec.structs.replace(said, of_local=self._local)
            elif (pid := line.pid if line and line.pid is not None else self._process) is not None:
                self._said[index] = msgspec.structs.replace(said, of_pid=pid, node=line.node if line else "")
        seen = self._ranks_seen(self._in_group.settle(self._said) or len(failed) > 1)
        present = Source("log", self._name)
        return [
            *(self._placed_in_file(said) for said in self._said),
            *(Present(rank=rank, node=seen[rank], source=present) for rank in sorted(seen)),
            *(Present(local_rank=local, source=present) for local in sorted(self._locals)),
            *(
                Placed(rank=next(iter(ranks)), node=node, pid=pid, source=present)
                for (node, pid), ranks in self._processes.items()
                if len(ranks) == 1
            ),
        ]

    def _placed_in_file(self, said: Statement) -> Statement:
        if isinstance(said, Stalled):
            return msgspec.structs.replace(said, after=self._number - said.source.line)
        if isinstance(said, Kernel) and said.source.line in self._dated:
            time_s = self._dated[said.source.line]
            return msgspec.structs.replace(said, time_s=time_s, age_s=self._last_s - time_s)
        return said


def _times(end: bytes) -> Iterator[float]:
    """When the last lines of a file were written, of those that are dated."""
    for raw in end.decode("utf-8", "replace").splitlines()[1:]:
        if (time_s := kernel_lines.time_of(raw)) is not None:
            yield time_s


def _of(rank: int | None, said: Statement) -> Statement:
    """What a block of several lines says: the speaker's, unless it names a rank or a process itself."""
    speakers = isinstance(said, Failure) and said.rank is None and said.of_pid is None
    return msgspec.structs.replace(said, rank=rank) if speakers else said


def _before(block: bytes, at: int, until: int) -> int:
    """Where the last few lines between ``at`` and ``until`` begin.

    >>> _before(b"a\\n" * 100, 0, 200)
    186
    """
    for _ in range(_GOES_ON):
        if until <= at:
            break
        until = block.rfind(b"\n", at, until - 1) + 1 or at
    return max(at, until)


def _is_exception(text: str) -> bool:
    return bool(re.match(r"[A-Za-z_][\w.]{0,200}(?:Error|Exception|Interrupt|Exit)\b", text))
