"""``paceline benchmark``: what the devices of this node can do.

Rule of this file: real things are made here and handed down. What is written (the node's ratings, its entry in a shared
file, the document) is written at the end, each as a whole; an end before that writes nothing.
"""

import json
import os
import platform
import signal
import socket
import sys
import time
from argparse import Namespace
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from paceline import nodes_file, rated
from paceline.identity import node_of
from paceline.nodes_file import Node, NodesFileError
from paceline.terminal import Progress, say

from ..cpu_model import cpu_model
from . import gpu_use
from .busy import look
from .ending import Ended, on_signals
from .gpu_use import GpuUse
from .keeping import Kept, keep
from .launched_ranks import LaunchedRanks, MeetingError, found
from .options import parse
from .results import Results
from .running import Asked, Run
from .table import document, nodes_table, speeds_table
from .target import DeviceError, Target, targets
from .versions import versions

PROGRAM = "paceline benchmark"
#: Seconds that the node is watched before anything of ours runs, and that a driver's view of it needs to forget us.
LOOK_S, FORGET_S = 1.0, 1.5
MEASURED, BROKEN, WRONG, BUSY = 0, 1, 2, 3


def main(arguments: list[str] | None = None) -> int:
    """Measure, tell, keep; return the exit status."""
    options = parse(sys.argv[1:] if arguments is None else arguments)
    written: list[Path] = []
    with on_signals():
        try:
            return _show(Path(options.show)) if options.show else _benchmark(options, os.environ, written)
        except (NodesFileError, DeviceError, MeetingError) as error:
            say(str(error), PROGRAM)
            return WRONG
        except OSError as error:
            say(f"{error.filename or 'the result'}: {error.strerror or error}; nothing else is lost", PROGRAM)
            return BROKEN
        except KeyboardInterrupt as error:
            status = error.status if isinstance(error, Ended) else 128 + signal.SIGINT
            files = f"written: {', '.join(map(str, written))}" if written else "nothing was written"
            say(f"ended before time; {files}", PROGRAM)
            return status


def _show(path: Path) -> int:
    print("\n".join(nodes_table(nodes_file.read(path))))
    return MEASURED


def _benchmark(options: Namespace, environ: Mapping[str, str], written: list[Path]) -> int:
    """Measure, and keep what was measured; ``written`` gets each file as soon as it is there."""
    if options.nodes:
        nodes_file.check()
    host = socket.gethostname()
    node = options.node or node_of(environ, host)
    told = found(environ)
    if told is None or told.rank == 0:  # Importing PyTorch alone takes many seconds on a busy machine.
        say(f"measures {', '.join(options.only)}: about {options.seconds:g} s, longer on a busy machine", PROGRAM)
    torch = _torch()
    ranks = None if told is None or torch is None else LaunchedRanks(torch, told, environ, host)
    if ranks is not None and ranks.nodes > 1 and options.output and "{node}" not in options.output:
        raise DeviceError("--output: ranks on several nodes would write one file; put {node} into its name")
    speaks = ranks is None or ranks.local_rank == 0
    progress = Progress()
    gpus_before = gpu_use.look() if speaks else {}
    surroundings = look(LOOK_S if speaks else 0.0)
    model = cpu_model() or platform.machine() or "unknown CPU"
    devices = targets(torch, options.device, model) if torch is not None else []
    asked = Asked(options.only, options.seconds, Path(options.disk_folder), options.device, options.ranks)
    run = Run(asked, torch, devices, surroundings, environ, progress.tell if speaks else _silent)
    cores = os.cpu_count() or 1
    run.results.busy += [*surroundings.told(cores), *gpu_use.told(gpus_before)] if speaks else []
    try:
        if speaks:
            run.alone()
        if ranks is not None:
            ranks.wait_for_all_nodes()
        run.together(ranks)
    finally:
        progress.end()
    status = MEASURED
    if speaks:
        run.results.look_back(_gpu_ratios(devices, gpus_before))
        entry = _node(node, torch, devices, model, run.results)
        # Launchers take every other status for a rank that died, and end the rest.
        status = _tell(options, environ, entry, run.results, written, MEASURED if ranks is not None else BUSY)
    if ranks is not None:
        ranks.leave()
    return status


