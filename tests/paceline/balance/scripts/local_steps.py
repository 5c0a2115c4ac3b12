"""Trains with mode="bounded_staleness", and by hand what that should be; tells how far both are apart."""

import contextlib
import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
import trained
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from paceline.balance import BalancedSampler, balance


@dataclass(frozen=True)
class Case:
    staleness: int = 1
    warm_up: int = 0
    optimizer: str = "sgd"
    weights: tuple[float, ...] | None = None
    accumulate: int = 1
    pieces: int = 0
    norm: bool = False
    leaves_out: tuple[int, int] = (-1, -1)
    dtype: torch.dtype = torch.float64
    view: bool = False
    static: bool = False
    compiled: bool = False
    stops_after: int = 0
    steps: int = 23
    drop_last: bool = True


def network(case: Case) -> nn.Module:
    made = trained.model(torch.float64)
    layers = [*made, nn.BatchNorm1d(trained.CLASSES, dtype=torch.float64)] if case.norm else [*made]
    return nn.Sequential(*layers).to(case.dtype)


def optimizer_of(case: Case, model: nn.Module) -> torch.optim.Optimizer:
    if case.optimizer == "adamw":
        return torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1)
    return torch.optim.SGD(model.parameters(), lr=5e-2, momentum=0.9)


def state(model: nn.Module) -> torch.Tensor:
    return torch.cat([one.detach().double().reshape(-1) for one in model.state_dict().values()])


def batches(case: Case, sampler: BalancedSampler, done: int = 0):
    """(x, y, whether a step ends with it), for as many steps as the case has; ``done`` batches were before."""
    epoch = sampler.epoch
    while True:
        sampler.set_epoch(epoch)
        for x, y in DataLoader(trained.data(case.dtype), batch_sampler=sampler):
            done += 1
            yield x, y, done % case.accumulate == 0
            if done == case.steps * case.accumulate:
                return
        epoch += 1


class Run:
    """A script's parts: model, optimizer, sampler and balancer, from a checkpoint where there is one."""

    def __init__(self, case: Case, mode: str, states: Any = None) -> None:
        self.sampler = BalancedSampler(
            trained.data(case.dtype), trained.BATCH, seed=1, weights=case.weights, drop_last=case.drop_last
        )
        inner = network(case)
        self.model = DistributedDataParallel(inner, gradient_as_bucket_view=case.view, static_graph=case.static)
        self.called = torch.compile(self.model, backend="eager") if case.compiled else self.model
        self.optimizer = optimizer_of(case, self.model)
        if states is not None:
            for part, kept in zip((self.model, self.optimizer, self.sampler), states, strict=True):
                part.load_state_dict(kept)
        warm_up = case.warm_up if states is None else 0
        told = {"staleness": case.staleness, "warm_up": warm_up} if mode == "bounded_staleness" else {}
        self.balancer = balance(self.called, self.optimizer, self.sampler, mode=mode, **told)

    def states(self) -> Any:
        parts = (self.model, self.optimizer, self.sampler)
        return [copy.deepcopy(part.state_dict()) for part in parts]


def trained_by_ranks(case: Case, rank: int, mode: str = "bounded_staleness") -> torch.Tensor:
    run, steps = Run(case, mode), 0
    if case.stops_after:
        for _, batch in zip(range(case.stops_after), batches(case, run.sampler), strict=False):
            train(case, run, *batch, leaves_out=False)
        run.balancer.synchronize()
        run, steps = Run(case, mode, run.states()), case.stops_after
    for x, y, last in batches(case, run.sampler, steps):
        train(case, run, x, y, last, leaves_out=case.leaves_out == (rank, steps))
        steps += last
    run.balancer.synchronize()
    return state(run.model.module)


