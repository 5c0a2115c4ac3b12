"""Trains up to 200 steps with a split that changes every 5, in many ways; tells how far weights are from whole ones."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
import trained
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from paceline.balance import BalancedSampler, balance

STEPS = 200


@dataclass(frozen=True)
class Case:
    dtype: torch.dtype = torch.float64
    optimizer: str = "sgd"
    wrap: str = "ddp"
    accumulate: int = 1
    pieces: int = 0
    clip: float = 0.0
    amp: bool = False
    scale: float = 1.0
    tokens: bool = False
    drop_last: bool = True
    steps: int = STEPS
    workers: int = 0
    always_sync: bool = False


def wrapped(case: Case) -> nn.Module:
    made = trained.model(case.dtype)
    if case.wrap == "fsdp2":
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),))
        for layer in made:
            if isinstance(layer, nn.Linear):
                fully_shard(layer, mesh=mesh)
        return fully_shard(made, mesh=mesh)
    if case.wrap == "fsdp1":
        return FullyShardedDataParallel(made, device_id=torch.device("cpu"), use_orig_params=True)
    more = {"ddp": {}, "view": {"gradient_as_bucket_view": True}, "static": {"static_graph": True}}
    more["unused"] = {"find_unused_parameters": True}
    return DistributedDataParallel(made, **more[case.wrap])


def optimizer_of(case: Case, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    if case.optimizer == "adamw":
        return torch.optim.AdamW(parameters, lr=1e-2, weight_decay=0.1)
    return torch.optim.SGD(parameters, lr=5e-2, momentum=0.9, weight_decay=1e-3)


def tokens_of(x: torch.Tensor) -> torch.Tensor:
    """How many tokens each sample has, 0 to 6, by the sample alone."""
    return (x[:, 0].abs() * 3).long().clamp(max=6)


def loss_of(case: Case, network: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", torch.bfloat16, enabled=case.amp):
        out = network(x)
    if not case.tokens:
        return cross_entropy(out.to(case.dtype), y) * case.scale
    count = tokens_of(x).to(case.dtype)
    return (cross_entropy(out, y, reduction="none") * count).sum() / count.sum().clamp(min=1)


def step(case: Case, network: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    if case.scale != 1:
        for parameter in network.parameters():
            if parameter.grad is not None:
                parameter.grad.div_(case.scale)
    if case.clip:
        nn.utils.clip_grad_norm_(network.parameters(), case.clip)
    optimizer.step()
    optimizer.zero_grad()


def balanced(case: Case, world: int) -> torch.Tensor:
    dataset = trained.data(case.dtype)
    sampler = BalancedSampler(dataset, trained.BATCH, seed=1, drop_last=case.drop_last)
    loader = DataLoader(dataset, batch_sampler=sampler, num_workers=case.workers)
    network = wrapped(case)
    optimizer = optimizer_of(case, list(network.parameters()))
    balancer = balance(network, optimizer, sampler, mode="static")
    done, epoch = 0, 0
    while done < case.steps * case.accumulate:
        sampler.set_epoch(epoch)
        for x, y in loader:
            done += 1
            last = done % case.accumulate == 0
            one_pass(case, network, balancer, x, y, last)
            if last:
                step(case, network, optimizer)
            if done % 5 == 0:
                trained.switch(sampler, done)
            if done == case.steps * case.accumulate:
                break
        epoch += 1
    return trained.weights(network)


def one_pass(case: Case, network: nn.Module, balancer: object, x: torch.Tensor, y: torch.Tensor, last: bool) -> None:
    parts = list(zip(x.split(case.pieces or len(x)), y.split(case.pieces or len(x)), strict=True))
    for index, (a, b) in enumerate(parts):
        loss_in = partial(loss_of, case, network, a, b)
        samples = len(a) if case.pieces else None
        tokens = int(tokens_of(a).sum()) if case.tokens else None
        divided = 1 if case.tokens else case.accumulate
        if case.always_sync or (last and index == len(parts) - 1):
            balancer.backward(loss_in() / divided, tokens=tokens, samples=samples)
        else:
            with trained.without_sync(network):
                balancer.backward(loss_in() / divided, tokens=tokens, samples=samples)


def reference(case: Case) -> torch.Tensor:
    """One process, whole global batches, PyTorch alone."""
    dataset = trained.data(case.dtype)
    sampler = trained.Whole(dataset, trained.BATCH, seed=1, drop_last=case.drop_last)
    network = trained.model(case.dtype)
    optimizer = optimizer_of(case, list(network.parameters()))
    done, epoch, held = 0, 0, []
    while done < case.steps:
        sampler.set_epoch(epoch)
        for indices in sampler:
            held.append(dataset[indices])
            if len(held) < case.accumulate:
                continue
            if case.tokens:
                x, y = (torch.cat(parts) for parts in zip(*held, strict=True))
                loss_of(case, network, x, y).backward()
            else:
                for x, y in held:
                    (loss_of(case, network, x, y) / case.accumulate).backward()
            held = []
            step(case, network, optimizer)
            done += 1
            if done == case.steps:
                break
        epoch += 1
    return trained.weights(network)


def far(case: Case, rank: int, world: int) -> float:
    return trained.apart(balanced(case, world), reference(case))


BASE = {
    "sgd": Case(),
    "adamw": Case(optimizer="adamw"),
    "view": Case(wrap="view", clip=0.5, steps=60),
    "static_graph": Case(wrap="static", steps=60),
    "unused": Case(wrap="unused", optimizer="adamw", steps=60),
    "accumulated": Case(accumulate=3),
    "accumulated_view": Case(accumulate=2, wrap="view", optimizer="adamw", steps=60),
    "pieces": Case(pieces=3, steps=60),
    "tokens": Case(tokens=True),
    "tokens_accumulated": Case(tokens=True, accumulate=3, optimizer="adamw", clip=0.5, steps=60),
    "tokens_pieces": Case(tokens=True, pieces=2, steps=60),
    "tokens_always_synced": Case(tokens=True, accumulate=3, always_sync=True, steps=60),
    "always_synced": Case(accumulate=3, always_sync=True, steps=60),
    "short": Case(drop_last=False, optimizer="adamw", steps=60),
    "scaled": Case(scale=1024.0, clip=0.5, steps=60),
    "fsdp2": Case(wrap="fsdp2", optimizer="adamw"),
    "fsdp2_accumulated": Case(wrap="fsdp2", accumulate=2, clip=0.5, steps=60),
    "fsdp2_tokens": Case(wrap="fsdp2", tokens=True, accumulate=2, steps=60),
    "fsdp1": Case(wrap="fsdp1", optimizer="adamw", steps=60),
    "fsdp1_accumulated": Case(wrap="fsdp1", accumulate=2, steps=60),
    "workers": Case(workers=2, steps=60),
}
SINGLE = {f"{name}_32": replace(BASE[name], dtype=torch.float32) for name in ("sgd", "adamw", "accumulated", "fsdp2")}
AMP = {"amp": Case(dtype=torch.float32, amp=True, steps=60)}
CASES: dict[str, Callable[[int, int], float]] = {
    name: partial(far, case) for name, case in {**BASE, **SINGLE, **AMP}.items()
}

if __name__ == "__main__":
    trained.run_cases(CASES)
