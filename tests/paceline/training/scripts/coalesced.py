"""Collectives issued together, six steps of them, over a backend that does nothing but can coalesce, as NCCL can."""

import time

import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore

dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
c10d = dist.distributed_c10d
isend = dist.isend.__wrapped__  # as a script has it that imported it before it began to watch
group, device = dist.group.WORLD, torch.device("cpu")
type(group._get_backend(device)).supports_coalescing = property(lambda self: True)
torch._C._distributed_c10d.FakeWork.wait = torch._C._distributed_c10d.Work.wait  # as real backends have it
weight = torch.nn.Parameter(torch.ones(4))
optimizer = torch.optim.SGD([weight], lr=0.1)
for _ in range(6):
    weight.sum().backward()
    given = [dist.P2POp(op=dist.irecv, tensor=torch.ones(3), peer=1), dist.P2POp(isend, torch.ones(2), 1)]
    works = dist.batch_isend_irecv(given)
    assert len(works) == 1
    with c10d._coalescing_manager(group, async_ops=True) as manager:
        for _ in range(3):
            dist.all_reduce(torch.ones(4))
    works[0].wait()
    manager.wait()
    with c10d._coalescing_manager(group):  # waits for itself
        dist.all_reduce(torch.ones(5))
    try:
        with c10d._coalescing_manager(group, device, async_ops=True):
            dist.isend(torch.ones(6), 1)
            raise ValueError("none of ours")
    except ValueError:
        c10d._world.pg_coalesce_state.clear()
        group._end_coalescing(device)
    work = dist.isend(torch.ones(7), 1)
    work.wait()
    time.sleep(0.05)
    optimizer.step()
dist.destroy_process_group()
