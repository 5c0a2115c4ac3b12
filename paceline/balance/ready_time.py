"""Compute-ready time: how long a rank's own forward and backward take, until its last gradient is there.

Rule of this file: it writes moments down and never waits for a device. The step itself tells nothing of a rank, for
all leave the exchange of gradients together. So the clock runs from the call of the wrapped model to the end of the
pass back, before gradients of others are waited for, which the autograd engine tells: callbacks run in the order in
which they were queued, and this one is queued first. A sharded model's collectives in between are taken off.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Any, NamedTuple

import torch

from paceline.training.accelerator import Accelerator, accelerator_of

from .wrapping import Wrapping

#: What of a sharded group waits for other ranks.
_EXCHANGES = ("unshard", "wait_for_unshard", "post_backward")
#: Measurements that a device may still have before it; more, and the oldest are given up.
_MOST_HELD = 64


class Ready(NamedTuple):
    """One measurement: what it is of, and its seconds."""

    version: int
    batch: int
    seconds: float


class ReadyTime:
    """The clock of one rank; ``read`` says what has become known.

    A measurement is of everything between two calls of ``end``: of accumulated passes the sum.
    """

    def __init__(self, wrapping: Wrapping) -> None:
        self._accelerator: Accelerator | None = accelerator_of(torch, wrapping.device)
        self._known = self._accelerator is not None or wrapping.device.type == "cpu"
        self._running: Any = None
        self._ready: Any = None
        self._spans: list[tuple[Any, Any]] = []
        self._waits: list[tuple[Any, Any]] = []
        self._waiting = False
        self._held: deque[tuple[int, int, int, list[tuple[Any, Any]], list[tuple[Any, Any]]]] = deque()
        for group in wrapping.groups:
            for name in _EXCHANGES:
                if hasattr(group, name):
                    setattr(group, name, self._taken_off(getattr(group, name)))

    def begin(self) -> None:
        """The model is called: a forward pass of training begins, or goes on with another call."""
        if self._running is None:
            self._running = self._now()

    def backward(self, loss: torch.Tensor) -> None:
        """The pass back from ``loss`` is about to begin: hear of its last gradient."""
        self._ready = None
        loss.register_hook(self._queue)  # type: ignore[no-untyped-call]

    def end(self) -> None:
        """The pass back is over on this rank, whatever others still do."""
        if self._running is not None and self._ready is not None:
            self._spans.append((self._running, self._ready))
        self._running = self._ready = None

    def close(self, version: int, batch: int, passes: int, batches: int) -> None:
        """What was measured since the last time is of so many batches up to ``batch``, if each pass was measured."""
        spans, waits = self._spans, self._waits
        self._spans, self._waits = [], []
        if len(spans) == passes and batches and self._known:
            self._held.append((version, batch, batches, spans, waits))
        if len(self._held) > _MOST_HELD:
            self._held.popleft()

    def read(self) -> list[Ready]:
        """Measurements that are complete by now, seconds a batch, in order."""
        found = []
        while self._held and self._reached(self._held[0][3][-1][1]):
            version, batch, batches, spans, waits = self._held.popleft()
            seconds = sum(self._between(*span) for span in spans) - sum(self._between(*wait) for wait in waits)
            found.append(Ready(version, batch, seconds / batches))
        return found

    def forget(self) -> None:
        """What was begun came to nothing."""
        self._running = self._ready = None
        self._spans, self._waits = [], []

    def _queue(self, _: torch.Tensor) -> None:
        torch.autograd.Variable._execution_engine.queue_callback(self._stamp)

    def _stamp(self) -> None:
        self._ready = self._now()

    def _taken_off(self, exchange: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(exchange)
        def timed(*args: Any, **kwargs: Any) -> Any:
            if self._running is None or self._ready is not None or self._waiting:
                return exchange(*args, **kwargs)
            self._waiting, start = True, self._now()
            try:
                return exchange(*args, **kwargs)
            finally:
                self._waiting = False
                self._waits.append((start, self._now()))

        return timed

    def _now(self) -> Any:
        if self._accelerator is None:
            return perf_counter()
        if self._accelerator.capturing():  # an event in a graph may not be asked after
            return None
        event = self._accelerator.new_event()
        event.record(self._accelerator.current_stream())
        return event

    def _reached(self, moment: Any) -> bool:
        return self._accelerator is None or bool(moment.query())

    def _between(self, start: Any, end: Any) -> float:
        return float(end - start) if self._accelerator is None else float(start.elapsed_time(end)) / 1e3
