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
    """What one rank saw, a value a step: its end, its own computing, its samples, its loss times its samples."""

    ended_s: list[float] = field(default_factory=list)
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


def run(rank: int, task: Task, port: int, group: str, folder: Path, policy: Policy | None = None) -> None:
    """Train, and write what was measured into ``folder``."""
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "XDG_STATE_HOME": str(folder)}
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=task.world)
    quota = Quota(f"{group}-{rank}") if task.speeds else None
    if quota is not None:
        quota.set(task.speeds[0][1][rank])
        quota.join()
    try:
        measured = _train(rank, task, quota, policy)
    finally:
        dist.destroy_process_group()
    (folder / f"{rank}.json").write_bytes(msgspec.json.encode(asdict(measured)))


def _train(rank: int, task: Task, quota: Quota | None, policy: Policy | None) -> Measured:
    kind = KINDS[task.kind]
    torch.manual_seed(task.seed)
    model = DistributedDataParallel(kind.model())
    _compress(model, task.hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=kind.rate, momentum=0.9)
    data = kind.data(DATA)
    loader, backward, follow = _fed(task, data, model, optimizer, policy)
    turns = {step: parts[rank] for step, parts in task.speeds[1:]}
    measured, batches = Measured(), _endless(loader, follow)
    for step in range(task.steps):
        if quota is not None and step in turns:
            quota.set(turns[step])
        _step(task, kind, model, optimizer, batches, backward, measured)
    measured.plans = follow.handout.plan.version if isinstance(follow, BalancedSampler) else 0
    measured.final_loss = _evaluated(kind, model, data)
    return measured


def _step(
    task: Task, kind: Kind, model: nn.Module, optimizer: Any, batches: Any, backward: Any, measured: Measured
) -> None:
    own_s, samples, losses = 0.0, 0, 0.0
    for micro in range(task.accumulate):
        inputs, targets = next(batches)
        last = micro == task.accumulate - 1
        amp: AbstractContextManager[Any] = torch.autocast("cpu", torch.bfloat16) if task.bfloat16 else nullcontext()
        silent: AbstractContextManager[Any] = nullcontext() if last else model.no_sync()  # type: ignore[operator]
        began = time.perf_counter()
        ready: list[float] = []
        with silent:
            with amp:
                loss = kind.loss(model(inputs), targets)
            loss.register_hook(lambda _, ready=ready: _queue(ready))  # type: ignore[no-untyped-call]
            backward(loss / task.accumulate)
        own_s += (ready[0] if ready else time.perf_counter()) - began
        samples += len(inputs)
        losses += float(loss.detach()) * len(inputs)
    optimizer.step()
    optimizer.zero_grad()
    measured.ended_s.append(time.perf_counter())
    measured.own_s.append(own_s)
    measured.samples.append(samples)
    measured.loss.append(losses)


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
