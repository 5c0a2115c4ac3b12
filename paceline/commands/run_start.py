"""What ``paceline run`` does before its command starts: options, what can be wrong with them, what runs beside it.

Rule of this file: what is wrong with the words of whoever typed them is said before anything runs, and refused. All
else that fails here is our own affair: it is raised, and the net in ``paceline.commands.run`` runs the command as is.
"""

import argparse
import errno
import os
import secrets
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import entry_points
from importlib.util import find_spec
from itertools import dropwhile
from pathlib import Path
from typing import Any, NamedTuple

from paceline.commands import nccl_plugin, stack_state
from paceline.commands.page_link import page_link
from paceline.commands.side_processes import SideProcesses
from paceline.identity import FALLBACK_JOB_VARIABLE, made_up
from paceline.install import install
from paceline.kafka.settings import add_brokers_option, add_no_commands_option, optional_settings
from paceline.launchers import own_local_rank, tasks_here
from paceline.options import Parser
from paceline.recording import RecordingError, check_writable
from paceline.settings import (
    BROKERS,
    CAPTURES,
    CLUSTER,
    JOB,
    NO_COMMANDS,
    NODE,
    PATIENCE,
    PROBE_BUDGET,
    SPOOL_BYTES,
    TOTAL_STEPS,
    Setting,
    SettingError,
)
from paceline.terminal import say
from paceline.tracking.choice import WORDS, ChoiceError, chosen
from paceline.training.messages import MEASURE_VARIABLE, SOCKET_VARIABLE
from paceline.training.tracking_words import TRACKING_VARIABLE

BOOTSTRAP = Path(__file__).parent.parent / "training" / "bootstrap"

#: What the machine lacks for now, whatever was asked for: no reason to refuse.
THE_MACHINES = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO}

EXAMPLES = """examples:
  paceline run -- torchrun --nproc-per-node 4 train.py
  paceline run --job resnet-7 -- python train.py --epochs 3
  paceline run --total-steps 5000 -- python train.py                              with a forecast of its end
  paceline run --record run.jsonl.zst -- torchrun --nproc-per-node 4 train.py     needs no broker
  paceline analyze run.jsonl.zst --json                                           the findings in it
  paceline run --measure-overhead -- torchrun --nproc-per-node 4 train.py         and the cost of timing per step
  paceline run --track mlflow -- torchrun --nproc-per-node 4 train.py             also log to the script's MLflow run
  paceline run --nccl-inspector -- torchrun --nproc-per-node 8 train.py           also NCCL's own times of collectives

The exit status is the command's own: 128 + N when signal N ended it, 127 when there is no such command."""


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = Parser(
        prog="paceline run",
        usage="paceline run [--job NAME] [--record FILE] [--brokers HOST:PORT] [--no-panel] [--quiet] … -- COMMAND …",
        description="Run a training command, script unchanged; report slow ranks live and at the end.\n"
        "Works with and without a broker.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument(
        "--job",
        metavar="NAME",
        help="the job's id; default: Slurm's, Kubernetes', torchrun's, MPI's, the script's name",
    )
    made.add_argument("--record", metavar="FILE", help="write a recording: .jsonl, .jsonl.gz or .jsonl.zst")
    add_brokers_option(
        made, f"Kafka brokers (default: {BROKERS.name}, else 127.0.0.1:9092 if it listens); none: no Kafka at all"
    )
    add_no_commands_option(made)
    made.add_argument(
        "--captures",
        action="store_true",
        help=f"allow `paceline capture`: PyTorch's profiler in a rank, for some steps, when asked ({CAPTURES.name}=1)",
    )
    made.add_argument(
        "--track",
        metavar="TRACKER",
        action="append",
        default=[],
        help=f"log timings and findings to the run that the script has open ({WORDS}); may be repeated",
    )
    made.add_argument(
        "--total-steps",
        metavar="N",
        help=f"steps that the job means to take, by which its end is forecast (default: {TOTAL_STEPS.name})",
    )
    made.add_argument("--no-panel", action="store_true", help="no live findings and no panel at the end")
    made.add_argument("--quiet", action="store_true", help="no live findings, only the panel at the end")
    made.add_argument(
        "--measure-overhead",
        action="store_true",
        help="turn the probe off and on in turn in the first 34,000 steps; the panel says what a step costs with it",
    )
    made.add_argument(
        "--nccl-inspector",
        nargs="?",
        const="",
        metavar="FILE",
        help="NCCL's own times of collectives, by its Inspector plugin (NCCL 2.28 or newer); FILE: where the plugin is",
    )
    made.add_argument(
        "--probe-budget",
        metavar="PERCENT",
        help="what timing may take of a step; beyond it fewer steps are timed, each whole "
        f"(default: {PROBE_BUDGET.name}, else {PROBE_BUDGET.default:g}; 0: time every step)",
    )
    made.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND", help="what to run")
    return made


def environment(
    environ: dict[str, str], options: argparse.Namespace, socket: Path, fallback: str, inspector: dict[str, str]
) -> dict[str, str]:
    """What the command sees: the socket of the sidecar, the probe on Python's path, and what turns ``inspector`` on."""
    paths = [str(BOOTSTRAP), *filter(None, [environ.get("PYTHONPATH")])]
    added = {SOCKET_VARIABLE: str(socket), "PYTHONPATH": os.pathsep.join(paths), FALLBACK_JOB_VARIABLE: fallback}
    if options.job:
        added[JOB.name] = options.job
    if options.probe_budget:
        added[PROBE_BUDGET.name] = options.probe_budget
    if options.total_steps:
        added[TOTAL_STEPS.name] = options.total_steps
    if options.captures:
        added[CAPTURES.name] = "1"
    if options.measure_overhead:
        added[MEASURE_VARIABLE] = "1"
    return environ | added | inspector


