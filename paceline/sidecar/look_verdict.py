"""What a rank does, from two looks at it: its stack, its process, and whether its probe wrote anything down.

Rule of this file: pure. A rank that moves is no hang: one that writes a file, runs a model, compiles, or whose loader
workers work. What cannot be known is None, and accuses nobody.
"""

from collections.abc import Iterable
from typing import NamedTuple

from paceline.events import Doing

#: A thread is busy with this share of a processor, which others may want as well; with less it waits.
BUSY = 0.03
#: Bytes between two looks that are a file's and not a log's: writing; reading, of which the probe does some itself.
WRITTEN_BYTES, READ_BYTES = 16 * 1024, 1024 * 1024
#: The state of a process that this node's /proc does not show.
UNSEEN = "?"
_LOADER = ("torch/utils/data/dataloader.py",)
_MODEL = ("torch/nn/modules/module.py",)
_COMPILER = ("torch/_dynamo/", "torch/_inductor/", "torch/_functorch/", "triton/compiler/")


class ProcessLook(NamedTuple):
    """One process: ``state`` as in /proc/PID/stat, the kernel function that its thread sleeps in, seconds of processor
    time of that thread and of the process's children, and bytes read and written so far."""

    state: str
    channel: str = ""
    cpu_s: float = 0.0
    children_cpu_s: float = 0.0
    read_bytes: int = 0
    written_bytes: int = 0


class WorkerLine(NamedTuple):
    """The line of a data loader's worker; "" where it is not known, and then maybe why."""

    line: str = ""
    unseen: str = ""


class Seen(NamedTuple):
    """One look: at ``at_s``; ``answered`` is whether the rank's own thread did, ``timed`` whether its probe was on,
    ``marked`` whether the probe wrote anything down since the look before. ``process`` is None where it has gone.
    ``others`` are functions that the thread was in just after it, and not at it."""

    at_s: float
    process: ProcessLook | None
    answered: bool = False
    timed: bool = True
    marked: bool = False
    frames: tuple[str, ...] = ()
    line: str = ""
    others: tuple[str, ...] = ()


def judge(before: Seen | None, now: Seen) -> tuple[Doing, bool | None]:
    """What the rank does, and whether it has moved since ``before`` (None: no earlier look, or not known).

    >>> idle = ProcessLook("S", cpu_s=1.0)
    >>> judge(None, Seen(0.0, idle)), judge(Seen(0.0, idle, True), Seen(5.0, idle, True))
    (('not_answering', None), ('waiting', False))
    >>> judge(Seen(0.0, idle, True), Seen(5.0, idle._replace(cpu_s=5.5), True))
    ('computing', False)
    """
    if now.process is None:
        return "gone", False
    if now.process.state in "Tt":
        return "stopped", False
    if now.process.state in "ZX":
        return "gone", False
    if now.marked:
        return "moving", True
    if before is None or before.process is None:
        return _first(now), None
    elapsed_s = max(now.at_s - before.at_s, 1e-3)
    return _compared(before, before.process, now, now.process, elapsed_s)


def _first(now: Seen) -> Doing:
    if not now.answered:
        return "not_answering"
    return "waiting_for_loader" if _in(now.frames, _LOADER) else "unknown"


def _compared(
    before: Seen, then: ProcessLook, now: Seen, process: ProcessLook, elapsed_s: float
) -> tuple[Doing, bool | None]:
    if UNSEEN in (process.state, then.state):
        return (
            ("moving", True) if before.answered and now.answered and now.frames != before.frames else ("unknown", None)
        )
    busy = process.cpu_s - then.cpu_s >= BUSY * elapsed_s
    if _transferred(then, process):
        return "moving", True
    if _in(now.frames, _COMPILER):
        return "compiling", True
    # One that sleeps between its batches is hardly ever in the model when it is looked at.
    if _in((*before.others, *now.others), _MODEL):
        return "evaluating", True
    if _in(now.frames, _LOADER):
        workers = process.children_cpu_s - then.children_cpu_s >= BUSY * elapsed_s
        return ("loading", True) if workers or busy else ("waiting_for_loader", False)
    if process.state == "D":
        return "in_kernel", False
    if busy and _in((*before.frames, *now.frames), _MODEL):
        return "evaluating", True
    if busy:
        # A step that the probe leaves out marks nothing: its computing cannot be told from a loop.
        return "computing", False if now.timed or not now.answered else None
    if not now.answered:
        return "not_answering", False
    return ("waiting", False) if now.frames == before.frames or not before.answered else ("moving", True)


def _transferred(then: ProcessLook, process: ProcessLook) -> bool:
    return (
        process.written_bytes - then.written_bytes >= WRITTEN_BYTES
        or process.read_bytes - then.read_bytes >= READ_BYTES
    )


def _in(frames: Iterable[str], places: Iterable[str]) -> bool:
    return any(place in frame for frame in frames for place in places)
