"""The statements of a case by kind, and what joins them: which rank a process, an address or a device belongs to.

Rule of this file: pure. A process's number is looked up with its node where both say one: numbers repeat on other
nodes. What two ranks claim belongs to neither.
"""

import re
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TypeVar

import msgspec

from paceline.flight_recorder import distinct_groups

from ..evidence import (
    Call,
    Dump,
    Exit,
    Failure,
    Kernel,
    Look,
    NoDump,
    Outside,
    Place,
    Placed,
    PodKilled,
    Present,
    Process,
    Progress,
    Source,
    Stack,
    Stalled,
    Statement,
    StepEnded,
    Stopped,
    Timeout,
)
from ..places import full, in_loader, innermost, is_library

#: What tells the pods of one set apart at their names' ends: a number, and of a Job's random letters behind it.
_SERIES = re.compile(r"-\d{1,7}(?:-[a-z0-9]{5})?$")
_Said = TypeVar("_Said", bound=Statement)

#: Signals that no launcher sends.
_CRASHES = frozenset({-4, -7, -8, -11})
#: A job that went on after the report of a stall writes more lines than this; one that was ended there fewer.
_AFTER_A_STALL = 500
#: torchrun's agent waits 30 s for a process that it has sent SIGTERM, and kills it then.
_AGENTS_PATIENCE_S = 20
#: A kernel's lines reach back to when its node was started.
_OLD_S = 86_400.0


