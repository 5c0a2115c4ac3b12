"""Ranks that decide by themselves: one is slow, one runs out of memory; tells plans, and how far weights are off."""

import warnings
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import torch
import trained
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from paceline.balance import BalancedSampler, balance

BATCH = 64
OUT_OF_MEMORY = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")


class Slow(nn.Module):
    """A layer that takes this rank ``times`` as long a sample."""

    def __init__(self) -> None:
        super().__init__()
        self.times = 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            for _ in range(60 * self.times):
                torch.tanh(x @ x.T @ x)
        return x


class Failing(nn.Module):
    """A layer without memory where it is told so, on the way there or back."""

    def __init__(self) -> None:
        super().__init__()
        self.forth, self.back = False, False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.forth:
            raise OUT_OF_MEMORY
        if self.back and x.requires_grad:
            x.register_hook(self.fail)
        return x

    @staticmethod
    def fail(_: torch.Tensor) -> None:
        raise OUT_OF_MEMORY


def network(middle: nn.Module, *, buffers: bool = False) -> nn.Module:
    layers = list(trained.model())
    made = nn.Sequential(*layers[:2], middle, *layers[2:])
    if buffers:
        made.register_buffer("steps", torch.zeros(1))
    return made


def batches(sampler: BalancedSampler, workers: int = 0) -> Iterator[Any]:
    """Batch after batch, epoch after epoch."""
    loader = DataLoader(
        trained.data(size=640), batch_sampler=sampler, num_workers=workers, persistent_workers=workers > 0
    )
    epoch = 0
    while True:
        sampler.set_epoch(epoch)
        yield from loader
        epoch += 1


def optimizer_of(made: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(made.parameters(), lr=5e-2, momentum=0.9, weight_decay=1e-3)


@cache
def reference(steps: int, accumulate: int = 1, without: tuple[int, ...] = ()) -> torch.Tensor:
    """One process, whole batches; the steps in ``without`` are left out. Most cases have one in common."""
    dataset, made = trained.data(size=640), trained.model()
    sampler = trained.Whole(dataset, BATCH)
    optimizer, drawn = optimizer_of(made), batches(sampler)
    for step in range(steps):
        for _ in range(accumulate):
            x, y = next(drawn)
            (cross_entropy(made(x), y) / accumulate).backward()
        if step not in without:
            optimizer.step()
        optimizer.zero_grad()
    return trained.weights(made)


def sharded(made: nn.Module, world: int) -> nn.Module:
    mesh = init_device_mesh("cpu", (world,))
    for layer in made:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    return fully_shard(made, mesh=mesh)


def slow(wrap: str, workers: int, rank: int, world: int) -> dict[str, Any]:
    """Rank 1 is much slower: until it has less than half of its share, and some steps more."""
    middle = Slow()
    middle.times = 12 if rank == 1 else 1
    made = network(middle)
    model = DistributedDataParallel(made) if wrap == "ddp" else sharded(made, world)
    sampler = BalancedSampler(trained.data(size=640), BATCH)
    optimizer = optimizer_of(model)
    balancer = balance(model, optimizer, sampler)
    sizes, after = [], 0
    for x, y in batches(sampler, workers):
        balancer.backward(cross_entropy(model(x), y))
        optimizer.step()
        optimizer.zero_grad()
        sizes.append(len(x))
        after += sampler.handout.plan_at(sampler.handout.next).shares[1] < BATCH / world / 2
        if after == 20:
            break
    far = trained.apart(trained.weights(model), reference(len(sizes)))
    return {"sizes": sizes, "far": far, "plans": balancer._switching.controller.version}


def failing(how: str, rank: int, world: int) -> dict[str, Any]:
    """Rank 1 has no memory in steps 3 and 4; the reference skips both."""
    middle, accumulate = Failing(), 3 if "accumulated" in how else 1
    where = 0 if accumulate == 1 or "first" in how else 2 if "last" in how else 1
    model = DistributedDataParallel(
        network(middle, buffers=True),
        gradient_as_bucket_view="view" in how,
        find_unused_parameters="unused" in how,
        static_graph="static" in how,
    )
    sampler = BalancedSampler(trained.data(size=640), BATCH)
    optimizer, drawn = optimizer_of(model), batches(sampler, 2)
    balancer = balance(model, optimizer, sampler)
    balancer._ready.read = list  # no times: only memory changes shares here
    if "seldom" in how:
        balancer._switching._cadence.every = 3
    sizes, shares = [], []
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for step in range(30):
            for index in range(accumulate):
                x, y = next(drawn)
                sizes.append(len(x))
                fails = rank == 1 and step in (3, 4) and index == where
                middle.forth, middle.back = fails and "forward" in how, fails and "backward" in how
                last = index == accumulate - 1
                one_pass(balancer, model, x, y, accumulate, last=last, early=fails and "early" in how)
            optimizer.step()
            optimizer.zero_grad(set_to_none="kept" not in how)
            shares.append(sampler.handout.plan.shares)
    mine = [str(each.message) for each in told if "ran out of memory" in str(each.message)]
    far = trained.apart(trained.weights(model), reference(30, accumulate, (3, 4)))
    ends = [float(each).hex() for each in trained.weights(model)]
    return {"sizes": sizes, "shares": shares, "told": mine, "far": far, "ends": ends}


def one_pass(balancer: Any, model: Any, x: Any, y: Any, accumulate: int, *, last: bool, early: bool) -> None:
    with balancer.guard():
        if early:
            raise OUT_OF_MEMORY
        if last:
            balancer.backward(cross_entropy(model(x), y) / accumulate)
        else:
            with model.no_sync():
                balancer.backward(cross_entropy(model(x), y) / accumulate)


HOW = (
    "forward",
    "backward",
    "early",
    "backward_view",
    "backward_kept",
    "forward_unused",
    "backward_unused",
    "forward_static",
    "backward_static",
    "backward_view_accumulated_last",
    "forward_seldom",
    "backward_seldom",
    "early_seldom",
    *(
        f"{how}_accumulated_{where}"
        for how in ("forward", "backward", "early")
        for where in ("first", "middle", "last")
    ),
)
CASES: dict[str, Callable[[int, int], Any]] = {
    "slow": partial(slow, "ddp", 0),
    "slow_workers": partial(slow, "ddp", 2),
    "slow_sharded": partial(slow, "fsdp2", 0),
    **{how: partial(failing, how) for how in HOW},
}

if __name__ == "__main__":
    trained.run_cases(CASES)
