"""A loop on an engine where DeepSpeed keeps its own, with batches of its own making. Usage: engine.py FOLDER."""

import pathlib
import sys
import time

ENGINE = """
import time
import torch

class DeepSpeedEngine(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.module = model

    def forward(self, *inputs):
        time.sleep(0.02)
        return self.module(*inputs)
"""
package = pathlib.Path(sys.argv[1]) / "deepspeed" / "runtime"
package.mkdir(parents=True)
(package / "engine.py").write_text(ENGINE)
sys.path.insert(0, sys.argv[1])

import torch  # noqa: E402
from deepspeed.runtime.engine import DeepSpeedEngine  # noqa: E402

engine = DeepSpeedEngine(torch.nn.Linear(8, 8))
optimizer = torch.optim.SGD(engine.parameters(), lr=0.1)
for step in range(6):
    time.sleep(0.05)
    engine(torch.randn(4, 8)).square().mean().backward()
    optimizer.step()
    if step == 3:
        with torch.no_grad():
            engine(torch.randn(4, 8))
