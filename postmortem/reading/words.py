"""Which lines of a log may matter: those with one of these words, found in one pass by Aho-Corasick.

Rule of this file: what any reader of lines looks for has a word here, for other lines are shown to none. A few words
are so frequent in healthy logs that only a log's start is searched for them.
"""

from collections.abc import Iterable

from ahocorasick_rs import BytesAhoCorasick, Implementation

from . import coordinator, failure_rows, kernel_lines, mpi_boxes, ras_text, ray_lines, stall_reports, started

_FREQUENT = {"out of memory", "gloo"}
#: Longer words for those, and for the rows of ``failure_rows`` on a peer that is gone.
_INSTEAD = (
    "of memory. Tried",
    "Connection closed by",
    "Read error [",
    "Write error [",
    "NCCL error",
    "ncclRemoteError",
)
_OF_LAUNCHERS = (
    "closing signal",
    "Unable to shutdown process",
    "failed (exitcode",
    "exits with return code",
    "Child process with PID",
    "srun: error",
    "terminated with",
    "Terminating StepId",
    "Terminating job step",
    "Force Terminated ",
    "Job step aborted: ",
    "died from signal",
    "died by signal",
    "CANCELLED AT",
    "death signal",
    "got signal",
    "] Signal: ",
    "crashed with exit code",
    "exit with status code",
    "exited with code",
    "global rank",
    "Node failure on",
    "died with <Signals",
    "command terminated with",
    "has been marked dead because",
    "PBS: job killed",
    ": job killed",
    "oom_kill event",
    "oom-kill event",
    " Killed ",
    "Segmentation fault",
    "Root Cause (first",
    "Failures:",
    "will restart worker group",
)
WORDS = {
    *(row.words for row in failure_rows.ROWS if row.name != "peer_gone"),
    *coordinator.WORDS,
    *kernel_lines.WORDS,
    *mpi_boxes.WORDS,
    *ras_text.WORDS,
    *ray_lines.WORDS,
    *stall_reports.WORDS,
    *started.WORDS,
    "Traceback (most",
    "Fatal Python error: ",
    *_OF_LAUNCHERS,
    *_INSTEAD,
} - _FREQUENT


def _search(words: Iterable[str]) -> BytesAhoCorasick:
    return BytesAhoCorasick([word.encode() for word in sorted(words)], implementation=Implementation.DFA)


_SOME, _EVERY = _search(WORDS), _search(WORDS | {row.words for row in failure_rows.ROWS})


def line_starts(block: bytes, *, every: bool) -> list[int]:
    """Where the lines of ``block`` begin that have a word, in order; ``every``: also one of the frequent ones.

    >>> line_starts(b"step 1\\nSegmentation fault\\nstep 2\\n", every=False)
    [7]
    """
    starts: list[int] = []
    end = 0
    for _, found, _ in (_EVERY if every else _SOME).find_matches_as_indexes(block):
        if found >= end:
            starts.append(block.rfind(b"\n", 0, found) + 1)
            end = block.find(b"\n", found)
            if end < 0:
                break
    return starts
