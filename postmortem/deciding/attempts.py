"""Which statements are of a job's last attempt: launchers start ranks again, and write into the same log or folder.

Rule of this file: pure. A log's earlier attempts end where its launcher says so, where torchrun's agent says again
that a rank failed (it does once an attempt), where a rank of a node is listed as ended with another process, and where
srun ends a step before another one. In torchrun's folders the highest ``attempt_N`` of a run is the last. What no mark
divides is one attempt.
"""

import re
from collections import defaultdict
from collections.abc import Iterable

from ..evidence import Exit, Restarted, Statement, StepEnded

_FOLDER = re.compile(r"(.{0,4000}?)/?\battempt_(\d{1,6})/")


def last_attempt(statements: Iterable[Statement]) -> tuple[list[Statement], list[Statement]]:
    """The statements of the last attempt and of all files that have none, then those of earlier attempts."""
    every = list(statements)
    ends, folders = _ends(every), _folders(every)
    last: list[Statement] = []
    earlier: list[Statement] = []
    for said in every:
        found = _FOLDER.match(said.source.file)
        old = found is not None and int(found[2]) < folders[found[1]]
        old = old or 0 < said.source.line <= ends[said.source.file]
        (earlier if old else last).append(said)
    return last, earlier


def _folders(statements: list[Statement]) -> dict[str, int]:
    made: dict[str, int] = {}
    for said in statements:
        if found := _FOLDER.match(said.source.file):
            made[found[1]] = max(made.get(found[1], 0), int(found[2]))
    return made


def _ends(statements: list[Statement]) -> dict[str, int]:
    """By file the line that ends its last attempt but one."""
    made: dict[str, int] = defaultdict(int)
    by_process: dict[tuple[str, ...], list[tuple[int, int]]] = defaultdict(list)
    steps: dict[str, list[StepEnded]] = defaultdict(list)
    for said in statements:
        file, line = said.source.file, said.source.line
        if isinstance(said, Restarted):
            made[file] = max(made[file], line)
        elif isinstance(said, Exit) and said.pid is not None and (whose := _whose(said)):
            by_process[file, *whose].append((line, said.pid))
        elif isinstance(said, StepEnded) and said.step:
            steps[file].append(said)
    for (file, *_), ended in by_process.items():
        _, pid = max(ended)  # A log may have each line twice.
        made[file] = max(made[file], *(line for line, other in ended if other != pid), 0)
    for file, stopped in steps.items():
        made[file] = max(made[file], _before(stopped))
    return made


def _before(ended: list[StepEnded]) -> int:
    """The line that ends the last step but one: where srun says that it is over, else where it began to end it."""
    last = max(ended, key=lambda one: one.source.line).step
    others = [one for one in ended if one.step != last]
    over = max((one.source.line for one in others if one.over), default=0)
    begun = [one.source.line - 1 for one in others if not one.over]  # Those that it ended come behind that line.
    return max(over, *begun, 0)


def _whose(ended: Exit) -> tuple[str, ...]:
    """What ends once an attempt: a torchrun agent's ranks, or the rank of a node."""
    if ended.agent:
        return (ended.agent,)
    return (ended.node, str(ended.rank)) if ended.rank is not None and ended.node else ()
