"""Steps, then twenty loaders with two forked workers each: how many of the workers ended by a signal."""

from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset

from experiments.gpu.scripts.truth import Truth, blocks, options

WIDTH = 256


def main() -> None:
    chosen = options(loaders=20)
    model = blocks(WIDTH, 2, chosen.device)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    truth, data = Truth(chosen.device), TensorDataset(torch.randn(32, WIDTH))
    killed = 0
    for _ in range(chosen.loaders):
        for _ in range(5):
            model(torch.randn(64, WIDTH, device=chosen.device)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            truth.step()
        batches: Any = iter(DataLoader(data, batch_size=8, num_workers=2))
        workers = batches._workers
        for (batch,) in batches:
            model(batch.to(chosen.device))
        del batches
        for worker in workers:
            worker.join()
        killed += sum(worker.exitcode != 0 for worker in workers)
    truth.save(killed=killed)


if __name__ == "__main__":
    main()
