"""Several ranks of a script that share one import of PyTorch: ``forked_ranks.py WORLD FOLDER SCRIPT ARGUMENT…``.

Rules of this file: a rank is a process of its own with ``RANK`` set, and begins and ends as a Python that runs the
script; only what the script imports anyway is loaded already, once instead of once a rank. Nothing but imports
happens before the ranks are there. Each prints to FOLDER/stderr-RANK, and how each ended is in FOLDER/ended.json; the
first process ends with status 1 where one of them failed. It is no launcher to test launchers by: it ends no rank
because another one has failed.
"""

import json
import os
import runpy
import sys
from pathlib import Path

# DistributedDataParallel imports it, and that takes as long as PyTorch itself.
import torch._dynamo  # noqa: F401


def main(world: int, folder: Path, script: Path, arguments: list[str]) -> None:
    """In the first process until all ranks have ended; in each rank until the script comes to its end."""
    ranks = []
    for rank in range(world):
        pid = os.fork()
        if pid == 0:
            return become(rank, folder, script, arguments)
        ranks.append(pid)
    statuses = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in ranks]
    (folder / "ended.json").write_text(json.dumps(statuses))
    if any(statuses):
        sys.exit(1)
    return None


def become(rank: int, folder: Path, script: Path, arguments: list[str]) -> None:
    """Be this rank: an exception, an exit or a signal ends this process as it would end any other."""
    os.environ["RANK"] = str(rank)
    with (folder / f"stderr-{rank}").open("wb") as errors:
        os.dup2(errors.fileno(), sys.stdout.fileno())
        os.dup2(errors.fileno(), sys.stderr.fileno())
    sys.argv, sys.path[0] = [str(script), *arguments], str(script.parent)
    runpy.run_path(str(script), run_name="__main__")


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:])
