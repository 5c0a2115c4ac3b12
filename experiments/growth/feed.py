"""The messages of a load through a pipe, so that making them costs the process that is measured no memory.

python -m experiments.growth.feed JOBS RANKS STEP_S SECONDS

Rule of this file: a length in four bytes, then a message, as it travels on the bus.
"""

import struct
import subprocess
import sys
from collections.abc import Iterator
from typing import IO

from ..processes import ROOT, RunError
from ..throughput.jobs import Load
from ..throughput.load import encoded

_LENGTH = struct.Struct("<I")
BEGAN_S = 1.7e9


def write(out: IO[bytes], load: Load) -> None:
    """All of ``load``."""
    for message in encoded(load, BEGAN_S):
        out.write(_LENGTH.pack(len(message.data)))
        out.write(message.data)
    out.flush()


def read(source: IO[bytes]) -> Iterator[bytes]:
    """Message by message."""
    while head := source.read(_LENGTH.size):
        yield source.read(*_LENGTH.unpack(head))


def fed(load: Load) -> Iterator[bytes]:
    """The messages of ``load``, made by another process."""
    numbers = [str(number) for number in (load.jobs, load.ranks, load.step_s, load.seconds)]
    command = [sys.executable, "-m", "experiments.growth.feed", *numbers]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield from read(process.stdout)
    if process.returncode:
        raise RunError(f"the load ended with status {process.returncode}")


def main() -> None:
    jobs, ranks, step_s, seconds = sys.argv[1:]
    write(sys.stdout.buffer, Load("growth", int(jobs), int(ranks), float(step_s), int(seconds)))


if __name__ == "__main__":
    main()
