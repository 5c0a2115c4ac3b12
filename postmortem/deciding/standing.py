"""What a rank was doing when the others waited: by its stack, its loader's workers and /proc.

Rule of this file: pure.
"""

from typing import NamedTuple

from ..evidence import Process, Source, Stack
from ..places import in_loader, innermost, users, waits_in_collective
from .case import Case

_STATES = {"D": "in uninterruptible sleep", "T": "stopped by a signal", "t": "stopped by a debugger", "Z": "a zombie"}


class Standing(NamedTuple):
    """In words, with the line; empty where nothing is known."""

    doing: str = ""
    line: str | None = None
    worker_line: str | None = None
    grounds: tuple[Source, ...] = ()


def standing(case: Case, rank: int) -> Standing:
    """What is known of ``rank``."""
    stack = case.stack_of(rank)
    own = [one for one in case.processes if one.rank == rank]
    if stack is not None and in_loader(stack.frames):
        return _loading(case, rank, stack, own)
    state = next((one for one in own if one.state[:1] in _STATES), None)
    said = tuple(dict.fromkeys(one.source for one in (*([stack] if stack else []), *own)))
    line = case.line_of(rank)
    if state is not None:
        whose = (
            f"rank {rank}"
            if state.parent is None or not stack or state.pid == stack.pid
            else f"process {state.pid} of rank {rank}"
        )
        return Standing(f"{whose} is {_STATES[state.state[:1]]}{_reading(state)}", line, None, said)
    place = innermost(stack.frames) if stack else None
    if stack is None or place is None:
        return Standing("", line, None, said)
    collective = waits_in_collective(stack.frames)
    where = f"waits in {collective}" if collective else f"was still in {place.function}"
    return Standing(f"rank {rank} {where}", line, None, said)


def _reading(process: Process) -> str:
    if process.file:
        return f" reading {process.file}"
    return f" ({process.wchan})" if process.wchan else ""


def _loading(case: Case, rank: int, stack: Stack, processes: list[Process]) -> Standing:
    workers = case.workers_of(rank)
    stuck = next((one for one in processes if one.state[:1] in _STATES and one.pid != stack.pid), None)
    worker = next((one for one in workers if stuck is None or one.pid == stuck.pid), workers[0] if workers else None)
    doing = f"input: rank {rank} waits for its loader"
    if stuck is not None:
        doing += f"; worker {stuck.pid} is {_STATES[stuck.state[:1]]}{_reading(stuck)}"
    elif worker is not None and worker.pid is not None:
        doing += f"; worker {worker.pid} has not delivered"
    places = users(worker.frames) if worker else []
    line = str(places[0]) if places else None
    if len(places) > 1:
        line = f"{places[0]} ({places[1]})"
    said = (stack.source, *(one.source for one in workers), *(one.source for one in processes))
    return Standing(doing, case.line_of(rank), line, tuple(dict.fromkeys(said)))
