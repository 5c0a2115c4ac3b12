"""Collectives: the time the training thread stands in them, and what each one is.

Standing still is seen at the public functions of ``torch.distributed`` and at ``Work.wait``. What was issued is told by
the process group's own hook where PyTorch has one (2.15), which also sees the gradient reducer; elsewhere by the
arguments of those functions, and the reducer's exchange counts as one collective.
"""

from __future__ import annotations

import functools
import inspect
import sys
from typing import Any

from paceline.training import marks
from paceline.training.hooks.groups import Groups
from paceline.training.probe import Probe, skip_frame

#: Function, and the argument that holds what this rank puts in.
_FUNCTIONS = {
    "all_reduce": "tensor",
    "all_reduce_coalesced": "tensors",
    "all_gather": "tensor",
    "all_gather_into_tensor": "input_tensor",
    "all_gather_single": "input_tensor",
    "_all_gather_base": "input_tensor",
    "all_gather_coalesced": "input_tensor_list",
    "reduce_scatter": "input_list",
    "reduce_scatter_tensor": "input",
    "reduce_scatter_single": "input",
    "_reduce_scatter_base": "input",
    "broadcast": "tensor",
    "reduce": "tensor",
    "gather": "tensor",
    "gather_into_tensor": "input_tensor",
    "gather_single": "input_tensor",
    "scatter": "tensor",
    "all_to_all": "input_tensor_list",
    "all_to_all_single": "input",
    "barrier": "",
    "monitored_barrier": "",
    "send": "tensor",
    "recv": "tensor",
    "isend": "tensor",
    "irecv": "tensor",
    "all_gather_object": "",
    "gather_object": "",
    "broadcast_object_list": "",
    "scatter_object_list": "",
}
_ALWAYS_ASYNC = ("isend", "irecv")


def install(probe: Probe, groups: Groups, torch: Any) -> None:
    """Tap every function that a script, DDP or FSDP calls to talk to other ranks."""
    c10d = torch.distributed.distributed_c10d
    for name, tensors in _FUNCTIONS.items():
        original = getattr(c10d, name, None)
        if inspect.isfunction(original):
            replace(name, original, _timed(probe, groups, torch, original, name, tensors))
    coalesced = torch.distributed._broadcast_coalesced
    replace("_broadcast_coalesced", coalesced, _blocking(probe, torch, coalesced, None))
    work = torch._C._distributed_c10d.Work
    work.wait = _waiting(probe, work.wait)


def install_functional(probe: Probe, torch: Any, module: Any) -> None:
    """Time the waits for functional collectives (``module``), also those of code that torch.compile has generated.

    Such code calls the operator itself, whose identity must stay: so what it calls in turn is replaced. PyTorch before
    2.15 takes an operator's hash from that, and keeps its own; there these waits count as the pass around them.
    """
    module.wait_tensor = _blocking(probe, torch, module.wait_tensor, marks.FUNCTIONAL)
    operator = torch.ops._c10d_functional.wait_tensor.default
    if hasattr(operator, "_cpp_dispatch_handle"):
        operator._op = _blocking(probe, torch, operator._op, marks.FUNCTIONAL)


def replace(name: str, original: Any, wrapped: Any) -> None:
    """Put ``wrapped`` wherever PyTorch's own modules have imported ``original`` under ``name``."""
    for module_name, module in list(sys.modules.items()):
        if module_name.startswith(("torch.distributed", "torch.nn.parallel")):
            if vars(module).get(name) is original:
                setattr(module, name, wrapped)
            remaps = vars(module).get("traceable_collective_remaps")
            if isinstance(remaps, dict) and original in remaps:
                remaps[wrapped] = remaps[original]


def _timed(probe: Probe, groups: Groups, torch: Any, original: Any, name: str, tensors: str) -> Any:
    tracing = torch.compiler.is_dynamo_compiling
    places = {parameter: place for place, parameter in enumerate(inspect.signature(original).parameters)}
    async_place = places.get("async_op", 1000)
    always = name in _ALWAYS_ASYNC

    @functools.wraps(original)
    def collective(*args: Any, **kwargs: Any) -> Any:
        if tracing() or probe.waiting or probe.issuing or probe.foreign():
            return original(*args, **kwargs)
        side = probe.side()
        if side is not None or always or kwargs.get("async_op") or (len(args) > async_place and args[async_place]):
            probe.issuing = True
            try:
                if groups.tell:
                    groups.tell(name, places, tensors, args, kwargs)
                work = original(*args, **kwargs)
            finally:
                probe.issuing = False
            if work is not None:
                probe.host_mark(marks.BOUND, id(work))
            elif side is not None:
                probe.behind(side)
            probe.trim()
            return work
        probe.waiting = True
        probe.mark(marks.COMMUNICATION)
        try:
            if groups.tell:
                groups.tell(name, places, tensors, args, kwargs)
            return original(*args, **kwargs)
        except BaseException:
            probe.host_mark(marks.RAISED)
            raise
        finally:
            probe.mark(marks.LEAVE + marks.COMMUNICATION)
            probe.trim()
            probe.waiting = False

    skip_frame(collective)
    probe.waits_in(collective)
    return collective


def _blocking(probe: Probe, torch: Any, original: Any, work: int | None) -> Any:
    tracing = torch.compiler.is_dynamo_compiling

    @functools.wraps(original)
    def collective(*args: Any, **kwargs: Any) -> Any:
        if tracing() or probe.waiting or probe.foreign():
            return original(*args, **kwargs)
        return probe.waited(work, original, *args, **kwargs)

    skip_frame(collective)
    probe.waits_in(collective)
    return collective


def _waiting(probe: Probe, original: Any) -> Any:
    @functools.wraps(original)
    def wait(self: Any, *args: Any, **kwargs: Any) -> Any:
        if probe.waiting or probe.foreign():
            return original(self, *args, **kwargs)
        side = probe.side()
        if side is not None:  # a stream that delays nobody waits: who computes waits for that stream
            probe.behind(side, id(self))
            return original(self, *args, **kwargs)
        return probe.waited(id(self), original, self, *args, **kwargs)

    skip_frame(wait)
    probe.waits_in(wait)
    return wait
