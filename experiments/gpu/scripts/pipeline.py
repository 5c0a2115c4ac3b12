"""1F1B in two stages, the first of which has three times the layers: the second waits for it."""

from itertools import pairwise

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

from experiments.gpu.scripts.truth import Truth, blocks, join, options

MICROBATCHES = 4
#: Width of a layer and rows of a batch: so that a device has more to do than its host.
SIZES = {"cuda": (4096, 16_384), "cpu": (512, 256)}
LAYERS = (9, 3)


def main() -> None:
    chosen = options(backend="", steps=30)
    join(chosen.device, chosen.backend)
    rank = dist.get_rank()
    device, truth = torch.device(chosen.device), Truth(chosen.device)
    width, rows = SIZES[chosen.device]
    stage = blocks(width, LAYERS[rank], chosen.device)
    optimizer = torch.optim.SGD(stage.parameters(), 1e-3)
    pipeline = Schedule1F1B(
        PipelineStage(stage, rank, len(LAYERS), device), MICROBATCHES, loss_fn=torch.nn.functional.mse_loss
    )
    batch = torch.randn(rows, width, device=device)
    alone_s = alone(stage, batch[: rows // MICROBATCHES], Truth(chosen.device))
    for _ in range(chosen.steps):
        if rank == 0:
            pipeline.step(batch)
        else:
            pipeline.step(target=batch)
        optimizer.step()
        optimizer.zero_grad()
        truth.step()
    truth.save(alone_s=alone_s)
    dist.destroy_process_group()


def alone(stage: torch.nn.Module, batch: torch.Tensor, truth: Truth) -> float:
    """What the stage's work of a step takes where nobody is waited for: the fastest of five."""
    part = batch.clone().requires_grad_()
    moments = [truth.now()]
    for _ in range(5):
        for _ in range(MICROBATCHES):
            stage(part).square().mean().backward()
        moments.append(truth.now())
    if truth.on_gpu:
        torch.cuda.synchronize()
    stage.zero_grad()
    return min(truth.between_s(a, b) for a, b in pairwise(moments))


if __name__ == "__main__":
    main()
