"""What a report of NCCL's RAS says of ranks, in words: each with its process, node and GPU.

Rule of this file: pure. A rank whose number in the job is not known is called by that of its communicator.
"""

from collections.abc import Iterable

from ..evidence import RasProcess, RasRanks
from .case import Case
from .ras_reports import Communicator, Level, Report
from .verdict import several

#: Longer lists are shortened.
_MOST_NAMED = 8
#: Of so few the processes are named, too, in counts.
_MOST_PLACED = 2


def counts(communicator: Communicator, operation: str, levels: tuple[Level, ...]) -> str:
    """How many ranks have launched how much of an operation."""
    parts = [f"{_some(level)} {launched(operation, level)}" for level in levels[:4]]
    return f"in communicator {communicator.name} {', '.join(parts)}"


def _some(level: Level) -> str:
    if not level.listed or len(level.members) > _MOST_NAMED:
        return f"{level.ranks} ranks have"
    ranks = [one.member for one in level.members if one.member is not None]
    places = [_place(one.pid, one.node, one.gpu) for one in level.members if one.pid is not None]
    where = f" ({'; '.join(places)})" if 0 < len(places) <= _MOST_PLACED else ""
    return f"{several(ranks)}{where} ha{'ve' if len(ranks) > 1 else 's'}"


def launched(operation: str, level: Level) -> str:
    """What the ranks of a level have launched."""
    what = "collectives" if operation == "collective" else operation
    return f"launched {what} up to {level.value}" if level.value else f"launched no {what}"


def process(one: RasProcess, rank: int | None) -> str:
    """A process, and its rank where that is known."""
    where = _place(one.pid, one.node, one.gpu)
    return f"rank {rank} ({where})" if rank is not None else where


def _place(pid: int | None, node: str, gpu: str) -> str:
    return f"process {pid} on {node}{f', GPU {gpu}' if gpu else ''}"


def who(case: Case, last: Report, members: Iterable[RasRanks]) -> str:
    """Ranks of a communicator, each by its number in the job, or by that of the communicator."""
    own = list(members)
    words = []
    for one in own[:_MOST_NAMED]:
        rank = last.rank_of(case, one)
        whose = f"rank {rank}" if rank is not None else f"rank {one.member} of communicator {one.communicator}"
        words.append(f"{whose} ({_place(one.pid, one.node, one.gpu)})" if one.pid is not None else whose)
    if len(own) > _MOST_NAMED:
        return f"{', '.join(words)} and {len(own) - _MOST_NAMED} more"
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else words[0]
