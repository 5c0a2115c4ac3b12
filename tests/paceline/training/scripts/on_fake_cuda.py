"""Trains with forked DataLoader workers and captures a graph, on a CPU that passes for a GPU by the fake device."""

import os
import sys
import time
from types import SimpleNamespace

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from tests.paceline.training.fake_cuda import FakeCuda

real = torch.cuda.CUDAGraph
cuda = FakeCuda()
cuda.install(torch)

from paceline.training import activation, watching  # noqa: E402 - after the device has been put in place
from paceline.training.hooks import graphs  # noqa: E402

watching.start()
probe = activation.session().probe
graphs.install(probe, SimpleNamespace(cuda=SimpleNamespace(CUDAGraph=real), accelerator=torch.accelerator))
ends = [name for name in ("capture_begin", "capture_end", "capture_end_pre") if hasattr(real, name)]
print("wrapped" if all(hasattr(vars(real)[name], "__wrapped__") for name in ends) else ends)
probe.device = torch.device("cuda", 0)
probe.device_found()

model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = TensorDataset(torch.randn(80, 16))


def epoch() -> int:
    steps = 0
    for (x,) in DataLoader(data, batch_size=8, num_workers=2, multiprocessing_context="fork"):
        model(x).square().mean().backward()
        cuda.default.launch(1.0)
        optimizer.step()
        optimizer.zero_grad()
        cuda.advance(0.5)
        steps += 1
    return steps


done = epoch() + epoch()
probe.mark(0)
probe.mark(16)
with cuda.graph(cuda.CUDAGraph()):
    time.sleep(1.0)  # five rounds of the shipping thread
    done += 0
print("captured")
done += epoch() + epoch()
print(done, flush=True)
child = os.fork()
if child == 0:
    sys.exit(0)  # unlike a worker, through the interpreter's whole end
print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
cuda.advance(1000.0)
deadline = time.monotonic() + 240
while "paceline" not in cuda.askers and time.monotonic() < deadline:
    time.sleep(0.01)
print("asked" if "paceline" in cuda.askers else "never asked")
