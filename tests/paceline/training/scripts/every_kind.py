"""A training script that knows nothing of Paceline: DDP with accumulation, evaluation, a checkpoint, then FSDP.

Usage: every_kind.py FOLDER. Each rank writes its weights' exact bytes there.
"""

import contextlib
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

folder = Path(sys.argv[1])
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
inner = nn.Sequential(nn.Linear(16, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 4))
model = DistributedDataParallel(inner)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
loader = DataLoader(TensorDataset(torch.randn(128, 16), torch.randint(0, 4, (128,))), batch_size=8, num_workers=1)
loss = nn.CrossEntropyLoss()

# Steps 0 to 7: two micro-batches each.
for index, (x, y) in enumerate(loader):
    last = index % 2 == 1
    with contextlib.nullcontext() if last else model.no_sync():
        loss(model(x), y).backward()
    if last:
        optimizer.step()
        optimizer.zero_grad()

model.eval()
with torch.no_grad():
    for x, _ in loader:
        model(x)
model.train()
if rank == 0:
    torch.save(inner.state_dict(), folder / "checkpoint.pt")
dist.barrier()

# Step 8: a single batch, and the pause before it.
loss(model(x), y).backward()
optimizer.step()

# Steps 9 to 12: FSDP, with a group of its own beside it.
torch.manual_seed(1)
sharded = nn.Sequential(*[nn.Sequential(nn.Linear(16, 16), nn.ReLU()) for _ in range(2)])
for block in sharded:
    fully_shard(block)
fully_shard(sharded)
adam = torch.optim.AdamW(sharded.parameters(), lr=0.01)
group = dist.new_group([0, 1])
for _ in range(4):
    value = sharded(x).square().mean()
    value.backward()
    work = dist.all_reduce(value.detach(), group=group, async_op=True)
    work.wait()
    adam.step()
    adam.zero_grad()

weights = [*inner.parameters(), *(parameter.to_local() for parameter in sharded.parameters())]
(folder / f"weights-{rank}").write_bytes(b"".join(weight.detach().numpy().tobytes() for weight in weights))
dist.destroy_process_group()
