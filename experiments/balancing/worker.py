"""One rank of a real training run that is measured: a small model over gloo, on a part of a processor.

Rule of this file: it trains as a user's script does; what is measured is written down beside it, and told at the end.
"""

import os
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from paceline.balance import BalancedSampler, balance
from paceline.balance.controller import Replan
from paceline.balance.plan import Plan

from .job import Observation, Policy
from .models import KINDS, Kind
from .quota import Quota

DATA = 4096
#: Steps of a model before it is another's turn.
BLOCK = 5


@dataclass(frozen=True)
class Task:
    """A run to be measured.

    ``speeds`` are parts of a processor a rank, from which step on; none: whatever the machine has. ``plans`` are those
    of one who knew them before. ``policy``: ``plain`` is PyTorch alone.
    """

    kind: str
    policy: str
    steps: int
    batch: int
    speeds: tuple[tuple[int, tuple[float, ...]], ...] = ()
    plans: tuple[tuple[int, tuple[int, ...]], ...] = ()
    seed: int = 0
    accumulate: int = 1
    bfloat16: bool = False
    hook: str = ""

    @property
    def world(self) -> int:
        return len(self.speeds[0][1]) if self.speeds else 4


@dataclass
class Measured:
    """What one rank saw, a value a step: how long, its own computing, its samples, its loss times its samples."""

    step_s: list[float] = field(default_factory=list)
    own_s: list[float] = field(default_factory=list)
    samples: list[int] = field(default_factory=list)
    loss: list[float] = field(default_factory=list)
    plans: int = 0
    final_loss: float = 0.0


class Rule:
    """A policy of the simulation in the place of the balancer's own controller."""

    def __init__(self, policy: Policy, controller: Any) -> None:
        self._policy, self.config = policy, controller.config
        self.version, self.shares, self._step = controller.version, controller.shares, 0
        self._plans = {self.version: self.shares}

    def observe(self, version: int, times_s: Sequence[float | None]) -> Replan | None:
        if any(time_s is None for time_s in times_s) or version not in self._plans:
            return None
        import numpy as np

        seen = Observation(self._step, version, self._plans[version], np.array(times_s, dtype=float))
        self._step += 1
        shares = self._policy.observe(seen)
        if shares is None or tuple(shares) == self.shares:
            return None
        return Replan(tuple(int(share) for share in shares), "the policy says so", 0.0, 0.0)

    def adopt(self, plan: Plan) -> None:
        self.version, self.shares = plan.version, plan.shares
        self._plans[plan.version] = plan.shares
        self._policy.adopted(plan.version, plan.first_batch, plan.shares)

    def cap(self, rank: int, most: int) -> None:
        return None


