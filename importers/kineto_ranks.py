"""Whose trace a file is, where it does not say so itself: the number in its name, else in its folder's.

Rule of this file: names alone.
"""

import re
from pathlib import PurePath

#: ``trace-rank3.json``, ``rank_3``, ``rank-3``; TensorBoard's ``worker3.1712345.pt.trace.json``; SGLang's ``…-TP-3``.
_NAMED = (
    re.compile(r"(?<![a-z])rank[-_ ]?(\d{1,6})(?!\d)", re.IGNORECASE),
    re.compile(r"(?<![a-z])worker[-_ ]?(\d{1,6})(?!\d)", re.IGNORECASE),
    re.compile(r"(?<![a-z])tp[-_](\d{1,6})(?!\d)", re.IGNORECASE),
)

#: The file that TensorBoard's handler writes of each window: the process, when it was written.
_PROCESS = re.compile(r"(.+)\.\d{10,}\.pt\.trace\.json", re.IGNORECASE)


def process_in(path: str) -> str | None:
    """The process that wrote a window of a profile, as its name tells it; None where it does not.

    >>> [process_in(path) for path in ("run/node1_41.1790000000000000000.pt.trace.json.gz", "trace.json")]
    ['run/node1_41', None]
    """
    found = _PROCESS.match(path)
    return None if found is None else found[1]


def rank_in(path: str) -> int | None:
    """The rank that a path tells, the file's name before its folders'; None where none does.

    >>> paths = ("run/worker3.17.pt.trace.json", "rank_12/trace.json.gz", "rank0/rank-4.json", "a.json")
    >>> [rank_in(path) for path in paths]
    [3, 12, 4, None]
    """
    for part in reversed(PurePath(path).parts[-3:]):
        for named in _NAMED:
            if (found := named.search(part)) is not None and int(found[1]) < 2**20:
                return int(found[1])
    return None
