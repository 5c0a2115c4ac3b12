"""Process groups: their names, and the count of collectives that makes them comparable between ranks.

A collective's number counts the group's collectives from 0 and is the same on every member. Messages between two ranks
count for their pair alone, for the others know nothing of them.
"""

from __future__ import annotations

import functools
from time import perf_counter_ns
from typing import Any
from weakref import WeakKeyDictionary

from paceline.training import marks
from paceline.training.hooks.autograd import Ready
from paceline.training.hooks.reducer_waits import WAITS_AT_ISSUE, ReducerWaits
from paceline.training.probe import Probe, skip_frame

#: Our place among the hooks of a process group.
HOOK_ID = 0x9ACE
#: After this many backwards, the reducer's buckets are looked at in one of so many.
SETTLED = 4
ASK_EVERY = 64
_WORDS = {
    "ALLREDUCE": "all_reduce",
    "ALLREDUCE_COALESCED": "all_reduce",
    "ALLGATHER": "all_gather",
    "ALLGATHER_BASE": "all_gather",
    "ALLGATHER_COALESCED": "all_gather",
    "ALLGATHER_INTO_TENSOR_COALESCED": "all_gather",
    "REDUCE_SCATTER": "reduce_scatter",
    "REDUCE_SCATTER_BASE": "reduce_scatter",
    "REDUCE_SCATTER_TENSOR_COALESCED": "reduce_scatter",
    "ALLTOALL": "all_to_all",
    "ALLTOALL_BASE": "all_to_all",
    "RECV_ANYSOURCE": "recv",
}
_PAIRED = ("send", "recv")


class Group:
    """One process group as this rank counts it."""

    def __init__(self, name: str, size: int, rank: int) -> None:
        self.name, self.size, self.rank = name, size, rank
        #: Whether its works make the stream that issues them wait at once.
        self.waits_at_issue = False
        self.count = 0
        self.pairs: dict[str, int] = {}

    def next(self, operation: str, peer: int) -> tuple[str, int, int]:
        """Name, size and number that the next ``operation`` goes by."""
        if operation not in _PAIRED:
            number = self.count
            self.count += 1
            return self.name, self.size, number
        ends = (self.rank, peer) if operation == "send" else (peer, self.rank)
        pair = f"{self.name}:{ends[0]}>{ends[1]}"
        number = self.pairs.get(pair, 0)
        self.pairs[pair] = number + 1
        return pair, 2, number


