"""A training script between hooks, without PyTorch: what it calls of it are functions that do nothing."""

import threading
from collections.abc import Callable
from time import perf_counter_ns
from types import SimpleNamespace
from typing import Any

import pytest

from paceline.training import activation
from paceline.training.alternation import Alternation, Plan
from paceline.training.hooks import autograd, optimizer, scaler
from paceline.training.overhead_windows import OverheadWindows
from paceline.training.probe import Probe
from paceline.training.session import Session


def _run(*_: object, _within: Callable[[], None] | None = None, **__: object) -> None:
    if _within is not None:
        _within()


class Scaler:
    """``torch.amp.GradScaler``: it calls the optimizer unless gradients overflow."""

    def step(self, optimizer: Callable[[], None], *, overflow: bool = False) -> None:
        if not overflow:
            optimizer()


class Script:
    """Runs the hooks as PyTorch would; ``kinds`` is what they wrote down."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        plans: "Callable[[Probe], list[Plan]] | None" = None,
        now: Callable[[], int] = perf_counter_ns,
    ) -> None:
        hooks: dict[str, Callable[..., Any]] = {}
        module = SimpleNamespace(
            register_optimizer_step_pre_hook=lambda hook: hooks.update(before=hook),
            register_optimizer_step_post_hook=lambda hook: hooks.update(after=hook),
            Optimizer=SimpleNamespace(profile_hook_step=lambda _: self.optimize),
        )
        monkeypatch.setattr(optimizer, "import_module", lambda _: module)
        for one in (optimizer, autograd, scaler):
            monkeypatch.setattr(one, "skip_frame", lambda _: None)
        self.tracing, self.modes = False, 0
        self.task = threading.local()  # the backward that a thread runs a part of
        core = SimpleNamespace(
            _current_graph_task_id=lambda: getattr(self.task, "id", -1), _len_torch_dispatch_stack=lambda: self.modes
        )
        torch: Any = SimpleNamespace(
            _C=core,
            amp=SimpleNamespace(GradScaler=Scaler),
            autograd=SimpleNamespace(backward=_run, _engine_run_backward=_run),
            compiler=SimpleNamespace(is_dynamo_compiling=lambda: self.tracing),
        )
        self.probe, self.stands = Probe(), None
        self.probe.graph_task = torch._C._current_graph_task_id
        optimizer.install(self.probe, torch)
        autograd.install(self.probe, torch)
        monkeypatch.setattr(Scaler, "step", Scaler.step)  # wrapped below, and put back after
        scaler.install(self.probe, torch)
        self._hooks, self._torch = hooks, torch
        chosen = plans(self.probe) if plans is not None else [OverheadWindows(self.probe, lambda: None)]
        self.probe.alternation = Alternation(self.probe, chosen, lambda: self.stands, now)
        session = Session(self.probe)
        monkeypatch.setattr(activation._state, "session", session)

    def backward(self, *tensors: object, within: Callable[[], None] | None = None) -> None:
        """``torch.autograd.backward``; ``within`` is what hooks do there, as a part of it."""
        self._torch.autograd.backward(list(tensors), _within=within and self._part(within))

    def grad(self, *outputs: object, create_graph: bool = False, within: Callable[[], None] | None = None) -> None:
        """``torch.autograd.grad``, as far as the engine hears of it."""
        run = self._torch.autograd._engine_run_backward
        run(list(outputs), [], False, create_graph, [], False, accumulate_grad=False, _within=within)

    def _part(self, work: Callable[[], None]) -> Callable[[], None]:
        def part() -> None:
            self.task.id = 1
            try:
                work()
            finally:
                del self.task.id

        return part

    def on_device_thread(self, work: Callable[[], None]) -> Callable[[], None]:
        """``work`` on a thread of autograd's own, as for CUDA, which the caller waits for."""

        def run() -> None:
            thread = threading.Thread(target=self._part(work))
            thread.start()
            thread.join()

        return run

    def optimize(self, within: Callable[[], None] | None = None) -> None:
        """``optimizer.step()``, as PyTorch's wrapper of it runs hooks."""
        self._hooks["before"](None, (), {})
        if within is not None:
            within()
        self._hooks["after"](None, (), {})

    def steps(self, count: int) -> None:
        for _ in range(count):
            self.backward()
            self.optimize()

    def kinds(self) -> list[int]:
        """What has been written down since the last call."""
        found = [mark[1] for mark in self.probe.ring]
        self.probe.ring.clear()
        return found
