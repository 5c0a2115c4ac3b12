"""Ray Train: four workers that Ray starts, a training function each, reported metrics and checkpoints.

usage: ray_train.py FAULT RANK FOLDER      FAULT: none, compute or input, from step 25 of 75
"""

import os
import sys
import tempfile
import time

import ray
import ray.train
import torch
from ray.train import Checkpoint, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_data_loader, prepare_model
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS, BEGIN = 75, 25


class Samples(Dataset):
    def __init__(self):
        self.wait_s = 0.0

    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        time.sleep(self.wait_s)
        return torch.randn(256, generator=torch.Generator().manual_seed(index)), index % 10


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        blocks = [nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256)) for _ in range(4)]
        self.body = nn.Sequential(*blocks)
        self.head, self.passes = nn.Linear(256, 10), 1

    def forward(self, x):
        return self.head(sum(self.body(x) for _ in range(self.passes)))


def train(config):
    rank = ray.train.get_context().get_world_rank()
    network, samples = Network(), Samples()
    model = prepare_model(network)
    batches = iter(prepare_data_loader(DataLoader(samples, 128, shuffle=True)))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    for step in range(1, STEPS + 1):
        x, y = next(batches)
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step == BEGIN and rank == config["slow"]:
            if config["fault"] == "compute":
                network.passes = 6
            elif config["fault"] == "input":
                samples.wait_s = 0.0015
        if step % 25 == 0:
            with tempfile.TemporaryDirectory() as folder:
                checkpoint = None
                if rank == 0:
                    torch.save(model.state_dict(), os.path.join(folder, "model.pt"))
                    checkpoint = Checkpoint.from_directory(folder)
                ray.train.report({"loss": loss.item(), "step": step}, checkpoint=checkpoint)


if __name__ == "__main__":
    fault, slow, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    # On a cluster, whose address Ray's own variable has, or on one of its own here with more cores than there are.
    own = {} if "RAY_ADDRESS" in os.environ else {"num_cpus": 5, "include_dashboard": False}
    ray.init(logging_level="warning", **own)
    trainer = TorchTrainer(
        train,
        train_loop_config={"fault": fault, "slow": slow},
        scaling_config=ScalingConfig(num_workers=4),
        run_config=RunConfig(name="job", storage_path=os.path.abspath(folder)),
    )
    print(trainer.fit().metrics)
