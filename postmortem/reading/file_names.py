"""What a file's name says of its speaker: a rank, a local rank, a node or a process.

Rule of this file: pure. A number that may be another's (a node's, a group's) is no rank.
"""

import re

from paceline.flight_recorder import NAMED_RANK

_LOCAL = re.compile(r"(?:^|/)attempt_\d{1,6}/(\d{1,4})/(?:std(?:out|err)\.log|error\.json)$")
_NODE = re.compile(
    r"^([A-Za-z][A-Za-z0-9-]{0,62})(?:\.(?:kernel|dmesg|slurm|slurmd|syslog|journal|messages|kern))?\.(?:log|txt|out|err)$"
)
#: What a node's own log is called; what begins with ``slurm-`` is a job's.
_KIND = re.compile(r"^(?:dmesg|kernel|kern|journal|syslog|messages|slurmd)[-_.]", re.IGNORECASE)
#: How files begin that are no node's, though a number follows: a job's, an output's.
_NO_NODE = re.compile(
    r"(?:slurm|jobs?|run|train|training|log|out|output|err|error|stdout|stderr|trace|attempt)\b", re.IGNORECASE
)
#: A worker's output among Ray's logs.
_RAY = re.compile(r"(?:^|/)worker-[0-9a-f]{8,64}-[0-9a-f]{8}-(\d{1,10})\.(?:out|err)$")


def rank_in_name(name: str) -> int | None:
    """The rank that a file's name says.

    >>> [rank_in_name(name) for name in ("stacks/rank3.worker.41377.txt", "out.RANK=4", "job.log", "node_rank1.log")]
    [3, 4, None, None]
    """
    found = NAMED_RANK.search(name.rpartition("/")[2])
    return int(found[1]) if found else None


def local_rank_in_path(path: str) -> int | None:
    """The local rank whose file it is, in the folders that torchrun makes; which rank that is the path does not say.

    >>> local_rank_in_path("logs/none_x1/attempt_0/3/stderr.log"), local_rank_in_path("logs/3/stderr.log")
    (3, None)
    """
    found = _LOCAL.search(path)
    return int(found[1]) if found else None


def process_in_name(path: str) -> int | None:
    """The process whose output it is, in the folder of Ray's logs.

    >>> process_in_name("logs/worker-7c3e00ff-01000000-7012.err"), process_in_name("logs/worker-3.err")
    (7012, None)
    """
    found = _RAY.search(path)
    return int(found[1]) if found else None


def node_in_name(name: str) -> str:
    """The node that a file's name says, "" for none: ``node-1.kernel.log`` is node-1's.

    >>> [node_in_name(name) for name in ("node-1.kernel.log", "dmesg-node-1.txt", "job.log", "slurm-123-4.out")]
    ['node-1', 'node-1', '', '']
    """
    found = _NODE.match(_KIND.sub("", name.rpartition("/")[2], count=1))
    if not found or (not re.search(r"\d$", found[1]) and "kernel" not in name and "dmesg" not in name):
        return ""
    ours = NAMED_RANK.search(found[1]) or process_in_name(name) is not None or found[1] in ("kernel", "dmesg")
    return "" if ours or _NO_NODE.match(found[1]) else found[1]
