"""What the training scripts of these tests share: data, a model, a way to wrap it, and a reference on one process."""

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import TensorDataset

from paceline.balance import BalancedSampler
from paceline.balance.plan import Plan

SIZE, BATCH, WIDTH, CLASSES = 200, 24, 12, 5


class Whole(BalancedSampler):
    """The same batches, all of each on one process: what the reference trains on."""

    _place = staticmethod(lambda: (0, 1))


def folder() -> Path:
    """Where results go."""
    return Path(os.environ["TEST_FOLDER"])


def meet() -> tuple[int, int]:
    """Join the others."""
    torch.set_num_threads(1)
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    timeout = timedelta(seconds=float(os.environ.get("TEST_TIMEOUT_S", "120")))
    dist.init_process_group("gloo", init_method=f"file://{folder()}/meet", rank=rank, world_size=world, timeout=timeout)
    return rank, world


def tell(rank: int, name: str, told: Any) -> None:
    (folder() / f"{name}-{rank}.json").write_text(json.dumps(told))


def run_cases(cases: dict[str, Callable[[int, int], Any]]) -> None:
    """Run the cases that are named, or all, one after another on the same ranks."""
    rank, world = meet()
    for name in sys.argv[1:] or cases:
        os.environ["XDG_STATE_HOME"] = str(folder() / f"state-{name}")
        tell(rank, name, cases[name](rank, world))
    dist.destroy_process_group()


def data(dtype: torch.dtype = torch.float64, size: int = SIZE) -> TensorDataset:
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(size, WIDTH, generator=generator, dtype=torch.float64)
    y = torch.randint(CLASSES, (size,), generator=generator)
    return TensorDataset(x.to(dtype), y)


def model(dtype: torch.dtype = torch.float64) -> nn.Module:
    torch.manual_seed(5)
    layers = nn.Sequential(
        nn.Linear(WIDTH, 24), nn.Tanh(), nn.Linear(24, 24), nn.LayerNorm(24), nn.GELU(), nn.Linear(24, CLASSES)
    )
    return layers.to(dtype)


def weights(of: nn.Module) -> torch.Tensor:
    """All of them in one row, whole where they are sharded."""
    found = []
    with FullyShardedDataParallel.summon_full_params(of):
        for parameter in of.parameters():
            whole = parameter.full_tensor() if hasattr(parameter, "full_tensor") else parameter
            found.append(whole.detach().double().reshape(-1))
        return torch.cat(found)


def apart(one: torch.Tensor, other: torch.Tensor) -> float:
    """Relative difference."""
    return float((one - other).norm() / other.norm())


def uneven(turn: int, world: int, total: int = BATCH) -> tuple[int, ...]:
    """Shares that are never alike, another set each turn."""
    shares = [1 + (turn * 3 + rank * 5) % 7 for rank in range(world)]
    while sum(shares) < total:
        shares[(turn + sum(shares)) % world] += 1
    while sum(shares) > total:
        shares[max(range(world), key=lambda rank: shares[rank])] -= 1
    return tuple(shares)


def switch(sampler: BalancedSampler, turn: int) -> None:
    """Another plan from the next batch on, as every rank comes to it by itself here."""
    handout = sampler.handout
    handout.install(
        Plan(handout.plan.version + 1, handout.highest + 1, uneven(turn, sampler.world, sampler.global_batch))
    )


@contextlib.contextmanager
def without_sync(wrapped: nn.Module) -> Iterator[None]:
    if isinstance(wrapped, (DistributedDataParallel, FullyShardedDataParallel)):
        with wrapped.no_sync():
            yield
    elif hasattr(wrapped, "set_requires_gradient_sync"):
        wrapped.set_requires_gradient_sync(False)
        yield
        wrapped.set_requires_gradient_sync(True)
    else:
        yield
