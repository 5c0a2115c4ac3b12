"""Forward passes of data-parallel wrappers: DDP, FSDP, ``fully_shard`` and DeepSpeed; only the outermost counts.

DDP is tapped at its class, because hooks on an instance would be pickled with it. Where torch.compile takes the
wrapper's whole forward into its graph, the hooks dissolve and the time before backward stands for it.
"""

import functools
import sys
import weakref
from typing import Any

from paceline.training import marks
from paceline.training.hooks.optimizer import settle
from paceline.training.probe import Probe, skip_frame


class Forward:
    """Enter and leave, with the module that opened the forward: one that raised is replaced by the next."""

    def __init__(self, probe: Probe, torch: Any) -> None:
        self.probe = probe
        self.tracing = torch.compiler.is_dynamo_compiling
        self.training = torch.is_grad_enabled
        self.kind = marks.FORWARD

    def enter(self, module: Any) -> None:
        """``module``'s forward begins."""
        try:
            self._enter(module)
        except Exception as error:
            self.probe.fail(error)

    def _enter(self, module: Any) -> None:
        probe = self.probe
        if probe.in_backward or (probe.foreign() and not probe.takes_over(backward=False)):
            return
        if probe.in_forward is not None and probe.in_forward is not module:
            return
        if probe.stepping:
            settle(probe, sys._getframe())
        probe.in_forward = module
        probe.trim()
        self.kind = marks.FORWARD if self.training() and _trains(module) else marks.EVALUATION
        probe.mark(self.kind)

    def leave(self, module: Any) -> None:
        """``module``'s forward ends."""
        probe = self.probe
        try:
            if probe.in_forward is module and not probe.foreign():
                probe.mark(marks.LEAVE + self.kind)
                probe.in_forward = None
        except Exception as error:
            probe.fail(error)


def _trains(module: Any) -> bool:
    """Whether ``module`` is in training mode: a wrapper, or what it wraps, for Lightning switches that alone."""
    return bool(module.training or getattr(getattr(module, "module", None), "training", False))


def install_ddp(probe: Probe, torch: Any) -> None:
    """Time DDP's forward from before it exchanges buffers until it has prepared its reducer."""
    ddp = torch.nn.parallel.DistributedDataParallel
    forward = Forward(probe, torch)
    tracing, training = forward.tracing, forward.training
    begin, end = ddp._pre_forward, ddp._post_forward
    latest: list[Any] = [_none]
    reduces = _reduces(probe)

    @functools.wraps(begin)
    def before(self: Any, *inputs: Any, **kwargs: Any) -> Any:
        if not tracing():
            if probe.device is None:
                probe.wrapper, probe.device = "ddp", getattr(self, "device", None)
                probe.device_found()
            latest[0] = weakref.ref(self)
            forward.enter(self)
        return begin(self, *inputs, **kwargs)

    @functools.wraps(end)
    def after(self: Any, output: Any) -> Any:
        if tracing():
            return end(self, output)
        result = end(self, output)
        if self.require_backward_grad_sync and training() and not (probe.reducing and probe.reducer is self):
            reduces(self)
        forward.leave(self)
        return result

    for function in (before, after, Forward, _trains):
        skip_frame(function)
    ddp._pre_forward, ddp._post_forward = before, after
    _follow_reducer(torch, lambda reducer: _reducers_model(latest[0](), reducer), reduces)


def _reduces(probe: Probe) -> Any:
    def reduces(model: Any) -> None:
        """The reducer of ``model`` takes part in the next backward."""
        try:
            if not probe.off:
                probe.reducing, probe.reducer = True, model
                probe.reduces(model)
        except Exception as error:
            probe.fail(error)

    skip_frame(reduces)
    return reduces


def _follow_reducer(torch: Any, model_of: Any, reduces: Any) -> None:
    """Hear of reducers that others than DDP's own forward prepare, once more where they are: Lightning, Accelerate."""
    reducer = getattr(torch.distributed, "Reducer", None)
    if reducer is None:
        return
    original, tracing = reducer.prepare_for_backward, torch.compiler.is_dynamo_compiling

    def prepare_for_backward(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        model = None if tracing() else model_of(self)
        if model is not None:
            reduces(model)
        return result

    skip_frame(prepare_for_backward)
    reducer.prepare_for_backward = prepare_for_backward


def _reducers_model(model: Any, reducer: Any) -> Any:
    """``model``, if ``reducer`` is its."""
    return model if getattr(model, "reducer", None) is reducer else None


def _none() -> None:
    """Where no model has been seen yet."""


def install_fsdp(probe: Probe, torch: Any, module: Any) -> None:
    """Time modules made by ``fully_shard`` and FSDP of ``torch.distributed.fsdp`` (``module``)."""
    forward = Forward(probe, torch)
    tracing = forward.tracing

    def before(target: Any, args: Any) -> None:
        if not tracing():
            probe.wrapper = "fsdp"
            forward.enter(target)

    def after(target: Any, args: Any, output: Any) -> None:
        if not tracing():
            forward.leave(target)

    for function in (before, after, Forward):
        skip_frame(function)

    def watch(target: Any) -> None:
        if isinstance(target, torch.nn.Module) and not getattr(target, "_paceline_watched", False):
            target.register_forward_pre_hook(before, prepend=True)
            target.register_forward_hook(after)
            object.__setattr__(target, "_paceline_watched", True)

    _watch_sharded(module, watch)
    _watch_wrapped(module, watch)


def install_engine(probe: Probe, torch: Any, module: Any) -> None:
    """Time DeepSpeed's engine (``module``), which wraps the model itself: else its data would be told as forward."""
    engine = getattr(module, "DeepSpeedEngine", None)
    if engine is None:
        return
    timed, original = Forward(probe, torch), engine.forward

    @functools.wraps(original)
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        if timed.tracing():
            return original(self, *args, **kwargs)
        probe.wrapper = "deepspeed"
        timed.enter(self)
        try:
            return original(self, *args, **kwargs)
        finally:
            timed.leave(self)

    for function in (forward, Forward):
        skip_frame(function)
    engine.forward = forward


def _watch_sharded(module: Any, watch: Any) -> None:
    original = getattr(module, "fully_shard", None)
    if original is None:
        return

    @functools.wraps(original)
    def fully_shard(target: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(target, *args, **kwargs)
        if not isinstance(target, (list, tuple)):
            watch(target)
        return result

    module.fully_shard = fully_shard


def _watch_wrapped(module: Any, watch: Any) -> None:
    wrapper = getattr(module, "FullyShardedDataParallel", None)
    if wrapper is None:
        return
    original = wrapper.__init__

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        watch(self)

    wrapper.__init__ = init
