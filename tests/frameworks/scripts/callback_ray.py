"""Ray Train with what Paceline measured beside its own metrics: callback_ray.py FOLDER."""

import json
import os
import sys
import tempfile
import time

import ray
import ray.train
import torch
from ray.train import Checkpoint, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_model
from torch import nn

from paceline.integrations import ray_train


def train(config):
    ray_train.start()
    model = prepare_model(nn.Linear(256, 10))
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    for step in range(1, 81):
        model(torch.randn(16, 256)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        time.sleep(0.1)
        if step % 40 == 0:
            with tempfile.TemporaryDirectory() as folder:  # Ray keeps the metrics of reports with a checkpoint.
                ray_train.report({"step": step}, checkpoint=Checkpoint.from_directory(folder))
    ray_train.stop()


if __name__ == "__main__":
    ray.init(num_cpus=3, include_dashboard=False, logging_level="warning")
    trainer = TorchTrainer(
        train,
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name="job", storage_path=os.path.abspath(sys.argv[1])),
    )
    with open(os.path.join(sys.argv[1], "metrics.json"), "w") as file:
        json.dump(trainer.fit().metrics, file)