def train(case: Case, run: Run, x: torch.Tensor, y: torch.Tensor, last: bool, *, leaves_out: bool) -> None:
    parts = list(zip(x.split(case.pieces or len(x)), y.split(case.pieces or len(x)), strict=True))
    for index, (a, b) in enumerate(parts):
        with contextlib.nullcontext() if last and index == len(parts) - 1 else run.model.no_sync():
            loss = cross_entropy(run.called(a), b) / case.accumulate
            run.balancer.backward(loss, samples=len(a) if case.pieces else None)
    if last:
        if not leaves_out:
            run.optimizer.step()
        run.optimizer.zero_grad()


def by_hand(case: Case, world: int) -> torch.Tensor:
    """Ranks after one another: their own steps, and the weighted mean of what they came to."""
    samplers = [
        type("As", (BalancedSampler,), {"_place": staticmethod(lambda rank=rank: (rank, world))})(
            trained.data(case.dtype), trained.BATCH, seed=1, weights=case.weights, drop_last=case.drop_last
        )
        for rank in range(world)
    ]
    models = [copy.deepcopy(network(case)) for _ in range(world)]
    optimizers = [optimizer_of(case, model) for model in models]
    steps, own, samples = 0, 0, [0] * world
    for of_ranks in zip(*(batches(case, sampler) for sampler in samplers), strict=True):
        for rank, (x, y, _) in enumerate(of_ranks):
            (cross_entropy(models[rank](x), y) / case.accumulate).backward()
            samples[rank] += len(x)
        if not of_ranks[0][2]:
            continue
        if steps < case.warm_up:
            mean_gradients(models, samples)
        for rank, optimizer in enumerate(optimizers):
            if case.leaves_out != (rank, steps):
                optimizer.step()
            optimizer.zero_grad()
        steps += 1
        own += steps > case.warm_up
        if steps <= case.warm_up:
            samples = [0] * world
        elif own > case.staleness:
            mean_weights(models, samples)
            own, samples = 0, [0] * world
    if own:
        mean_weights(models, samples)
    return state(models[0])


def mean_gradients(models: list[nn.Module], samples: list[int]) -> None:
    for of_ranks in zip(*(model.parameters() for model in models), strict=True):
        mean = sum(one.grad * part for one, part in zip(of_ranks, samples, strict=True)) / sum(samples)
        for one in of_ranks:
            one.grad = mean.clone()


@torch.no_grad()
def mean_weights(models: list[nn.Module], samples: list[int]) -> None:
    for of_ranks in zip(*(model.state_dict().values() for model in models), strict=True):
        if of_ranks[0].is_floating_point():
            mean = sum(one * part for one, part in zip(of_ranks, samples, strict=True)) / sum(samples)
            for one in of_ranks:
                one.copy_(mean)


def compared(case: Case) -> Callable[[int, int], float]:
    def run(rank: int, world: int) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return trained.apart(trained_by_ranks(case, rank), by_hand(case, world))

    return run


def synchronous(rank: int, world: int) -> float:
    """With nothing stale it is what it is without this mode, to the last bit."""
    case = Case(staleness=0)
    return float((trained_by_ranks(case, rank) - trained_by_ranks(case, rank, "uniform")).abs().max())


def agreed(rank: int, world: int) -> list[float]:
    """Before ``synchronize`` weights are apart, after it they are the same; again it does nothing."""
    dataset = trained.data()
    sampler = BalancedSampler(dataset, trained.BATCH)
    model = DistributedDataParallel(network(Case()))
    optimizer = optimizer_of(Case(), model)
    balancer = balance(model, optimizer, sampler, mode="bounded_staleness", staleness=100)
    for x, y in DataLoader(dataset, batch_sampler=sampler):
        balancer.backward(cross_entropy(model(x), y))
        optimizer.step()
        optimizer.zero_grad()
    with torch.no_grad():
        model.eval()(x)  # Whoever evaluates before it does so with weights of its own, and meets nobody.
    return [spread(model, balancer, times) for times in (0, 1, 2)]


def spread(model: nn.Module, balancer, times: int) -> float:
    if times:
        balancer.synchronize()
    own = state(model)
    low, high = own.clone(), own.clone()
    dist.all_reduce(low, op=dist.ReduceOp.MIN)
    dist.all_reduce(high, op=dist.ReduceOp.MAX)
    return float((high - low).max())


