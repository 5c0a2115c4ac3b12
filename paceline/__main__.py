"""The ``paceline`` command: a table of sub-commands, its own and those that installed services offer.

Rule of this file: no command's work is done here. Services are found through entry points, never imported by name.
"""

import sys
from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import entry_points
from typing import NamedTuple

import paceline
from paceline import service_modules
from paceline.install import install
from paceline.settings import SettingError
from paceline.standard_streams import reader_has_gone, ready_streams, write_nowhere
from paceline.terminal import say, tell_crash

Main = Callable[[list[str]], int]
HELP = ("-h", "--help")


class Command(NamedTuple):
    """A sub-command: where its ``main`` is and what it does, in a few words."""

    target: str
    help: str


class MissingError(KeyError):
    """A service has a command, and what it needs is not installed; the message says what brings it."""


COMMANDS = {
    "demo": Command("paceline.commands.demo:main", "run a small training job with a slow rank, and find it live"),
    "up": Command("paceline.commands.up:main", "start broker, streams, collector and page for your own jobs"),
    "status": Command(
        "paceline.commands.stack_status:status", "show what `paceline up` runs, its addresses and whether it is ready"
    ),
    "down": Command("paceline.commands.stack_status:down", "stop what `paceline up --detach` started"),
    "run": Command("paceline.commands.run:main", "run a training command and time it, script unchanged"),
    "record": Command("paceline.commands.record:main", "write events from Kafka to a recording"),
    "replay": Command("paceline.commands.replay:main", "send a recording to Kafka again"),
    "tail": Command("paceline.commands.tail:main", "print a topic's events as JSON Lines"),
    "ask": Command("paceline.commands.ask:main", "send a request to sidecars, collectors or workers"),
    "session": Command("paceline.commands.session:main", "record a session: start, stop, recover, export"),
    "capture": Command("paceline.commands.capture:main", "get profiler traces of chosen ranks of a running job"),
    "suggestions": Command("paceline.commands.suggestions:main", "list suggestions; accept or dismiss one"),
    "top": Command("paceline.commands.top:main", "show jobs, ranks, findings and suggestions in a terminal"),
    "alerts": Command("paceline.commands.alerts:main", "send findings and suggestions to chat, mail or Alertmanager"),
    "history": Command("paceline.commands.history:main", "query an archive: jobs, findings, devices, or SQL"),
    "otlp": Command("paceline.commands.otlp:main", "send findings and steps to an OpenTelemetry receiver"),
    "topics": Command("paceline.commands.topics:main", "create the Kafka topics, or list them"),
    "rights": Command("paceline.commands.rights:main", "print the minimal Kafka ACLs of each service"),
    "doctor": Command(
        "paceline.commands.doctor:main", "check broker, login, topics, NVML, clock and versions, with fixes"
    ),
    "completion": Command("paceline.commands.completion:main", "print a script for Tab completion: bash, zsh or fish"),
}
#: What services and tools offer, with the extra that brings what they need; their targets are entry points of the
#: group below.
SERVICE_COMMANDS = {
    "simulate": Command("simulator", "simulate a job with known faults, as a recording or on Kafka"),
    "import": Command("importers", "make a recording from profiler traces, logs or metrics of other tools"),
    "trial": Command("trials", "find the fastest placement of a training command by short runs"),
    "why": Command("postmortem", "find why a job hung or died, from its logs, dumps and stacks"),
    "collect": Command("collectors", "sample this node's GPUs and host"),
    "benchmark": Command("collectors", "measure the speed of this node's devices, and store it as their rating"),
    "streams": Command("streams", "read timings from Kafka, find stragglers, write findings to Kafka"),
    "analyze": Command("streams", "find stragglers in a recording, without a broker"),
    "report": Command("streams", "report a job's time, losses and causes as text, Markdown, HTML or PDF"),
    "compare": Command("streams", "compare two runs: which is slower, where, since when; for CI too"),
    "thresholds": Command("streams", "change the detection thresholds of one job, also while it runs"),
    "forecaster": Command("forecaster", "forecast metrics, find cycles and job kinds; over HTTP and Kafka"),
    "archive": Command("archive", "store events as Parquet, in a folder or a bucket"),
    "annotate": Command("annotator", "annotate nodes, pods and jobs in Kubernetes with findings"),
    "control": Command("control", "record sessions and apply changes, over HTTP"),
    "ui": Command("ui", "serve the live page"),
}
GROUP = "paceline.commands"