def _silent(text: str) -> None:
    """One rank speaks for its node; the others say nothing."""


def _gpu_ratios(devices: list[Target], before: dict[str, GpuUse]) -> dict[str, float | None]:
    """How busy each GPU was with others, before and after."""
    names = [target.name for target in devices if target.is_gpu]
    if not names:
        return {}
    time.sleep(FORGET_S)
    after = gpu_use.look()
    return {name: gpu_use.busier(before.get(name), after.get(name)) for name in names}


def _torch() -> Any | None:
    """PyTorch; None where it is not installed."""
    try:
        return import_module("torch")
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        return None


def _node(name: str, torch: Any | None, devices: list[Target], model: str, results: Results) -> Node:
    """This node's entry: of the kind of its GPUs where it has some, whatever was measured now."""
    gpus = targets(torch, "cuda", model) if torch is not None and torch.cuda.is_available() else []
    kinds = sorted({target.model for target in gpus}) or [model]
    count = len(gpus) or 1
    told = versions(torch, gpu_use.versions())
    return Node(name, " + ".join(kinds)[: rated.LONGEST_WORD], count, time.time(), tuple(results.speeds), told)


def _tell(
    options: Namespace, environ: Mapping[str, str], node: Node, results: Results, written: list[Path], busy: int
) -> int:
    """Keep what was measured, say it, and return the exit status: ``busy`` where others used the machine."""
    path = rated.path_of(environ, node.name)
    before, why = rated.look(path, node.name)
    if why is not None:
        say(f"{why}; the file is replaced", PROGRAM)
    kept = keep(before, node.speeds, node.versions, node.name, node.time_s, force=options.force)
    if node.speeds:
        rated.write(path, kept.rated)
        written.append(path)
        if options.nodes:
            entry = Node(node.name, node.kind, node.devices, node.time_s, kept.rated.speeds, kept.rated.versions)
            nodes_file.put(Path(options.nodes), entry)
            written.append(Path(options.nodes))
    told = json.dumps(document(node, results, kept.stayed, str(path)))
    if options.output:
        output = Path(options.output.replace("{node}", node.name.replace("/", "_")))
        rated.replace(output, told + "\n")
        written.append(output)
    if options.json:
        print(told, flush=True)
    else:
        print("\n".join(_lines(node, results)), flush=True)
    status = BROKEN if results.failed else busy if results.is_busy else MEASURED
    _warn(results, kept, written, status)
    return status


def _lines(node: Node, results: Results) -> list[str]:
    head = f"{node.name}: {node.kind}; " + ", ".join(f"{name} {version}" for name, version in node.versions.items())
    skipped = [f"not measured: {each.name} on {each.device}: {each.why}" for each in results.skipped if not each.failed]
    return [head, *(speeds_table(results.speeds, results.notes) if results.speeds else []), *skipped]


def _warn(results: Results, kept: Kept, written: list[Path], status: int) -> None:
    for each in results.skipped:
        if each.failed:
            say(f"failed: {each.name} on {each.device}: {each.why}", PROGRAM)
    for why in results.busy:
        say(f"a busy machine: {why}", PROGRAM)
    if results.is_busy:
        say(f"others used this machine meanwhile, so it can do more than was measured; exit status {status}", PROGRAM)
    if kept.stayed:
        names = sorted({one.name for one in kept.stayed})
        day = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(min(one.time_s for one in kept.stayed)))
        say(f"kept, from when it was idle ({day}): {', '.join(names)}; --force replaces them", PROGRAM)
    if written:
        say(f"written: {', '.join(map(str, written))}", PROGRAM)


if __name__ == "__main__":
    sys.exit(main())