class Buckets:
    """What one model's reducer issues in a backward, in order."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int]] = []
        self.backwards = 0


class Groups:
    """All process groups of this process. ``tell`` is what functions call where groups have no hook of their own."""

    def __init__(self, probe: Probe, torch: Any) -> None:
        self._probe = probe
        self._torch = torch
        self._groups: dict[Any, Group] = {}
        self._ready = Ready(probe, torch)
        self._waits = ReducerWaits(probe, torch)
        #: The group in which the reducer of the next backward exchanges gradients.
        self._reducing: Group | None = None
        self.hooked = hasattr(torch.distributed.ProcessGroup, "register_pre_hook")
        self.tell: Any = None if self.hooked else self._tell
        self._gradients: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        probe.expect = None if self.hooked else self._expect
        probe.reduces = self.reduces

    def join(self, process_group: Any) -> None:
        """Count ``process_group``'s collectives from now on."""
        if process_group is None or process_group in self._groups or not hasattr(process_group, "size"):
            return
        world = getattr(process_group, "group_desc", "") == "default_pg"
        name = "default" if world else str(process_group.group_name)
        group = Group(name, process_group.size(), process_group.rank())
        self._groups[process_group] = group
        if self.hooked:
            group.waits_at_issue = _waits_at_issue(process_group, self._torch)
            process_group.register_pre_hook(HOOK_ID, self._listener(group))

    def reduces(self, ddp: Any) -> None:
        """The reducer of ``ddp`` takes part in the next backward."""
        group = self._reducing = self._groups.get(getattr(ddp, "process_group", None))
        if group is not None and group.waits_at_issue:
            try:
                self._waits.follow(ddp)
            except Exception as error:
                self._probe.fail(error)

    def world(self) -> Group | None:
        """The group of all ranks."""
        return self._groups.get(self._torch.distributed.group.WORLD)

    def leave(self, process_group: Any = None) -> None:
        """Let go of ``process_group``, or of all: a group must not outlive the interpreter with our hook in it."""
        for group in [process_group] if process_group is not None else list(self._groups):
            if self._groups.pop(group, None) is not None and self.hooked:
                group.unregister_pre_hook(HOOK_ID)

    def _listener(self, group: Group) -> Any:
        probe, torch = self._probe, self._torch
        ready = self._ready
        kinds = torch._C._distributed_c10d.HookOpName
        words = {int(kind): _WORDS.get(name, name.lower()) for name, kind in kinds.__members__.items()}
        paired = {kind: word for kind, word in words.items() if word in _PAIRED}

        models: dict[int, Buckets] = {}
        buckets = Buckets()

        def issued(args: Any) -> None:
            try:
                if probe.off:  # its number is that of the ranks that tell it
                    group.next(paired.get(int(args.name), ""), args.root)
                    return
                if not self._exchanges(group):
                    self._called(group, args.root, *_told(args, words))
                    return
                place = probe.reduced
                probe.reduced, probe.reduced_at = place + 1, perf_counter_ns()
                if place == 0:
                    ready.queue()
                reduced(args, place)
            except Exception as error:
                probe.fail(error)

        def reduced(args: Any, place: int) -> None:
            """A reducer that has settled has the same buckets in every backward: looked at rarely, they cost less."""
            nonlocal buckets
            if place == 0:
                buckets = models.setdefault(id(probe.reducer), Buckets())
                buckets.backwards += 1
            told = buckets.told
            if buckets.backwards <= SETTLED or buckets.backwards % ASK_EVERY == 0 or place >= len(told):
                del told[place:]
                told.append(_told(args, words))
            number = group.count
            group.count = number + 1
            self._bucket(group, (group.name, group.size, number, *told[place], marks.REDUCER))

        for function in (issued, reduced, _told, Group, Groups._called, Groups._bucket):
            skip_frame(function)
        return issued

    def _exchanges(self, group: Group) -> bool:
        """Whether the reducer issues this: backward may send in other groups, and other threads in this one."""
        probe = self._probe
        if not (probe.reducing and probe.in_backward) or probe.waiting:
            return False
        return self._reducing is group and not probe.foreign()

    def _called(self, group: Group, root: int, operation: str, size: int) -> None:
        probe = self._probe
        place = group.next(operation, root)
        if not probe.foreign():  # another thread's, a saver's say, is counted as on the other ranks, and not told
            origin = marks.PYTHON if probe.issuing or probe.waiting else marks.NATIVE
            probe.issued((*place, operation, size, origin))

    def _bucket(self, group: Group, payload: tuple[Any, ...]) -> None:
        if group.waits_at_issue:  # the stamps around the wait tell when it is reached
            self._waits.issues()
            self._probe.host_arrival(payload)
        else:
            self._probe.arrival(payload)

    def _expect(self, loss: Any) -> None:
        """A reducer takes part in the backward of ``loss``, and no hook will tell: its exchange is one collective."""
        try:
            ddp, node = self._probe.reducer, getattr(loss, "grad_fn", None)
            group = self._groups.get(getattr(ddp, "process_group", None))
            if group is None or node is None:
                return
            if ddp not in self._gradients:
                self._gradients[ddp] = sum(weights.nbytes for weights in ddp.parameters() if weights.requires_grad)
            issued = (*group.next("all_reduce", -1), "all_reduce", self._gradients[ddp], marks.REDUCER)

            def begins(_: Any) -> None:
                handle.remove()
                self._ready.queue(issued)

            skip_frame(begins)
            handle = node.register_prehook(begins)
        except Exception as error:
            self._probe.fail(error)

    def _tell(self, name: str, places: dict[str, int], tensors: str, args: tuple[Any, ...], kwargs: Any) -> None:
        """What the group's hook would say, from a function's arguments."""
        try:
            named = _argument("group", places, args, kwargs) or self._torch.distributed.group.WORLD
            group = self._groups.get(named)
            if group is None:
                return
            operation = name.strip("_").removesuffix("_base").removesuffix("_single").removesuffix("_into_tensor")
            operation = operation.removesuffix("_tensor").removesuffix("_coalesced").removesuffix("_list")
            operation = {"isend": "send", "irecv": "recv"}.get(operation, operation).removesuffix("_object")
            given = _argument(tensors, places, args, kwargs)
            size = sum(
                tensor.nbytes
                for tensor in (given if isinstance(given, (list, tuple)) else [given])
                if tensor is not None
            )
            peer = _argument("dst", places, args, kwargs)
            peer = _argument("src", places, args, kwargs) if peer is None else peer
            place = group.next(operation, -1 if peer is None else int(peer))
            self._probe.issued((*place, operation, size, marks.PYTHON))
        except Exception as error:
            self._probe.fail(error)


def install(probe: Probe, groups: Groups, torch: Any, replace: Any) -> None:
    """Follow process groups as they are made and destroyed."""
    c10d = torch.distributed.distributed_c10d
    for name in ("new_group", "split_group"):
        original = getattr(c10d, name, None)
        if original is not None:
            replace(name, original, _joining(probe, groups, original))
    helper = getattr(c10d, "_new_process_group_helper", None)
    if helper is not None:
        replace("_new_process_group_helper", helper, _joining(probe, groups, helper))


def _waits_at_issue(process_group: Any, torch: Any) -> bool:
    """Whether ``process_group`` talks between GPUs by a back end of ``WAITS_AT_ISSUE``."""
    try:
        return type(process_group._get_backend(torch.device("cuda"))).__name__ in WAITS_AT_ISSUE
    except (AttributeError, RuntimeError):  # no back end for GPUs, or a PyTorch that cannot be asked
        return False


def _told(args: Any, words: dict[int, str]) -> tuple[str, int]:
    """Operation and bytes, as the hook tells them; what is only received counts where nothing is sent."""
    size = 0
    for tensor in args.input_tensors or args.output_tensors:
        size += tensor.nbytes
    return words.get(int(args.name), "unknown"), size


def _joining(probe: Probe, groups: Groups, original: Any) -> Any:
    @functools.wraps(original)
    def make(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        try:
            if not probe.stopped:
                groups.join(result[0] if isinstance(result, tuple) else result)
        except Exception as error:
            probe.fail(error)
        return result

    return make


def _argument(name: str, places: dict[str, int], args: tuple[Any, ...], kwargs: Any) -> Any:
    place = places.get(name)
    if name in kwargs:
        return kwargs[name]
    return args[place] if place is not None and place < len(args) else None
