"""DDP with two or more ranks, one of which sleeps in its forward pass."""

import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from experiments.gpu.scripts.truth import Truth, blocks, join, options

WIDTH = 256


class Sleeping(nn.Module):
    """A model that sleeps for ``sleep_s`` before it computes."""

    def __init__(self, inner: nn.Module, sleep_s: float) -> None:
        super().__init__()
        self.inner, self.sleep_s = inner, sleep_s

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        time.sleep(self.sleep_s)
        return self.inner(batch)


def main() -> None:
    chosen = options(backend="", steps=40, sleep_ms=0.0, rank=1, begin_after_s=0.0)
    join(chosen.device, chosen.backend)
    sleep_s = chosen.sleep_ms / 1e3 if dist.get_rank() == chosen.rank else 0.0
    model = DistributedDataParallel(Sleeping(blocks(WIDTH, 6, chosen.device), sleep_s))
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    truth = Truth(chosen.device)
    time.sleep(chosen.begin_after_s)
    for _ in range(chosen.steps):
        batch = torch.randn(64, WIDTH, device=chosen.device)
        with truth.span("forward"):
            output = model(batch)
        with truth.span("backward"):
            output.square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        truth.step()
    truth.save(backend=dist.get_backend())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
