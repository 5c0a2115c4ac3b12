"""A training of two ranks in one of some moods: it is fast or slow, hangs or crashes.

Rule of this file: an ordinary script. The first rank leaves its own process a child with a session of its own, which
nobody of its process group is, says in ``$STEPPING`` when it has stepped, and waits then while there is ``$HOLD``.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

options = argparse.ArgumentParser()
options.add_argument("--mood")
options.add_argument("--batch-size", type=int, default=4)
told = options.parse_args()
RANK = os.environ["RANK"]
if RANK == "0":
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"], start_new_session=True)
    with open(os.environ["CHILDREN"], "a") as file:
        file.write(f"{child.pid}\n")
if told.mood == "crash":
    raise SystemExit("KeyError: 'no such mood'")

import torch  # noqa: E402 - the others need none
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = TensorDataset(torch.randn(4000, 8), torch.randint(2, (4000,)))
step = 0
while True:
    for inputs, labels in DataLoader(data, batch_size=told.batch_size):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
        time.sleep(0.12 if told.mood == "slow" else 0.02)
        step += 1
        if step == 20 and RANK == "0":
            Path(os.environ["STEPPING"]).write_text("")
            while Path(os.environ["HOLD"]).exists():
                time.sleep(0.05)
        if step == 30 and told.mood == "hang":
            time.sleep(3600)
