"""Steps of 80 ms under DDP (gloo). Usage: paced.py STEPS [uneven|compiled].

``uneven``: rank 1 has made six steps of its own before. ``compiled``: the optimizer's step is compiled.
"""

import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

steps, way = int(sys.argv[1]), "".join(sys.argv[2:])
torch.set_num_threads(1)
dist.init_process_group("gloo")
if way == "uneven" and dist.get_rank() == 1:
    own = nn.Parameter(torch.ones(4))
    alone = torch.optim.SGD([own], lr=0.1)
    for _ in range(6):
        own.sum().backward()
        alone.step()
model = DistributedDataParallel(nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
update = torch.compile(optimizer.step, backend="eager") if way == "compiled" else optimizer.step
for _ in range(steps):
    model(torch.ones(2, 16)).sum().backward()
    update()
    optimizer.zero_grad()
    time.sleep(0.08)
dist.destroy_process_group()