def run(
    rank: int, tasks: Sequence[Task], port: int, group: str, folder: Path, policies: Sequence[Policy | None]
) -> None:
    """Train a model for each of ``tasks``, and write what was measured into ``folder``.

    They take turns, ``BLOCK`` steps each, there and back: a machine that becomes slower does so for all of them. World,
    steps and speeds are those of the first.
    """
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "XDG_STATE_HOME": str(folder)}
    torch.set_num_threads(1)
    first = tasks[0]
    dist.init_process_group("gloo", rank=rank, world_size=first.world)
    quota = Quota(f"{group}-{rank}") if first.speeds else None
    if quota is not None:
        quota.set(first.speeds[0][1][rank])
        quota.join()
    try:
        trainings = [_Training(task, policy) for task, policy in zip(tasks, policies, strict=True)]
        turns = {step: parts[rank] for step, parts in first.speeds[1:]}
        for begin in range(0, first.steps, BLOCK):
            if quota is not None and begin in turns:
                quota.set(turns[begin])
            for training in trainings[:: -1 if begin // BLOCK % 2 else 1]:
                training.advance(min(BLOCK, first.steps - begin))
        measured = [training.end() for training in trainings]
    finally:
        dist.destroy_process_group()
    (folder / f"{rank}.json").write_bytes(msgspec.json.encode([asdict(one) for one in measured]))


class _Training:
    """A model with what feeds it; what was measured of it is in ``measured``."""

    def __init__(self, task: Task, policy: Policy | None = None) -> None:
        self._task, self._kind = task, KINDS[task.kind]
        torch.manual_seed(task.seed)
        self.model = DistributedDataParallel(self._kind.model())
        _compress(self.model, task.hook)
        self._optimizer = torch.optim.SGD(self.model.parameters(), lr=self._kind.rate, momentum=0.9)
        self._data = self._kind.data(DATA)
        loader, self._backward, self._follow = _fed(task, self._data, self.model, self._optimizer, policy)
        self._batches = _endless(loader, self._follow)
        self.measured = Measured()

    def advance(self, steps: int) -> None:
        began = time.perf_counter()
        for _ in range(steps):
            self._step()
            ended = time.perf_counter()
            self.measured.step_s.append(ended - began)
            began = ended

    def _step(self) -> None:
        task, own_s, samples, losses = self._task, 0.0, 0, 0.0
        for micro in range(task.accumulate):
            inputs, targets = next(self._batches)
            last = micro == task.accumulate - 1
            amp: AbstractContextManager[Any] = torch.autocast("cpu", torch.bfloat16) if task.bfloat16 else nullcontext()
            silent: AbstractContextManager[Any] = nullcontext() if last else self.model.no_sync()
            began = time.perf_counter()
            ready: list[float] = []
            with silent:
                with amp:
                    loss = self._kind.loss(self.model(inputs), targets)
                loss.register_hook(lambda _, ready=ready: _queue(ready))  # type: ignore[no-untyped-call]
                self._backward(loss / task.accumulate)
            own_s += (ready[0] if ready else time.perf_counter()) - began
            samples += len(inputs)
            losses += float(loss.detach()) * len(inputs)
        self._optimizer.step()
        self._optimizer.zero_grad()
        measured = self.measured
        measured.own_s.append(own_s)
        measured.samples.append(samples)
        measured.loss.append(losses)

    def end(self) -> Measured:
        follow, measured = self._follow, self.measured
        measured.plans = follow.handout.plan.version if isinstance(follow, BalancedSampler) else 0
        measured.final_loss = _evaluated(self._kind, self.model, self._data)
        return measured


def _queue(ready: list[float]) -> None:
    torch.autograd.Variable._execution_engine.queue_callback(lambda: ready.append(time.perf_counter()))


def _fed(task: Task, data: Any, model: nn.Module, optimizer: Any, policy: Policy | None) -> tuple[Any, Any, Any]:
    """The loader, what goes back from a loss, and what an epoch is told to."""
    if task.policy == "plain":
        plain: DistributedSampler[Any] = DistributedSampler(data, seed=task.seed, drop_last=True)
        each = task.batch // task.world
        return DataLoader(data, each, sampler=plain, drop_last=True), Tensor.backward, plain
    weights = list(task.speeds[0][1]) if task.policy == "static" else None
    sampler = BalancedSampler(data, task.batch, seed=task.seed, weights=weights)
    mode = "static" if task.policy in ("static", "oracle") else "adaptive"
    balancer = balance(model, optimizer, sampler, mode=mode)
    for version, (step, shares) in enumerate(task.plans, 1):
        sampler.handout.install(Plan(version, step, shares))
    if policy is not None and balancer._switching is not None:
        balancer._switching.controller = Rule(policy, balancer._switching.controller)
    return DataLoader(data, batch_sampler=sampler), balancer.backward, sampler


def _endless(loader: Any, follow: Any) -> Any:
    epoch = 0
    while True:
        follow.set_epoch(epoch)
        yield from loader
        epoch += 1


def _compress(model: DistributedDataParallel, hook: str) -> None:
    if hook == "powersgd":
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=10)
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    elif hook == "fp16":
        model.register_comm_hook(None, default_hooks.fp16_compress_hook)


@torch.no_grad()
def _evaluated(kind: Kind, model: DistributedDataParallel, data: Any) -> float:
    """The loss over the first 512 samples, by the last weights."""
    return float(kind.loss(model.module(data.inputs[:512]), data.targets[:512]))