def kept(rank: int, world: int) -> list[bool]:
    """What does not train, or is each rank's own, stays as it is to the last bit; other buffers are the first rank's.

    A mask with infinities is among them, and a rank that has no sample of any batch.
    """
    inner = network(Case(dtype=torch.float32))
    inner[0].weight.requires_grad_(False)
    inner.register_buffer("mask", torch.full((3,), float("-inf")))
    inner.register_buffer("seen", torch.tensor(rank + 1))
    inner[0].register_parameter("own", nn.Parameter(torch.tensor([float(rank)])))
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(inner, ["0.own"])
    before = inner[0].weight.clone()
    model = DistributedDataParallel(inner)
    sampler = BalancedSampler(trained.data(torch.float32), 6, drop_last=False)  # the last has two
    optimizer = torch.optim.SGD([one for one in model.parameters() if one.requires_grad], lr=5e-2)
    balancer = balance(model, optimizer, sampler, mode="bounded_staleness", staleness=2)
    inner.seen.fill_(rank + 7)
    for x, y in DataLoader(trained.data(torch.float32), batch_sampler=sampler):
        balancer.backward(cross_entropy(model(x), y))
        optimizer.step()
        optimizer.zero_grad()
    balancer.synchronize()
    return [
        torch.equal(inner[0].weight, before),
        bool((inner.mask == float("-inf")).all()),
        int(inner.seen) == 7,
        float(inner[0].own.detach()) == rank,
        bool(torch.isfinite(inner[2].weight).all()),
    ]


def refused(rank: int, world: int) -> list[str]:
    dataset = trained.data()
    told = []
    for make, more in (
        (lambda: DistributedDataParallel(network(Case()), find_unused_parameters=True), {}),
        (lambda: hooked(DistributedDataParallel(network(Case()))), {}),
        (lambda: sharded(world), {}),
        (lambda: DistributedDataParallel(network(Case())), {"staleness": 1 + rank}),
    ):
        model, sampler = make(), BalancedSampler(dataset, trained.BATCH)
        try:
            balance(model, optimizer_of(Case(), model), sampler, mode="bounded_staleness", **more)
        except ValueError as error:
            told.append(str(error))
        else:
            told.append("taken")
    return told


def hooked(model: DistributedDataParallel) -> DistributedDataParallel:
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

    model.register_comm_hook(None, allreduce_hook)
    return model


def sharded(world: int) -> nn.Module:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    return fully_shard(network(Case()), mesh=init_device_mesh("cpu", (world,)))


CASES = {
    "sgd": compared(Case()),
    "adamw": compared(Case(staleness=3, optimizer="adamw")),
    "uneven": compared(Case(staleness=2, weights=(1.0, 2.0, 3.0))),
    "short": compared(Case(staleness=4, drop_last=False)),
    "accumulated": compared(Case(staleness=2, accumulate=3, steps=9)),
    "pieces": compared(Case(staleness=1, pieces=2, weights=(1.0, 2.0, 3.0))),
    "warmed_up": compared(Case(staleness=2, warm_up=7, optimizer="adamw")),
    "batch_norm": compared(Case(staleness=1, norm=True)),
    "left_out": compared(Case(staleness=1, leaves_out=(1, 5))),
    "view": compared(Case(staleness=1, view=True)),
    "single": compared(Case(staleness=1, dtype=torch.float32)),
    "warmed_up_short": compared(Case(staleness=1, warm_up=7, drop_last=False, weights=(1.0, 2.0, 3.0))),
    "static": compared(Case(staleness=1, static=True)),
    "compiled": compared(Case(staleness=1, compiled=True)),
    "resumed": compared(Case(staleness=2, warm_up=3, optimizer="adamw", stops_after=12)),
    "kept": kept,
    "synchronous": synchronous,
    "agreed": agreed,
    "refused": refused,
}
if __name__ == "__main__":
    trained.run_cases(CASES)
