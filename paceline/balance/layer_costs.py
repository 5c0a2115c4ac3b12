"""What each layer of a pipeline stage takes: forward and backward seconds a micro-batch, of a few that are sampled.

Rule of this file: hooks are there only while ``sampling`` lasts, and never wait for a device. It assumes that a stage
is a row of layers of which each gives one tensor to the next, and that each is called once a micro-batch; what a loss
outside the layers takes belongs to none. A layer's backward begins when the gradient of its output is there and ends
when that of its input is; where its input needs none, with the last gradient of its parameters.
On CUDA a stamp is an event on the stream, and is read when `LayerCosts.seconds` is asked for, between steps.
"""

from __future__ import annotations

import contextlib
import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from .errors import BalanceError

#: From a median of absolute deviations to a standard deviation, and from that to the error of a median (normal noise).
_SIGMA, _OF_MEDIAN = 1.4826, 1.2533


class Pass:
    """The stamps of one micro-batch: a begin and an end a layer on the way there, and on the way back."""

    def __init__(self, layers: int) -> None:
        self.began: list[Any] = [None] * layers
        self.ended: list[Any] = [None] * layers
        self.output: list[Any] = [None] * layers
        #: The gradient of the first layer's input, or the last one of parameters of the first that has any.
        self.last: Any = None

    @property
    def whole(self) -> bool:
        """Whether it went there and back."""
        return self.last is not None and None not in self.ended


class LayerCosts:
    """The layers of one stage, timed while asked to.

    Args:
        layers: of this stage, in order.
        device: on which they compute.
        most: micro-batches that are timed.
    """

    def __init__(self, layers: Sequence[nn.Module], device: torch.device, most: int = 8) -> None:
        self.layers = list(layers)
        self.device = device
        self.most = most
        self.passes: list[Pass] = []

    @contextlib.contextmanager
    def sampling(self) -> Iterator[None]:
        """Times micro-batches while it lasts, ``most`` in all; outside of it there is no hook."""
        handles = []
        for index, layer in enumerate(self.layers):
            handles.append(layer.register_forward_pre_hook(self._before(index)))
            handles.append(layer.register_forward_hook(self._after(index)))
        trained: list[list[Any]] = [[one for one in layer.parameters() if one.requires_grad] for layer in self.layers]
        for parameter in next(filter(None, trained), []):
            handles.append(parameter.register_post_accumulate_grad_hook(self._accumulated))
        self._backward: Pass | None = None
        self._forward: Pass | None = None
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def seconds(self) -> tuple[list[float], list[float]]:
        """Seconds a micro-batch of each layer, the median, and its standard error; NaN of what was never timed."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)  # between steps: events that were recorded have been reached
        rows = [self._row(one) for one in self.passes if one.whole]
        columns = [[row[layer] for row in rows] for layer in range(len(self.layers))]
        return [median(column) for column in columns], [error_of_median(column) for column in columns]

    def _before(self, index: int) -> Callable[..., None]:
        def hook(_: nn.Module, given: tuple[Any, ...]) -> None:
            if index == 0:
                self._forward = self._next()
                if self._forward is not None and given and isinstance(given[0], torch.Tensor):
                    self._on_gradient(given[0], self._forward, None)
            if self._forward is not None:
                self._forward.began[index] = self._stamp()

        return hook

    def _after(self, index: int) -> Callable[..., None]:
        def hook(layer: nn.Module, _: tuple[Any, ...], output: Any) -> None:
            if not hasattr(output, "register_hook"):
                name = type(layer).__name__
                raise BalanceError(f"layer {index} ({name}) gives no single tensor: wrap it so that it hands on one")
            if self._forward is not None:
                self._forward.ended[index] = self._stamp()
                self._on_gradient(output, self._forward, index)
            elif output.requires_grad:
                output.register_hook(self._unrecorded)

        return hook

    def _next(self) -> Pass | None:
        """The record of a micro-batch that begins; None where there were enough, or no gradient is asked for."""
        if len(self.passes) >= self.most or not torch.is_grad_enabled():
            return None
        self.passes.append(Pass(len(self.layers)))
        return self.passes[-1]

    def _on_gradient(self, tensor: Any, of: Pass, index: int | None) -> None:
        def hook(_: torch.Tensor) -> None:
            self._backward = of
            if index is None:
                of.last = self._stamp()
            else:
                of.output[index] = self._stamp()

        if tensor.requires_grad:
            tensor.register_hook(hook)

    def _unrecorded(self, _: torch.Tensor) -> None:
        self._backward = None

    def _accumulated(self, _: torch.Tensor) -> None:
        if self._backward is not None:
            self._backward.last = self._stamp()

    def _row(self, one: Pass) -> list[float]:
        """Forward and backward together, a number a layer; a layer without gradients has no backward."""
        row, end = [], one.last
        for began, ended, output in zip(one.began, one.ended, one.output):
            back_s = 0.0 if output is None else self._between(output, end)
            row.append(self._between(began, ended) + max(back_s, 0.0))
            end = output if output is not None else end
        return row

    def _stamp(self) -> Any:
        if self.device.type != "cuda":
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self.device))
        return event

    def _between(self, begin: Any, end: Any) -> float:
        return float(begin.elapsed_time(end) / 1e3 if self.device.type == "cuda" else end - begin)


def reference_s(once: Callable[[], object], device: torch.device, times: int = 9) -> tuple[float, float]:
    """What one common piece of work takes on this rank: the median of ``times``, and its standard error.

    Args:
        once: forward and backward of a layer that is the same on every rank, in shapes and numbers.
        device: on which it computes.
        times: it is done once more before, for nothing is warm at first.
    """
    took = []
    for _ in range(times + 1):
        began = time.perf_counter()
        once()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        took.append(time.perf_counter() - began)
    return median(took[1:]), error_of_median(took[1:])


def gathered(own: Sequence[float], first: int, total: int, device: torch.device) -> list[float]:
    """The numbers of all ranks in one row; this rank's begin at ``first``. All ranks must call it, with one total."""
    row = torch.zeros(total, dtype=torch.float64, device=device)
    row[first : first + len(own)] = torch.tensor(list(own), dtype=torch.float64, device=device)
    dist.all_reduce(row)
    return [float(value) for value in row.tolist()]


def median(values: Sequence[float]) -> float:
    """The median; NaN of none."""
    return statistics.median(values) if values else float("nan")


def error_of_median(values: Sequence[float]) -> float:
    """The standard error of a median, by the median of absolute deviations; NaN of fewer than two.

    >>> round(error_of_median([1.0, 1.1, 0.9, 1.0]), 3)
    0.046
    """
    if len(values) < 2:
        return float("nan")
    middle = median(values)
    deviation = median([abs(value - middle) for value in values])
    return _OF_MEDIAN * _SIGMA * deviation / math.sqrt(len(values))