class Case:
    """All that is known of a job's end."""

    def __init__(self, statements: Iterable[Statement]) -> None:
        self.all = _with_own_groups(list(statements))
        self.timeouts = self._of(Timeout)
        self.progress = self._of(Progress)
        self.failures = self._of(Failure)
        self.exits = self._of(Exit)
        self.stopped = self._of(Stopped)
        self.step_ends = self._of(StepEnded)
        self.kernel = self._of(Kernel)
        self.outside = self._of(Outside)
        self.calls = self._of(Call)
        self.dumps = self._of(Dump)
        self.no_dumps = self._of(NoDump)
        self.stacks = self._of(Stack)
        self.processes = self._of(Process)
        self.looks = self._of(Look)
        self.placed = self._of(Placed)
        self.present = self._of(Present)
        self.pods_killed = self._of(PodKilled)
        self.stalls = self._standing(self._of(Stalled))
        self.failures = [self._owned(said) for said in self.failures]
        self.all = [said for said in self.all if not isinstance(said, Failure)] + self.failures
        self.kernel = [said for said in self.kernel if not self._of_long_before(said)]

    def _of(self, kind: type[_Said]) -> list[_Said]:
        return [said for said in self.all if isinstance(said, kind)]

    def _standing(self, said: list[Stalled]) -> list[Stalled]:
        """The last report of a stall in each file, unless the job went on from it."""
        heads = {one.source.file: one.source.line for one in said if not one.operations}
        last = [one for one in said if one.source.line >= heads.get(one.source.file, 0)]
        ended = bool(self.failures or self.exits or self.outside or self.stopped)
        return last if min((one.after for one in last), default=0) <= (_AFTER_A_STALL if ended else 3) else []

    def _of_long_before(self, said: Kernel) -> bool:
        """Whether a line of a kernel is of another job: a day from the ends of this one's processes, or of undated
        ones, followed by lines of a day later. A day is more than clocks and time zones of two nodes differ by."""
        if self.rank_of_pid(said.pid, said.node) is not None:
            return False
        ended_s = [one.time_s for one in self.exits if one.time_s is not None]
        if ended_s and said.time_s is not None:
            return not min(ended_s) - _OLD_S <= said.time_s <= max(ended_s) + _OLD_S
        return (said.age_s or 0.0) > _OLD_S

    def _owned(self, said: Failure) -> Failure:
        """A failure with the rank of its process, or of the folder that its file lies in, where that is known."""
        if said.rank is not None:
            return said
        if said.of_local is None:
            rank = self.rank_of_pid(said.of_pid, said.node)
        else:
            rank = self._rank_of_file(said.source.file, said.of_local)
        return said if rank is None else msgspec.structs.replace(said, rank=rank)

    def _rank_of_file(self, file: str, local: int) -> int | None:
        """By the agent's table, which names the folder; else by a folder that is a node whose ranks are known."""
        folders = file.split("/")[:-1]
        # The run's own folder, the attempt and the local rank: those above may have been moved.
        named = {one.rank for one in self.placed if one.folder and one.folder.split("/")[-3:] == folders[-3:]}
        owners = named or {one.rank for one in self.placed if one.local_rank == local and one.node in folders}
        return owners.pop() if len(owners) == 1 else None

    @cached_property
    def ranks(self) -> set[int]:
        """Every rank that some file names."""
        named = {said.rank for said in self.all if said.rank is not None}
        named.update(rank for one in self.stalls for rank in (*one.missing, *one.ready))
        for dump in self.dumps:
            for members in dump.members.values():
                named.update(members)
        return named

    @cached_property
    def failed(self) -> set[int]:
        """The ranks of which any failure is known, be it another's."""
        return {one.rank for one in self.failures if one.rank is not None}

    @cached_property
    def nodes(self) -> dict[int, str]:
        """Where ranks run, by the files that say so."""
        made: dict[int, str] = {}
        for said in (*self.placed, *self.exits, *self.all):
            if said.rank is not None and said.node:
                made.setdefault(said.rank, said.node)
        return made

    def rank_of_pid(self, pid: int | None, node: str) -> int | None:
        """The rank of a process, or of the loader's worker that it is."""
        if pid is None:
            return None
        owned: tuple[Placed | Exit | Stack | Process, ...] = (
            *self.placed,
            *self.exits,
            *self.stacks,
            *self.processes,
        )
        owners = {
            said.rank for said in owned if said.pid == pid and said.rank is not None and self.same_node(node, said.node)
        }
        owners |= {failed.rank for failed in self.failures if failed.pid == pid and failed.rank is not None}
        return owners.pop() if len(owners) == 1 else None

    def same_node(self, one: str, other: str) -> bool:
        """Whether two names may be one node's: one is unknown, or they differ in their domain alone."""
        if not one or not other or {one, other} & {"localhost", "127.0.0.1"}:
            return True
        if one.replace(".", "").isdigit() or other.replace(".", "").isdigit():  # Of an address every part counts.
            return one == other
        return one.partition(".")[0] == other.partition(".")[0]

    def rank_of_device(self, pci: str, node: str) -> int | None:
        """The rank that uses a GPU."""
        owners = {said.rank for said in self.placed if pci and said.pci == pci and self.same_node(node, said.node)}
        return owners.pop() if len(owners) == 1 else None

    def rank_of_address(self, peer: str) -> int | None:
        """The rank behind an address that gloo prints, whose port has its two bytes swapped."""
        found = re.fullmatch(r"\[?([^\]]+)\]:(\d{1,5})", peer)
        if not found:
            return None
        port = int(found[2])
        for candidate in (swapped(port), port):
            address = f"{found[1].removeprefix('::ffff:')}:{candidate}"
            owners = {said.rank for said in self.placed if address in said.addresses}
            if len(owners) == 1:
                return owners.pop()
        return None

    def ranks_on(self, node: str) -> list[int]:
        """The ranks of a node, in order."""
        return sorted(rank for rank, name in self.nodes.items() if self.same_node(node, name) and node)

    @cached_property
    def _pods(self) -> set[str]:
        """Where ranks ran by their own lines, which are pods under Kubernetes; what it says itself is of all jobs."""
        said = [one for one in self.all if not isinstance(one, Kernel | Outside | PodKilled)]
        return {one.node for one in said if one.node}

    def owns(self, is_it: Callable[[str], bool]) -> bool | None:
        """Whether a pod whose name ``is_it`` is this job's; None where the job's pods are not known and the job has no
        failure of its own, for then it may be."""
        if self._pods:
            return any(map(is_it, self._pods))
        return False if self._failed_itself else None

    def owns_pod(self, name: str, rank: int | None = None) -> bool | None:
        """Whether a pod is this job's: a rank wrote from it or from another of its set. One with a ``rank`` may be."""
        series = _SERIES.sub("", name)
        ours = self.owns(lambda pod: pod == name or _SERIES.sub("", pod) == series != name)
        if rank is None or ours:
            return ours
        if not self._pods:
            return True
        return False if self._failed_itself else None

    @cached_property
    def _failed_itself(self) -> bool:
        """Whether a rank failed otherwise than for memory, which its pod may have lacked."""
        return any(one.role == "own" and one.name not in ("oom_event", "stuck", "worker") for one in self.failures)

    @cached_property
    def forced(self) -> set[tuple[str, int]]:
        """Processes that a launcher has ended itself."""
        return {(said.node, said.pid) for said in self.stopped}

    def ended_by_launcher(self, ended: Exit) -> bool:
        """Whether a launcher sent this process its signal."""
        return ended.code in (-15, -9) and (
            any(said.pid == ended.pid and (said.signal == "SIGKILL" or ended.code == -15) for said in self.stopped)
            or self._long_after_another(ended)
            or self._behind_another(ended)
        )

    def _behind_another(self, ended: Exit) -> bool:
        """Whether its launcher had reported before that another rank crashed, or somebody that all are ended.

        Of boxes and tables the first end is marked, and may stand last; no launcher runs out of memory for a process.
        """
        if ended.first or any(one.source == ended.source for one in self.failures if one.name == "oom_event"):
            return False

        def above(one: Statement) -> bool:
            return one.source.file == ended.source.file and one.source.line < ended.source.line

        crashed = (one for one in self.exits if one.code in _CRASHES and one.rank is not None and one.pid is None)
        return any(map(above, self.step_ends)) or any(map(above, self.outside)) or any(map(above, crashed))

    def _long_after_another(self, ended: Exit) -> bool:
        """Whether another rank of its node had ended by itself so long before that the agent's patience was over."""
        return any(
            one.time_s is not None
            and ended.time_s is not None
            and ended.time_s - one.time_s >= _AGENTS_PATIENCE_S
            and one.node == ended.node
            and one.code not in (0, -9, -15)
            for one in self.exits
        )

    @cached_property
    def exit_of(self) -> dict[int, Exit]:
        """How each rank ended."""
        made: dict[int, Exit] = {}
        for ended in self.exits:
            rank = ended.rank if ended.rank is not None else self.rank_of_pid(ended.pid, ended.node)
            if rank is not None:
                made.setdefault(rank, ended)
        return made

    @cached_property
    def paths(self) -> set[str]:
        """Paths of the user's files that are known in full."""
        places: list[Place] = [place for call in self.calls if (place := call.place) is not None]
        for frames in (*(one.frames for one in self.failures), *(one.frames for one in self.stacks)):
            places += frames
        return {place.file for place in places if place.file.startswith("/") and not is_library(place.file)} | {
            said.source.quote for said in self.stacks if said.source.quote.startswith("/")
        }

    def line(self, place: Place | None) -> str | None:
        """A place as it is shown, with its whole path where that is known."""
        return None if place is None else str(full(place, self.paths))

    def line_in(self, failures: Iterable[Failure]) -> str | None:
        """The line of the first of ``failures`` that has one."""
        return self.line(next((place for one in failures if (place := innermost(one.frames)) is not None), None))

    def stack_of(self, rank: int) -> Stack | None:
        """The main thread of a rank."""
        own = [stack for stack in self.stacks if stack.rank == rank and not stack.worker and stack.main]
        return own[-1] if own else None

    def line_of(self, rank: int) -> str | None:
        """Where a rank stands, by its stack."""
        stack = self.stack_of(rank)
        return self.line(innermost(stack.frames)) if stack else None

    def workers_of(self, rank: int) -> list[Stack]:
        """Loader workers of a rank whose main thread waits for them."""
        stack = self.stack_of(rank)
        if stack is None or not in_loader(stack.frames):
            return []
        return [one for one in self.stacks if one.rank == rank and one.worker and one.main]


def _with_own_groups(said: list[Statement]) -> list[Statement]:
    """The statements, with another name for each of several groups that recorders call the same."""
    names = distinct_groups({one.rank: one.members for one in said if isinstance(one, Dump) and one.rank is not None})
    return [_renamed(one, names) for one in said] if names else said


def _renamed(said: Statement, names: dict[tuple[int, str], str]) -> Statement:
    if said.rank is None:
        return said
    rank = said.rank
    if isinstance(said, Call) and (rank, said.group) in names:
        return msgspec.structs.replace(said, group=names[rank, said.group])
    if isinstance(said, Dump):
        members, enqueued = (
            {names.get((rank, group), group): value for group, value in of.items()}
            for of in (said.members, said.enqueued)
        )
        return msgspec.structs.replace(said, members=members, enqueued=enqueued)
    return said


def swapped(port: int) -> int:
    """A port as gloo prints it, or back.

    >>> swapped(51880)
    43210
    """
    return (port & 0xFF) << 8 | port >> 8


def grounds(*said: Statement) -> tuple[Source, ...]:
    """Where these statements stand, each once, a few at most."""
    return tuple(dict.fromkeys(one.source for one in said))[:12]
