"""A process that trains alone for some seconds, in a run of MLflow, or with ``none``: ``one_run.py SECONDS [none]``."""

import sys
import time

import torch

if "none" not in sys.argv:
    import mlflow

    mlflow.start_run()
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
until = time.monotonic() + float(sys.argv[1])
while time.monotonic() < until:
    model(torch.randn(8, 64)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    time.sleep(0.05)
