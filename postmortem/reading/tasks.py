"""Tasks of srun and mpirun, by the number in front of their lines: is it the rank?

Rule of this file: pure. Before PyTorch 2.2 a line gives only the number within its group (``[Rank 1]``). In the group
of all ranks it is the task's; if two tasks give the same, it is of smaller groups, and the task is the rank. A task
that gives several is a launcher, and no rank.
"""

import msgspec

from ..evidence import Progress, Statement, Timeout


class Tasks:
    """The statements of one log whose rank is only that of a group, by the task that made them."""

    def __init__(self) -> None:
        self._made: dict[int, list[int]] = {}

    def note(self, task: int | None, index: int, said: Statement) -> None:
        """``said`` is statement number ``index`` of the log, by ``task``."""
        if task is not None and isinstance(said, Timeout | Progress) and said.rank is not None:
            self._made.setdefault(task, []).append(index)

    def settle(self, said: list[Statement]) -> bool:
        """Give statements in ``said`` the ranks of their tasks, if those are theirs; whether tasks are ranks."""
        given = {task: {said[index].rank for index in indexes} for task, indexes in self._made.items()}
        if len(given) < 2 or any(len(ranks) > 1 for ranks in given.values()):
            return False
        numbers = {rank for ranks in given.values() for rank in ranks}
        if len(numbers) == len(given):
            return all({task} == ranks for task, ranks in given.items())
        for task, indexes in self._made.items():
            for index in indexes:
                said[index] = msgspec.structs.replace(said[index], rank=task)
        return True