def usage() -> str:
    """The help page."""
    rows = [(name, command.help) for name, command in (COMMANDS | SERVICE_COMMANDS).items()]
    lines = [f"  {name:<11} {text}" for name, text in rows]
    return "\n".join(
        [
            "usage: paceline COMMAND [OPTIONS]      paceline COMMAND --help      paceline --version",
            "",
            *lines,
            "",
            "examples:",
            "  paceline demo                                          try it on this machine",
            "  paceline run -- torchrun --nproc-per-node 4 train.py   watch your own job",
            "  paceline run --record run.jsonl.zst -- torchrun …      the same, without a broker",
            "  paceline analyze run.jsonl.zst --json                  the findings in it",
        ]
    )


def find(name: str) -> Main:
    """The ``main`` of sub-command ``name``.

    Raises:
        KeyError: there is no such command, or the service that has it is not installed; the message says which.
    """
    if name in COMMANDS:
        module, _, function = COMMANDS[name].target.partition(":")
        return getattr(import_module(module), function)  # type: ignore[no-any-return]
    if name in SERVICE_COMMANDS:
        return _offered(name)
    for entry in entry_points(group=GROUP, name=name):
        return service_modules.load(entry)  # type: ignore[no-any-return]
    meant = get_close_matches(name, COMMANDS | SERVICE_COMMANDS, n=1)
    instead = f"; did you mean {meant[0]!r}?" if meant else ";"
    raise KeyError(f"no command {name[:100]!r}{instead} paceline --help lists them")


def _offered(name: str) -> Main:
    extra = SERVICE_COMMANDS[name].target
    for entry in entry_points(group=GROUP, name=name):
        try:
            return service_modules.load(entry)  # type: ignore[no-any-return]
        except ModuleNotFoundError as error:
            raise MissingError(f"{name} needs {error.name}; {install(extra)}") from error
    raise MissingError(f"{name}: not installed here; {install(extra)}")


def _help_without(name: str, missing: str) -> str:
    """What ``--help`` can say of a command whose extra is not installed.

    >>> print(_help_without("why", "why needs ahocorasick_rs"))
    paceline why: find why a job hung or died, from its logs, dumps and stacks
    <BLANKLINE>
    Its options are shown once its extra [postmortem] is installed:
    why needs ahocorasick_rs
    """
    command = SERVICE_COMMANDS[name]
    extra = f"Its options are shown once its extra [{command.target}] is installed:"
    return f"paceline {name}: {command.help}\n\n{extra}\n{missing}"


def _reason(error: BaseException) -> str:
    """On one line, what ``error`` came of: what a library makes of a missing page of memory fills a screen."""
    while error.__cause__ is not None:
        error = error.__cause__
    return " ".join(f"{type(error).__name__}: {error}".split())[:300].removesuffix(":")


def _run(name: str, command: Main, args: list[str]) -> int:
    """Run ``command``; a service of which a part is not installed says what brings it, and what the machine refuses
    (no room on a disk, no descriptor, no memory) is one line."""
    try:
        return command(args)
    except (OSError, MemoryError) as error:
        if isinstance(error, BrokenPipeError) and reader_has_gone(sys.stdout):
            raise
        say(f"{name}: {_reason(error)}")
        return 1
    except ModuleNotFoundError as error:
        if name not in SERVICE_COMMANDS:
            raise
        say(f"{name} needs {error.name}; {install(SERVICE_COMMANDS[name].target)}")
        return 2


def main(argv: list[str] | None = None) -> int:
    """Run one sub-command and return its exit status."""
    args = sys.argv[1:] if argv is None else argv
    try:
        # What `paceline run` starts runs whatever fails of ours, so it has a net of its own around all of it.
        return find("run")(args[1:]) if args[:1] == ["run"] else _until_reader_leaves(args)
    except KeyboardInterrupt:
        return 130


def _until_reader_leaves(args: list[str]) -> int:
    """Run them; where nobody reads standard output any more (``| head -1``) that is the end, without a word."""
    ready_streams()
    status = 0
    try:
        try:
            status = _main(args)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        write_nowhere(sys.stdout)
    return status


def _main(args: list[str]) -> int:
    if not args or args[0] in (*HELP, "help"):
        print(usage())
        return 0 if args else 2
    if args[0] in ("-V", "--version"):
        print(f"paceline {paceline.__version__}")
        return 0
    sys.excepthook = tell_crash
    try:
        try:
            command = find(args[0])
        except MissingError as error:
            missing = str(error.args[0])
            if any(word in HELP for word in args[1:]):
                print(_help_without(args[0], missing))
                return 0
            say(missing)
            return 2
        except (KeyError, ModuleNotFoundError) as error:
            say(str(error.args[0]))
            return 2
        except (ImportError, OSError, MemoryError) as error:
            say(f"{args[0]} cannot be loaded: {_reason(error)}")
            return 1
        return _run(args[0], command, args[1:])
    except SettingError as error:
        say(str(error))
        return 2


if __name__ == "__main__":
    sys.exit(main())
