"""A rank that ships as a training process does, without PyTorch: ``python shipping_rank.py STOP ROWS_PER_S``.

It steps until the file STOP is there, then prints how many steps it made, and how many marks it could not keep.
"""

import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace

from paceline.training import marks
from paceline.training.links import TcpLinks
from paceline.training.messages import SOCKET_VARIABLE, Hello
from paceline.training.probe import MOST, Probe
from paceline.training.shipping import Shipping

#: A step comes to the rows ``forward``, ``communication`` and ``step``, and to one of a collective.
ROWS = 4


def hello() -> Hello:
    return Hello(
        rank=0,
        world_size=1,
        local_rank=0,
        pid=os.getpid(),
        device="cpu",
        backend="gloo",
        framework="torch",
        job="",
        attempt=0,
        started_s=time.time(),
    )


def main() -> None:
    stop, rows_per_s = Path(sys.argv[1]), float(sys.argv[2])
    probe = Probe()
    probe.most, probe.device = MOST, SimpleNamespace(type="cpu")
    shipping = Shipping(probe, os.environ[SOCKET_VARIABLE], hello, TcpLinks(set()))
    shipping.start()
    step, begun_s = 0, time.monotonic()
    while not stop.exists():
        probe.host_mark(marks.FORWARD)
        probe.host_mark(marks.COMMUNICATION)
        probe.host_mark(marks.ISSUED, ("world", 1, step, "all_reduce", 4096, marks.PYTHON))
        probe.host_mark(marks.LEAVE + marks.COMMUNICATION)
        probe.host_mark(marks.LEAVE + marks.FORWARD)
        probe.host_mark(marks.STEP)
        probe.trim()
        step += 1
        time.sleep(max(begun_s + step * ROWS / rows_per_s - time.monotonic(), 0.0))
    shipping.finish()
    print(step, probe.lost, flush=True)


if __name__ == "__main__":
    main()
