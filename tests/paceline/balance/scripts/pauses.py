"""One rank is busy between two exchanges, or hangs: by whose timeout the others wait."""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch.distributed as dist
import torch.distributed.distributed_c10d as c10d
import trained

from paceline.balance.exchange import Exchange, timeout_of

#: What a group that is made without a timeout waits, and what rank 0 pauses, which is longer.
OWN_S, PAUSE_S = 2.0, 8.0


def asked(rank: int, world: int) -> list[float]:
    """What the script's group, the exchange's, and one that is made without a timeout wait."""
    exchange = Exchange(world)
    groups = (dist.group.WORLD, exchange._group, dist.new_group(backend="gloo"))
    return [timeout_of(group).total_seconds() for group in groups]


def paused(rank: int, world: int) -> list[Any]:
    """Rank 0 pauses for longer than PyTorch's own timeout, which the exchange must not have."""
    before = c10d.default_pg_timeout
    c10d.default_pg_timeout = timedelta(seconds=OWN_S)
    try:
        exchange = Exchange(world)
    finally:
        c10d.default_pg_timeout = before
    exchange.gather([0.0])
    if rank == 0:
        time.sleep(PAUSE_S)
    return exchange.gather([float(rank)])


def hangs(rank: int, world: int) -> list[str]:
    """Rank 0 hangs until rank 1 has been ended by the timeout of the script's own group."""
    exchange = Exchange(world)
    exchange.gather([0.0])
    ended = trained.folder() / "ended"
    if rank == 0:
        while not ended.exists():
            time.sleep(0.1)
        return []
    try:
        exchange.gather([1.0])
    except RuntimeError as error:
        return [type(error).__name__, str(error)]
    finally:
        ended.touch()
    return []


CASES: dict[str, Callable[[int, int], Any]] = {"asked": asked, "paused": paused, "hangs": hangs}

if __name__ == "__main__":
    trained.run_cases(CASES)
