"""An undistributed training script with forking data loaders. Usage: plain.py STEPS [MISHAP]. Prints a digest."""

import hashlib
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

if sys.argv[2:] == ["broken"]:
    from paceline.training.runqueue import RunQueue

    RunQueue.read = lambda self, **_: 1 / 0  # type: ignore[assignment,return-value]

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
steps = int(sys.argv[1])
loader = DataLoader(TensorDataset(torch.randn(8 * steps, 16)), batch_size=8, num_workers=2)
for (x,) in loader:
    model(x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    if sys.argv[2:] == ["slow"]:
        import time

        time.sleep(0.01)
print(hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest())
