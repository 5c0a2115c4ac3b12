"""Which ranks there are, as launchers and trainers list them at the start: so one that writes nothing is known.

Rule of this file: pure. A list counts only where it is of the ranks whose output this log has: of one node, or a line
that each rank writes itself.
"""

import ast
import re
from typing import NamedTuple

WORDS = ("WORLD INFO DICT: {", "global_ranks=[", "GLOBAL_RANK: ", "Process rank: ", "Child process with PID ")
#: Ranks of one node at most.
_MOST = 1024
_WORLD = re.compile(r"WORLD INFO DICT: \{(['\"])[^'\"]{1,255}\1: (\[[\d, ]{1,8000}\])\}\s*$")
_AGENTS = re.compile(r"^\s*global_ranks=(\[[\d, ]{1,8000}\])\s*$")
_OWN = re.compile(r"(?:GLOBAL_RANK: (\d{1,7}), MEMBER: \d{1,7}/\d{1,7}|Process rank: (\d{1,7}), device: )")
#: Lightning's rank 0, of the first of the processes that it started to fail: its number counts those of the node.
_CHILD = re.compile(r"\[rank: (\d{1,7})\] Child process with PID (\d{1,10}) terminated with code (-?\d{1,4})\.")


class Child(NamedTuple):
    """A process that Lightning started and saw fail: the how manieth, its pid and its exit code."""

    number: int
    pid: int
    code: int


def child(text: str) -> Child | None:
    """The process of which ``text`` says that it failed.

    >>> child("[rank: 3] Child process with PID 41 terminated with code -9. Forcefully terminating all other processes")
    Child(number=3, pid=41, code=-9)
    """
    found = _CHILD.search(text)
    return Child(int(found[1]), int(found[2]), int(found[3])) if found else None


def listed(text: str) -> tuple[int, ...]:
    """All ranks of a node, as its launcher lists them when it starts them; empty where ``text`` is no such line.

    >>> listed("[INFO] [launch.py:145:main] WORLD INFO DICT: {'worker-0': [4, 5, 6, 7]}")
    (0, 1, 2, 3)
    >>> listed("WORLD INFO DICT: {'worker-0': [0, 1], 'worker-1': [0, 1]}"), listed("  global_ranks=[2, 3]")
    ((), (2, 3))
    """
    if found := _WORLD.search(text):  # Of the GPUs that the only node uses; its ranks count from 0.
        return tuple(range(min(len(_numbers(found[2])), _MOST)))
    found = _AGENTS.match(text)
    return _numbers(found[1])[:_MOST] if found else ()


def own(text: str) -> int | None:
    """The rank that introduces itself in ``text``.

    >>> own("Initializing distributed: GLOBAL_RANK: 2, MEMBER: 3/4")
    2
    """
    found = _OWN.search(text)
    return int(found[1] or found[2]) if found else None


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(one) for one in ast.literal_eval(text))
    except (ValueError, SyntaxError):  # As [1,,2].
        return ()
