"""Why a rank's silence may prove nothing: its output is not in the log, or the log breaks off before its turn.

Rule of this file: pure. A log goes on to its end where a launcher, or a rank that is being ended, speaks below those
who waited; a rank that speaks below them had its turn. torchrun's ``--local-ranks-filter`` leaves ranks out: where each
line has its local rank in front, one without any line may have been left out.
"""

from collections.abc import Iterable

from ..evidence import Exit, Failure, Outside, Present, Statement, Stopped
from .case import Case
from .verdict import several


def unseen(case: Case, silent: set[int], waited: Iterable[Statement]) -> str:
    """In words, of ranks that say nothing where others say that they ``waited``; "" where their silence counts."""
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for said in waited:
        file, line = said.source.file, said.source.line
        first[file], last[file] = min(first.get(file, line), line), max(last.get(file, line), line)
    left_out = {rank for rank in silent if _left_out(case, rank)}
    if left_out:
        return f"no line of {several(left_out)} is in these files: torchrun's --local-ranks-filter may leave it out"
    for rank in silent:
        files = {said.source.file for said in case.all if said.rank == rank and not isinstance(said, Exit)}
        if files - set(first) or _spoke_below(case, rank, first):
            continue
        if not any(_goes_on(said, last) for said in case.all):
            return f"the log breaks off below these lines, and {several(silent)} may have had no turn"
    return ""


def _left_out(case: Case, rank: int) -> bool:
    for ended in case.exits:
        if ended.rank == rank and ended.local_rank is not None:
            shown = {one.local_rank for one in case.present if one.source.file == ended.source.file} - {None}
            spoke = any(isinstance(one, Present) and one.rank == rank for one in case.all)
            return bool(shown) and ended.local_rank not in shown and not spoke
    return False


def _spoke_below(case: Case, rank: int, first: dict[str, int]) -> bool:
    return any(
        said.rank == rank
        and not isinstance(said, Exit)
        and said.source.line > first.get(said.source.file, said.source.line)
        for said in case.all
    )


def _goes_on(said: Statement, last: dict[str, int]) -> bool:
    ends = isinstance(said, (Exit, Stopped, Outside)) or (isinstance(said, Failure) and said.role == "teardown")
    return ends and said.source.line > last.get(said.source.file, said.source.line)
