"""FSDP2, a shard a layer, with the script's own times around what the compute stream waits for."""

from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.fsdp._fully_shard import _fsdp_param_group

from experiments.gpu.scripts.truth import Truth, blocks, join, options

WIDTH = {"cuda": 4096, "cpu": 256}
ROWS = {"cuda": 512, "cpu": 16}
#: Methods of FSDP's parameter groups in which the compute stream is made to wait for others; without streams the
#: thread that trains waits in the exchanges themselves.
WAITS = ("wait_for_unshard", "_wait_for_post_backward")


def main() -> None:
    chosen = options(backend="", steps=25, layers=12, width=0)
    join(chosen.device, chosen.backend)
    truth = Truth(chosen.device)
    for name in WAITS:
        time_in(truth, _fsdp_param_group.FSDPParamGroup, name)
    if not truth.on_gpu:
        time_in(truth, _fsdp_param_group.FSDPParamGroup, "unshard")
        time_in(truth, _fsdp_param_group, "foreach_reduce")
    width = chosen.width or WIDTH[chosen.device]
    mesh = init_device_mesh(chosen.device, (dist.get_world_size(),))
    model = blocks(width, chosen.layers, chosen.device)
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    for _ in range(chosen.steps):
        batch = torch.randn(ROWS[chosen.device], width, device=chosen.device)
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        truth.step()
    truth.save()
    dist.destroy_process_group()


def time_in(truth: Truth, owner: Any, name: str) -> None:
    """Time every call of ``name`` of ``owner``."""
    original = getattr(owner, name)

    def timed(*args: Any, **kwargs: Any) -> Any:
        with truth.span("waits"):
            return original(*args, **kwargs)

    setattr(owner, name, timed)


if __name__ == "__main__":
    main()
