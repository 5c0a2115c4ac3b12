"""Whose trace a file is, where it does not say so itself: the number in its name, else in its folder's.

Rule of this file: names alone. A number that may be another's is none.
"""

import re
from pathlib import PurePath

#: ``trace-rank3.json``, ``rank_3``, ``rank=3``, ``RANK[3]``; of what the number is a rank, where the name says that.
_RANK = re.compile(r"(?<![a-z])(?:([a-z]+)[-_. ])?rank[-_ .=:#(\[]{0,2}(\d{1,6})(?!\d)", re.IGNORECASE)
#: A number within a part of the job is its rank only where nothing else tells one; a node's number never is.
_PART = {"local", "dp", "tp", "pp", "ep", "cp", "sp"}
_NODE = {"node", "group", "host", "machine"}
#: TensorBoard's ``worker3.1712345.pt.trace.json``; SGLang's ``…-TP-3``, of the first stage of a pipeline.
_NAMED = (
    re.compile(r"(?<![a-z])worker[-_ ]?(\d{1,6})(?!\d)", re.IGNORECASE),
    re.compile(r"(?<![a-z])tp[-_](\d{1,6})(?!\d)(?!.*[-_]pp[-_]0*[1-9])", re.IGNORECASE),
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
    >>> [rank_in(path) for path in ("local_rank0_rank8.json", "node_rank1.json", "local_rank3.json")]
    [8, None, 3]
    """
    within: dict[str, int] = {}
    on_node = False
    for part in reversed(PurePath(path).parts[-3:]):
        for found in _RANK.finditer(part):
            of, number = (found[1] or "").lower(), int(found[2])
            if of not in _PART | _NODE:
                return number
            if of in _PART:
                within.setdefault(of, number)
            on_node |= of in _NODE
        for named in _NAMED:
            if (told := named.search(part)) is not None:
                return int(told[1])
    return next(iter(within.values())) if len(within) == 1 and not on_node else None
