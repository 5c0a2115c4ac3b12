"""The demo's training script: a small convolutional network, data-parallel over gloo, on synthetic images.

    torchrun --standalone --nproc-per-node 4 -m paceline.training.example --fault compute --rank 2

Rule of this file: an ordinary script, as a user would write it. It does not know of Paceline; what makes one rank slow
after the warm-up is in ``example_faults``.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from paceline.training.example_faults import FAULTS, Fault

CLASSES = 10
#: What one rank's forward and backward should take alone on a core; four of them on two cores make steps of 120 ms.
TARGET_S = 0.05
#: Steps between two questions whether the time is up.
ASK_EVERY = 10


class Feed(NamedTuple):
    """Where batches come from, what an epoch's number is told to, and what goes back from a loss."""

    loader: DataLoader[Any]
    sampler: Any
    backward: Callable[[torch.Tensor], Any]


class Images(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Noise with a class-dependent pattern in it, so that there is something to learn."""

    def __init__(self, size: int) -> None:
        generator = torch.Generator().manual_seed(1)
        self.labels = torch.randint(CLASSES, (size,), generator=generator)
        patterns = torch.randn(CLASSES, 3, 32, 32, generator=generator)
        self.images = torch.randn(size, 3, 32, 32, generator=generator) + 0.1 * patterns[self.labels]
        self.read_s = 0.0

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        if self.read_s:
            time.sleep(self.read_s)
        return self.images[index], self.labels[index]


class Network(nn.Module):
    """Two strided convolutions, a stack of residual ones, a linear head."""

    def __init__(self, width: int = 32, depth: int = 4) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, 2, 1), nn.ReLU(), nn.Conv2d(width, width, 3, 2, 1), nn.ReLU())
        self.blocks = nn.ModuleList(nn.Conv2d(width, width, 3, 1, 1) for _ in range(depth))
        self.head = nn.Linear(width * 64, CLASSES)
        self.passes = 1

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Class scores; with ``passes`` > 1 the same work is done that many times and averaged."""
        scores = self._once(images)
        for _ in range(self.passes - 1):
            scores = scores + self._once(images)
        return scores / self.passes

    def _once(self, images: torch.Tensor) -> torch.Tensor:
        hidden = self.stem(images)
        for block in self.blocks:
            hidden = hidden + torch.relu(block(hidden))
        return self.head(hidden.flatten(1))  # type: ignore[no-any-return]


def fitting_batch(network: Network) -> int:
    """The batch size at which a forward and backward take about ``TARGET_S``, the same on every rank."""
    images, labels = torch.randn(16, 3, 32, 32), torch.zeros(16, dtype=torch.long)
    spent = []
    for _ in range(6):
        start = time.thread_time()
        nn.functional.cross_entropy(network(images), labels).backward()  # type: ignore[no-untyped-call]
        spent.append(time.thread_time() - start)
    network.zero_grad()
    typical = torch.tensor(sorted(spent)[1])
    dist.all_reduce(typical, op=dist.ReduceOp.MIN)
    return max(4, min(512, round(16 * TARGET_S / float(typical))))


def time_is_up(deadline: float) -> bool:
    """Whether any rank's time is up: all must stop at the same step."""
    flag = torch.tensor(float(time.monotonic() >= deadline))
    dist.all_reduce(flag, op=dist.ReduceOp.MAX)
    return bool(flag)


def evenly(model: Any, optimizer: Any, data: Images, batch: int) -> Feed:
    """Every rank trains on as many samples."""
    sampler: DistributedSampler[object] = DistributedSampler(data)
    return Feed(DataLoader(data, batch_size=batch, sampler=sampler, drop_last=True), sampler, torch.Tensor.backward)


def train(seconds: float, fault: Fault | None, warm_up: int, feed: Callable[..., Feed]) -> None:
    """Train until the time is up."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    network, data = Network(), Images(4096)
    batch = fitting_batch(network)
    if rank == 0:
        tell(f"{ranks} ranks, batches of {batch}, for {seconds:.0f} s")
    model = DistributedDataParallel(network)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    loader, sampler, backward = feed(model, optimizer, data, batch)
    deadline, step, epoch = time.monotonic() + seconds, 0, 0
    while True:
        sampler.set_epoch(epoch)
        for images, labels in loader:
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            backward(loss)
            optimizer.step()
            if fault is not None and step == warm_up:
                tell(f"step {step}: rank {rank} turns slow ({fault.what})")
                fault.begin(network, data, batch)
            if fault is not None and step >= warm_up:
                fault.each_step()
            step += 1
            if step % ASK_EVERY == 0 and time_is_up(deadline):
                if rank == 0:
                    tell(f"done after {step} steps, loss {float(loss.detach()):.3f}")
                return
        epoch += 1


def tell(text: str) -> None:
    """One line, written in one piece so that ranks do not mix."""
    sys.stderr.write(f"[train] {text}\n")
    sys.stderr.flush()


def main(feed: Callable[..., Feed] = evenly) -> None:
    """One rank of the run, whose batches are made by ``feed``."""
    parser = argparse.ArgumentParser(description="Paceline's demo training run.")
    parser.add_argument("--fault", choices=["none", *FAULTS], default="none")
    parser.add_argument("--rank", type=int, default=2, help="the rank that turns slow")
    parser.add_argument("--seconds", type=float, default=90.0)
    parser.add_argument("--warm-up", type=int, default=40, help="steps before the rank turns slow")
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=120))
    slow = options.fault != "none" and int(os.environ["RANK"]) == options.rank
    fault = FAULTS[options.fault]() if slow else None
    try:
        train(options.seconds, fault, options.warm_up, feed)
    finally:
        if fault is not None:
            fault.end()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