def without_own_programs(environ: Mapping[str, str]) -> dict[str, str]:
    """PATH without our own environment's programs, where a tool that runs us has put these first.

    ``uvx`` does: ``python`` would be the one that it has made for Paceline. Whoever has activated this very
    environment, or has PyTorch in it, means its programs.
    """
    entries = environ.get("PATH", "").split(os.pathsep)
    own = (sys.prefix, str(Path(sys.prefix, "bin")))
    activated = (environ.get("VIRTUAL_ENV"), environ.get("CONDA_PREFIX"))
    if entries[0] not in own or sys.prefix in activated or find_spec("torch") is not None:
        return {}
    return {"PATH": os.pathsep.join(dropwhile(own.__contains__, entries))}


def checked(options: argparse.Namespace, environ: dict[str, str]) -> None:
    """Find what is wrong with options and settings while nothing runs yet.

    Raises:
        SettingError, RecordingError, ChoiceError: one line that says what.
    """
    for setting in (CAPTURES, CLUSTER, JOB, NODE, NO_COMMANDS, PATIENCE, SPOOL_BYTES, PROBE_BUDGET, TOTAL_STEPS):
        setting.read(environ)
    if options.probe_budget is not None:
        _check("--probe-budget", PROBE_BUDGET, options.probe_budget)
    if options.total_steps is not None:
        _check("--total-steps", TOTAL_STEPS, options.total_steps)
    optional_settings(environ, options.brokers)
    if options.track:
        chosen(options.track)
    if options.record == "-":
        raise RecordingError("--record -: standard output is the command's own; name a file")
    if options.record:
        check_writable(options.record)


def checked_plugin(command: list[str], options: argparse.Namespace, environ: dict[str, str]) -> str | None:
    """The plugin that times NCCL, where it was asked for; what it costs is reported.

    Raises:
        PluginError: it cannot be had.
    """
    if options.nccl_inspector is None:
        return None
    nccl = nccl_plugin.nccl_of(command, environ)
    cost = nccl_plugin.check_version(nccl)
    plugin = nccl_plugin.find_plugin(options.nccl_inspector, environ, nccl)
    nccl_plugin.environment(plugin, environ, Path())
    say(f"NCCL Inspector on. {cost}")
    return plugin


class Asked(NamedTuple):
    """What was asked for: the command, what it sees without us, our options, and the plugin that times NCCL."""

    command: list[str]
    environ: dict[str, str]
    options: argparse.Namespace
    plugin: str | None


def _check(option: str, setting: Setting[Any], value: str) -> None:
    """Find what is wrong with an option's ``value``; it is said of the option, as that was typed.

    Raises:
        SettingError: the value is not allowed.
    """
    replace(setting, name=option).read({option: value})


def asked(argv: list[str]) -> Asked | None:
    """What ``argv`` asks for; None where it is refused, which is reported.

    Raises:
        SystemExit: help was asked for, or an option is unknown.
    """
    options = parser().parse_args(argv)
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        say("run: no command; try: paceline run -- torchrun --nproc-per-node 4 train.py")
        return None
    environ = os.environ | without_own_programs(os.environ)
    try:
        checked(options, environ)
        return Asked(command, environ, options, checked_plugin(command, options, environ))
    except (SettingError, RecordingError, ChoiceError, nccl_plugin.PluginError) as error:
        if isinstance(error.__cause__, OSError) and error.__cause__.errno in THE_MACHINES:
            raise
        say(str(error))
        return None


def has_panel(environ: Mapping[str, str]) -> bool:
    """Whether there can be a panel; why there is none is reported once a node."""
    if not entry_points(group="paceline.commands", name="analyze"):
        say(f"no live findings and no panel: {install('streams')}")
        return False
    several = tasks_here(environ)
    if several > 1 and own_local_rank(environ) == 0:
        say(
            f"no live findings and no panel: {several} tasks of this node have a `paceline run` each, and each knows "
            "its own ranks alone; paceline streams tells what is found (paceline top, paceline tail finding)"
        )
    return several == 1


def start(asked: Asked) -> tuple[SideProcesses, dict[str, str]]:
    """Start what runs beside the command; it, and what the command sees."""
    command, environ, options, plugin = asked
    fallback = made_up(command, time.time(), secrets.token_hex(2))
    panel = not options.no_panel and has_panel(environ)
    beside = SideProcesses(
        options.record,
        options.brokers,
        options.job or fallback,
        panel=panel,
        live=not options.quiet,
        commands=not options.no_commands,
        captures=options.captures,
        nccl_inspector=None if plugin is None else environ.get(nccl_plugin.FOLDER_VARIABLE, ""),
        track=options.track,
    )
    try:
        inspector = {} if plugin is None else nccl_plugin.environment(plugin, environ, beside.nccl_folder)
        seen = environment(environ, options, beside.socket, fallback, inspector)
        told = {} if beside.tracking_socket is None else {TRACKING_VARIABLE: str(beside.tracking_socket)}
    except BaseException:
        beside.kill()
        raise
    return beside, seen | told


def name_page(asked: Asked, seen: dict[str, str]) -> None:
    """Say where a page on this machine shows this run, which has ``seen`` its surroundings."""
    command, _, options, _ = asked
    stacks = stack_state.running(stack_state.folder(seen), stack_state.Machine())
    settings = optional_settings(seen, options.brokers) if stacks else None
    if link := page_link(stacks, settings.address if settings else None, command, seen):
        say(f"page: {link}")
