"""What Slurm starts once on each node of a trial's job: it fills in what only the node knows, and becomes the command.

Rule of this file: the standard library alone, from Python 3.9 on, for it is copied into the job's folder and run from
there by whatever Python the options name. No shell reads a word of the command. What the job asks for and the node does
not grant ends it with status 78 and a sentence, before anything of the command runs.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

#: The status of a job whose node does not have what it asks for (EX_CONFIG).
UNSUITED = 78
PORT = "PACELINE_TRIAL_PORT"
_PLACEHOLDER = re.compile(r"\{(nodes|node_rank|master|port)\}")


class UnsuitedError(Exception):
    """This node cannot run the job as it is."""


def filled(words: list[str], known: Mapping[str, str]) -> list[str]:
    """The words with what the node knows in them; a value is not looked through again.

    >>> filled(["--nnodes={nodes}", "{ranks}"], {"nodes": "{port}"})
    ['--nnodes={port}', '{ranks}']
    """
    return [_PLACEHOLDER.sub(lambda found: known[found[1]], word) for word in words]


def known(environ: Mapping[str, str]) -> dict[str, str]:
    """What Slurm and the batch script tell of this node: the script runs on the first one, where the ranks meet."""
    names = {"nodes": "SLURM_NNODES", "node_rank": "SLURM_NODEID", "master": "SLURM_LAUNCH_NODE_IPADDR", "port": PORT}
    if missing := [name for name in names.values() if not environ.get(name)]:
        raise UnsuitedError(f"{', '.join(missing)} is not set; this is started by srun in the job's script")
    return {name: environ[variable] for name, variable in names.items()}


def numbers(text: str) -> set[int]:
    """The CPUs in a list of the kernel's.

    >>> sorted(numbers("0-2,5"))
    [0, 1, 2, 5]
    """
    found: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def visible(asked: list[int], granted: str | None) -> str:
    """``CUDA_VISIBLE_DEVICES`` for the asked of those that Slurm granted; without a word of Slurm's, the numbers.

    >>> visible([0, 2], "4,5,6,7"), visible([1], None), visible([], "4,5")
    ('4,6', '1', '')
    """
    if granted is None:
        return ",".join(map(str, asked))
    held = [one for one in granted.split(",") if one]
    if beyond := [one for one in asked if one >= len(held)]:
        raise UnsuitedError(f"GPU {beyond[0]} is asked for, and Slurm granted {len(held)}; fix: gpus_per_node")
    return ",".join(held[one] for one in asked)


def bound(cpus: list[int] | None, numa: int | None, allowed: set[int], nodes: Path) -> set[int]:
    """The CPUs to run on."""
    wanted = set(allowed if cpus is None else cpus)
    if numa is not None:
        try:
            near = numbers((nodes / f"node{numa}" / "cpulist").read_text())
        except (OSError, ValueError):
            raise UnsuitedError(f"NUMA node {numa} is asked for, and is not on this node") from None
        wanted = wanted & near if cpus is not None else near & allowed
    if not wanted or not wanted <= allowed:
        short = sorted(wanted - allowed) or "none is left"
        raise UnsuitedError(f"CPUs {short} are asked for and not granted; fix: exclusive, or cpus_per_node")
    return wanted


def main(arguments: list[str]) -> None:
    """``port``: print a free one. Else the file that says what to run."""
    if arguments == ["port"]:
        with socket.socket() as free:
            free.bind(("", 0))
            print(free.getsockname()[1])
        return
    told = json.loads(Path(arguments[0]).read_text())
    words = filled(told["command"], known(os.environ))
    if told["gpus"] is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = visible(told["gpus"], os.environ.get("CUDA_VISIBLE_DEVICES"))
    if told["cpus"] is not None or told["numa"] is not None:
        allowed = os.sched_getaffinity(0)
        os.sched_setaffinity(0, bound(told["cpus"], told["numa"], allowed, Path("/sys/devices/system/node")))
    if told["numa"] is not None and shutil.which("numactl"):
        words = ["numactl", f"--membind={told['numa']}", "--", *words]
    os.execvp(words[0], words)  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (UnsuitedError, OSError) as error:
        print(f"paceline trial: {error}", file=sys.stderr, flush=True)
        sys.exit(UNSUITED)
