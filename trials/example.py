"""A training script to try ``paceline trial`` with: data-parallel over gloo on the CPU, from a slow data set.

    torchrun --standalone --nproc-per-node 2 -m trials.example --batch-size 32 --workers 2

Rule of this file: an ordinary script, as a user would write it. It does not know of Paceline, and trains until it is
ended.
"""

import argparse
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

#: What reading a sample takes, as from a disk behind a network.
READ_S = 0.001
SAMPLES, INPUTS, CLASSES = 65_536, 256, 10


class Slow(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Noise that has to be waited for."""

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        time.sleep(READ_S)
        return torch.randn(INPUTS), torch.tensor(index % CLASSES)


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, required=True, help="of each rank")
    parser.add_argument("--workers", type=int, default=0, help="loader processes of each rank")
    options = parser.parse_args()
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    model = DistributedDataParallel(
        nn.Sequential(nn.Linear(INPUTS, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, CLASSES))
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    data = Slow()
    sampler: DistributedSampler[object] = DistributedSampler(data)
    loader = DataLoader(data, batch_size=options.batch_size, sampler=sampler, num_workers=options.workers)
    while True:
        for inputs, labels in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs), labels).backward()  # type: ignore[no-untyped-call]
            optimizer.step()


if __name__ == "__main__":
    main()
