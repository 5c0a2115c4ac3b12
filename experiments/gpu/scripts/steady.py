"""DDP steps of about ``--step-ms``, all alike, for as long as it takes to compare them with and without the probe."""

import time
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from experiments.gpu.scripts.truth import Truth, blocks, join, options

WIDTH, DEPTH = 256, 24


def main() -> None:
    chosen = options(steps=1300, step_ms=20.0)
    join(chosen.device)
    model = DistributedDataParallel(blocks(WIDTH, DEPTH, chosen.device))
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    truth = Truth(chosen.device)
    batch = torch.randn(32, WIDTH, device=chosen.device)
    aside = blocks(WIDTH, 1, chosen.device)
    passes = fitting(lambda: work(aside, batch, 10), chosen.step_ms / 1e3) * 10
    for _ in range(chosen.steps):
        work(aside, batch, passes)
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        truth.step()
    truth.save(passes=passes)
    dist.destroy_process_group()


def work(layer: Any, batch: torch.Tensor, passes: int) -> None:
    """What fills a step beside the model."""
    with torch.no_grad():
        for _ in range(passes):
            layer(batch)


def fitting(action: Any, wanted_s: float) -> int:
    """How many times ``action`` fits into ``wanted_s``, by the host's clock."""
    spent_s = []
    for _ in range(10):
        start = time.perf_counter()
        action()
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
        spent_s.append(time.perf_counter() - start)
    return max(1, round(wanted_s / min(spent_s)))


if __name__ == "__main__":
    main()
