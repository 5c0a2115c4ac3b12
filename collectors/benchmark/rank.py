"""One rank of an all-reduce that ``paceline benchmark`` has started itself: its process.

Rule of this file: it says on standard output, as JSON a line, that it lives, what it is about to do, and what it has
measured; the parent keeps what was said, whatever becomes of this process. Nothing is written anywhere.
"""

import json
import sys
from datetime import timedelta
from importlib import import_module
from typing import Any

from .busy import own_cpu_s
from .sweep import sweep
from .timing import EventTimer, host_timer

#: What a line of it starts with: libraries write on standard output, too.
MARK = "PACELINE-RANK "


def main(arguments: list[str]) -> int:
    """Take part as rank ``RANK`` of ``RANKS``: RANK RANKS PORT BACKEND LARGEST SECONDS LIMIT."""
    _say({"started": True})
    torch: Any = import_module("torch")

    rank, ranks, port, largest = (int(arguments[at]) for at in (0, 1, 2, 4))
    backend, budget_s, limit_s = arguments[3], float(arguments[5]), float(arguments[6])
    device, timer = place(torch, backend, rank)
    dist = torch.distributed
    limit = timedelta(seconds=limit_s)
    store = dist.TCPStore("127.0.0.1", port, is_master=False, timeout=limit)
    dist.init_process_group(backend, store=store, rank=rank, world_size=ranks, timeout=limit)
    begins, lives = lambda size: _say({"begins": size}), lambda: _say({"lives": True})
    for each in sweep(torch, device, timer, largest, budget_s, begins, lives):
        _say({"size_bytes": each.size_bytes, "speeds": each.speeds if rank == 0 else []})
    _say({"own_s": own_cpu_s()})
    dist.destroy_process_group()
    return 0


def place(torch: Any, backend: str, local_rank: int) -> tuple[Any, Any]:
    """The device that a rank has of its own, and what times it."""
    if backend != "nccl":
        torch.set_num_threads(1)
        return torch.device("cpu"), host_timer
    device = torch.device("cuda", local_rank % torch.cuda.device_count())
    torch.cuda.set_device(device)
    return device, EventTimer(torch, device)


def _say(said: dict[str, Any]) -> None:
    sys.stdout.write(MARK + json.dumps(said) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
