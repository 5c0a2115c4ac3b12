"""Backward passes: ``torch.autograd.backward``, which ``Tensor.backward`` calls, and ``torch.autograd.grad``.

The latter is heard where it calls the engine, for torch.compile knows it by its identity.
"""

from __future__ import annotations

import functools
import sys
import threading
from itertools import islice
from time import perf_counter_ns
from typing import Any

from paceline.training import marks
from paceline.training.hooks.optimizer import settle
from paceline.training.probe import ELSEWHERE, Probe, skip_frame

#: The reducer's last collective is issued when the last gradient is ready, unless the model goes on below it. Where
#: the two have agreed this often, to within this much, only one backward in so many still asks.
AGREED = 16
APART_NS = 300_000
EVERY = 32
#: The place of ``create_graph`` among the engine's arguments.
_CREATE_GRAPH = 3
#: Among so many arguments and what they hold a tensor is looked for: a pipeline's are lists, of chunks or parameters.
_MOST = 256


def install(probe: Probe, torch: Any) -> None:
    """Time the outermost backward of the training thread."""
    backward = Backward(probe, torch)
    skip_frame(Backward)
    torch.autograd.backward = _backward(backward, torch.autograd.backward)
    engine = getattr(torch.autograd, "_engine_run_backward", None)
    if engine is not None:
        torch.autograd._engine_run_backward = _grad(backward, engine, torch)


class Backward:
    """Enter and run; what is entered within another, or on another thread, is none of its own."""

    def __init__(self, probe: Probe, torch: Any) -> None:
        self.probe = probe
        self.tracing = torch.compiler.is_dynamo_compiling
        self._ident = threading.get_ident

    def enter(self, tensors: tuple[Any, ...], microbatch: int | None = None) -> bool:
        """Whether the outermost begins, of ``tensors``; ``run`` must follow then, and only then."""
        try:
            return self._enter(tensors, microbatch)
        except Exception as error:
            self.probe.fail(error)
            self.probe.in_backward = False
            return False

    def _enter(self, tensors: tuple[Any, ...], microbatch: int | None) -> bool:
        probe = self.probe
        probe.worked = True
        if probe.in_backward or (self._ident() != probe.thread and not probe.idle and not probe.takes_over()):
            return False
        probe.elsewhere = ELSEWHERE
        if probe.off:  # ... and perhaps counts steps
            probe.in_backward = probe.alternation is not None
            return probe.in_backward
        if probe.stepping:
            settle(probe, sys._getframe(1))
        if probe.device is None:
            probe.device = device_of(tensors)
            probe.device_found()
        probe.in_backward, probe.reduced, probe.in_forward = True, 0, None
        probe.stepped = False
        probe.mark(marks.BACKWARD, microbatch)
        return True

    def run(self, original: Any, /, *args: Any, **kwargs: Any) -> Any:
        """What ``original`` returns; the backward ends with it, and the step where an optimizer stepped within."""
        try:
            return original(*args, **kwargs)
        except BaseException:
            self.probe.host_mark(marks.RAISED)
            raise
        finally:
            self._left()

    def _left(self) -> None:
        try:
            self._leave()
        except Exception as error:
            self.probe.fail(error)

    def _leave(self) -> None:
        probe = self.probe
        stepped, probe.stepped = probe.stepped, False
        probe.in_backward = False
        if not probe.off:
            if stepped:
                probe.host_mark(marks.OPTIMIZER)
                probe.host_mark(marks.LEAVE + marks.OPTIMIZER)
            probe.mark(marks.LEAVE + marks.BACKWARD)
            probe.trim()
            probe.waiting = False
        probe.reducing, probe.reducer = False, None
        if stepped:
            if probe.idle:
                probe.begin()
            probe.optimizer_stepped()


