"""Accumulation, checkpoints, evaluation, pinned batches and a scaler under DDP: each phase timed by the script, too.

Every kind of step comes ``--steps`` times in a row, in the order of ``KINDS``.
"""

import tempfile
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

from experiments.gpu.scripts.truth import Truth, blocks, join, options

KINDS = ("plain", "accumulation", "evaluation", "checkpoint", "scaler")
#: Width of a layer, and how often a batch is repeated: so that a device has more to do than its host.
SIZES = {"cuda": (2048, 32), "cpu": (512, 1)}
ROWS = 256


def batches(device: str, width: int) -> Iterator[Any]:
    """Batches without end, pinned where they go to a GPU."""
    data = TensorDataset(torch.randn(16 * ROWS, width))
    while True:
        yield from iter(DataLoader(data, batch_size=ROWS, pin_memory=device == "cuda", drop_last=True))


def main() -> None:
    chosen = options(steps=15)
    join(chosen.device)
    width, repeated = SIZES[chosen.device]
    model = DistributedDataParallel(blocks(width, 8, chosen.device))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    scaler = torch.amp.GradScaler(chosen.device)
    loader, truth = batches(chosen.device, width), Truth(chosen.device)

    def forward_and_backward(scale: Any = lambda loss: loss) -> None:
        with truth.span("data"):
            (batch,) = next(loader)
        batch = batch.to(chosen.device, non_blocking=True).repeat(repeated, 1)
        with truth.span("forward"):
            output = model(batch)
        loss = scale(output.square().mean())
        with truth.span("backward"):
            loss.backward()

    for number in range(chosen.steps * len(KINDS)):
        kind = KINDS[number // chosen.steps]
        if kind == "accumulation":
            for _ in range(3):
                with model.no_sync():
                    forward_and_backward()
        forward_and_backward(scaler.scale if kind == "scaler" else lambda loss: loss)
        if kind == "evaluation":
            model.eval()
            held_out = torch.randn(ROWS * repeated, width, device=chosen.device)
            with torch.no_grad(), truth.span("evaluation"):
                model(held_out)
            model.train()
        if kind == "checkpoint":
            state = model.state_dict()
            with tempfile.TemporaryFile() as file, truth.span("checkpoint"):
                torch.save(state, file)
        if kind == "scaler":
            scaler.unscale_(optimizer)
        with truth.span("optimizer"):
            if kind == "scaler":
                scaler.step(optimizer)
            else:
                optimizer.step()
        if kind == "scaler":
            scaler.update()
        optimizer.zero_grad()
        truth.step()
    truth.save(kinds=KINDS)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
