"""Stacks of a process: ``py-spy dump``, and what faulthandler writes. Innermost frame first in both.

Rule of this file: pure, bounded. The thread that counts is the main one; where a dump names none, the last of
faulthandler's threads, for it writes the main thread last.
"""

import re

from ..evidence import Place, Source, Stack
from . import crash

_PROCESS = re.compile(r"Process (\d{1,10}): (.{0,4000})$")
_THREAD = re.compile(r"Thread (?:0x)?([0-9a-fA-F]{1,18})(?: \((\w+(?:\+\w+)?)\))?(?:: \"(.{0,200})\")?")
_FRAME = re.compile(r"\s{2,8}(\S.{0,300}?) \(([^()\s]{1,1000}):(\d{1,9})\)$")
_FAULT_THREAD = re.compile(
    r"(?:Current thread|Thread) 0x[0-9a-fA-F]{1,18} (?:\[.{0,60}\] )?\(most recent call first\):"
)
_WORKER = re.compile(r"worker[._-]?(\d{1,10})")
_MOST_LINES = 200_000
_HEAD = re.compile(
    rb"\s*(?:Process \d{1,10}: .{0,4000}\r?\nPython v"
    rb"|(?:Process \d{1,10}: .{0,4000}\r?\n)?Thread (?:0x)?[0-9a-fA-F]{1,18} \((?:idle|active)[\w+]{0,20}\))"
)
_DUMPED = re.compile(
    rb"(?:^|\n)(?:Current thread|Thread) 0x[0-9a-fA-F]{1,18} (?:\[[^\]]{0,60}\] )?\(most recent call first\):"
)


def looks_like(head: bytes) -> bool:
    """Whether a file's first bytes are those of a dump of py-spy's, or of a part of one: what people paste."""
    return _HEAD.match(head) is not None


def holds(data: bytes) -> bool:
    """Whether faulthandler's stacks are in it, alone or among lines of a log."""
    return _DUMPED.search(data) is not None


def statements(text: str, name: str, rank: int | None) -> list[Stack]:
    """The stacks in a file."""
    in_name = _WORKER.search(name.rpartition("/")[2])
    worker, pid, command = in_name is not None, int(in_name[1]) if in_name else None, ""
    stacks: list[tuple[int | None, bool, str, list[Place]]] = []
    for line in text.splitlines()[:_MOST_LINES]:
        if found := _PROCESS.match(line):
            pid, command = int(found[1]), found[2]
        elif _FAULT_THREAD.match(line):
            stacks.append((pid, False, command, []))
        elif line.startswith("Thread ") and (found := _THREAD.match(line)):
            stacks.append((pid, found[3] == "MainThread", command, []))
        elif stacks and (place := _frame(line)) is not None:
            stacks[-1][3].append(place)
    return _made(stacks, name, rank, worker)


def _frame(line: str) -> Place | None:
    if found := _FRAME.match(line):
        return Place(found[2], int(found[3]), found[1].rpartition(".")[2])
    return crash.frame(line)


def _made(
    stacks: list[tuple[int | None, bool, str, list[Place]]], name: str, rank: int | None, worker: bool
) -> list[Stack]:
    made: list[Stack] = []
    named = any(main for _, main, _, _ in stacks)
    for index, (pid, main, command, frames) in enumerate(stacks):
        if not frames:
            continue
        is_main = main if named else index == len(stacks) - 1
        loads = worker or any(frame.file.endswith("torch/utils/data/_utils/worker.py") for frame in frames)
        source = Source("stacks", name, quote=_script(command))
        made.append(Stack(rank=rank, source=source, frames=tuple(frames), pid=pid, worker=loads, main=is_main))
    return made


def _script(command: str) -> str:
    """The script of a command line, with its path."""
    return next((word for word in command.split()[1:] if word.endswith(".py")), "")