def _backward(timed: Backward, original: Any) -> Any:
    probe, tracing = timed.probe, timed.tracing

    @functools.wraps(original)
    def backward(*args: Any, **kwargs: Any) -> Any:
        if tracing() or not timed.enter((args, kwargs)):
            return original(*args, **kwargs)
        if probe.reducing and probe.expect is not None and args:
            probe.expect(args[0])
        return timed.run(original, *args, **kwargs)

    skip_frame(backward)
    probe.waits_in(backward)  # for gradients, where no hook tells that it computes
    return backward


def _grad(timed: Backward, original: Any, torch: Any) -> Any:
    """``torch.autograd.grad`` is a backward where its result is what training steps by.

    One that is differentiated again (``create_graph``: a penalty, forces) or taken within a forward belongs to the
    forward, and one under a dispatch mode is a compiler's that traces.
    """
    probe, tracing = timed.probe, timed.tracing
    modes = getattr(getattr(torch, "_C", None), "_len_torch_dispatch_stack", lambda: 0)

    @functools.wraps(original)
    def run_backward(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("accumulate_grad", True) or probe.in_backward or probe.in_forward is not None or tracing():
            return original(*args, **kwargs)
        reducing, reducer = probe.reducing, probe.reducer
        if not (probe.idle or probe.on_thread()):  # for anything, but none of training
            return original(*args, **kwargs)
        if modes() or (len(args) > _CREATE_GRAPH and args[_CREATE_GRAPH]) or not timed.enter((args,)):
            return original(*args, **kwargs)
        probe.reducing = False
        try:
            return timed.run(original, *args, **kwargs)
        finally:
            probe.reducing, probe.reducer = reducing, reducer  # it fills no bucket: that is for the backward to come

    skip_frame(run_backward)
    return run_backward


def device_of(found: Any) -> Any:
    """The device of the first tensors in ``found``, a nest of lists, tuples and dicts: an accelerator before the host.

    >>> from types import SimpleNamespace as Tensor
    >>> host, accelerator = Tensor(type="cpu"), Tensor(type="cuda")
    >>> device_of(([None, Tensor(device=host)], {"grad_tensors": [Tensor(device=accelerator)]})).type
    'cuda'
    >>> device_of(([None], {}))
    """
    first, left = None, [found]
    for one in left:
        device = getattr(one, "device", None)
        if hasattr(device, "type"):
            if device.type != "cpu":  # type: ignore[union-attr]  # it has one
                return device
            first = first or device
        elif len(left) < _MOST:
            inside = one.values() if isinstance(one, dict) else one if isinstance(one, (list, tuple)) else ()
            left += islice(inside, _MOST)
    return first


class Ready:
    """Asks to be told when the last gradient is computed: before the reducer, which asks later, waits for others."""

    def __init__(self, probe: Probe, torch: Any) -> None:
        self._probe = probe
        self._ask = torch.autograd.Variable._execution_engine.queue_callback
        self._issued: tuple[Any, ...] | None = None
        self._agreed = 0
        self._asked = 0
        skip_frame(Ready)

    def queue(self, issued: tuple[Any, ...] | None = None) -> None:
        """Ask, once in a backward; ``issued`` is the collective to write down then, where nothing else tells of it."""
        self._asked += 1
        if self._agreed >= AGREED and self._asked % EVERY and issued is None and self._probe.on_host:
            return
        self._issued = issued
        compiled = sys.modules.get("torch._dynamo.compiled_autograd")
        if compiled is not None and getattr(compiled, "in_compiled_autograd_region", False):
            return
        try:
            self._ask(self._ready)
        except RuntimeError:
            return  # Not inside the engine: the reducer's last collective then stands for the last gradient.

    def _ready(self) -> None:
        probe = self._probe
        probe.mark(marks.READY)
        if self._issued is not None:
            probe.host_mark(marks.ISSUED, self._issued)
        elif perf_counter_ns() - probe.reduced_at < APART_NS:
            self._agreed += 1
        else:
            self._agreed = 0
