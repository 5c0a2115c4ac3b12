"""``paceline trial``: which placement of a training command is fastest, by short runs of it.

Rule of this file: options to a trial, and its answer to a person. Nothing is started unasked; however we are ended, no
job is left.
"""

import argparse
import contextlib
import hashlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec

from paceline.options import Parser
from paceline.terminal import Progress, say
from paceline.visible import visible
from paceline.yaml_document import LONGEST

from . import dry_run, executors, inside, machine, report
from .candidates import Candidates, expand
from .executor import Executor, ExecutorError
from .halving import Config, Halving
from .journal import NAME as JOURNAL
from .journal import Journal, JournalError
from .outcomes import run_of
from .result import Told
from .running import Running
from .spec import Spec, SpecError, read

EXAMPLES = """\
examples:
  paceline trial trial.yaml -- torchrun --nproc-per-node {ranks} train.py --batch-size {batch_size}
                                                  what it would do, and how long that takes: nothing is started
  paceline trial trial.yaml --run -- torchrun --nproc-per-node {ranks} train.py --batch-size {batch_size}
                                                  do it; the same command goes on where it was ended
  paceline trial trial.yaml --json -- torchrun …  what is known so far, as JSON

docs/trials.md has every key of the spec."""
INTERRUPTED = 130
#: Where standard error is no terminal, what runs now is said so often; a run's result has a line of its own.
QUIET_S = 60.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = Parser(
        prog="paceline trial",
        usage="paceline trial SPEC.yaml [--run] [--folder DIR] [--json] [--fresh] -- COMMAND …",
        description="Find the fastest placement of a training command by short runs (successive halving).\n"
        "Needs a SPEC.yaml.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("spec", metavar="SPEC.yaml", help="what is tried, and how long; - for standard input")
    what = made.add_mutually_exclusive_group()
    what.add_argument("--dry-run", action="store_true", help="print what it would do, and start nothing")
    what.add_argument("--run", action="store_true", help="start it; without, a terminal is asked, and nothing starts")
    made.add_argument(
        "--folder",
        metavar="DIR",
        help="folder of its journal, logs and recordings (default: by its name, in the user's state folder)",
    )
    made.add_argument("--json", action="store_true", help="the result as JSON on standard output")
    made.add_argument("--fresh", action="store_true", help="delete the folder's content and start again")
    return made


def main(arguments: list[str] | None = None) -> int:
    """Plan, run or go on with a trial; the exit status."""
    words = sys.argv[1:] if arguments is None else arguments
    if words[:1] == ["--inside"]:  # What its jobs start on their nodes.
        return inside.main(words[1:])
    before, dashes, command = _parted(words)
    options = parser().parse_args(before)
    if not dashes or not command:
        say("trial: no command; try: paceline trial SPEC.yaml -- torchrun --nproc-per-node {ranks} train.py")
        return 2
    try:
        return _trial(options, tuple(command))
    except (SpecError, ExecutorError, JournalError) as error:
        say(f"trial: {error}")
        return 2 if isinstance(error, SpecError) else 1


def _parted(words: list[str]) -> tuple[list[str], bool, list[str]]:
    at = words.index("--") if "--" in words else len(words)
    return words[:at], at < len(words), words[at + 1 :]


def _trial(options: argparse.Namespace, command: tuple[str, ...]) -> int:
    spec = read(_text(options.spec), "standard input" if options.spec == "-" else options.spec)
    folder = Path(options.folder).absolute() if options.folder else _folder(spec.name)
    here = machine.topology() if spec.executor_name == "local" else None
    candidates = expand(spec, command, here, machine.rated(here) if here else None)
    stop = threading.Event()
    executor = executors.made(spec, folder, stop)
    with contextlib.closing(executor):
        candidates, manifests = dry_run.refused(candidates, executor, spec, command, folder, executors.paceline(spec))
        _show(spec, candidates, manifests, executor, command, quiet=options.json or options.run)
        if not candidates.possible:
            raise SpecError("no placement is possible, for the reasons above")
        if not (options.run or (not (options.dry_run or options.json) and _asked())):
            return _known(options, spec, candidates, command, folder)
        return _run(options, spec, candidates, executor, command, folder, stop)


def _text(path: str) -> str:
    try:
        with open(0 if path == "-" else path, encoding="utf-8", closefd=path != "-") as stream:
            return stream.read(LONGEST + 1)
    except OSError as error:
        raise SpecError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SpecError(f"{path}: no UTF-8 text") from error


def _folder(name: str) -> Path:
    home = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local/state")
    return Path(home) / "paceline" / "trials" / name


def _show(
    spec: Spec,
    candidates: Candidates,
    manifests: dict[int, str],
    executor: Executor,
    command: tuple[str, ...],
    *,
    quiet: bool,
) -> None:
    """The plan; where it runs at once only what is left out."""
    plan, _ = dry_run.rungs(spec, len(candidates.possible), executor.parallel)
    if quiet:
        if candidates.possible:
            count = dry_run.counted(len(candidates.possible), "placement")
            say(f"trial {spec.name}: {count}; {plan.splitlines()[-1].strip()}")
        for out in candidates.impossible:
            say(f"impossible: {candidates.label(out.placement)}: {out.reason}")
        return
    print(visible_lines(dry_run.placements(candidates)))
    print(f"\nplan\n{plan}")
    print("\nfirst job of each")
    for one in candidates.possible:
        told, whole = f"  {one.number:>3}  {manifests[one.number]}", f"# {one.number}\n{manifests[one.number]}"
        print(visible_lines(whole if "\n" in manifests[one.number].strip() else told))


def visible_lines(text: str) -> str:
    """``text`` with its line ends, and nothing else that a terminal would obey."""
    return "\n".join(map(visible, text.split("\n")))


def _asked() -> bool:
    """Whether a person at the terminal wants it run."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    with contextlib.suppress(EOFError):
        return input("\nrun it? [y/N] ").strip().lower() in ("y", "yes")
    return False


def _fingerprint(spec: Spec, candidates: Candidates, command: tuple[str, ...]) -> str:
    placements = [repr(one) for one in candidates.possible]
    held = msgspec.json.encode([msgspec.to_builtins(spec), list(command), placements])
    return hashlib.sha256(held).hexdigest()


def _config(spec: Spec, candidates: Candidates) -> Config:
    costs = {one.number: one.cost for one in candidates.possible}
    return Config(costs, spec.rungs, spec.eta, spec.keep, spec.repeats, spec.seed)


def _known(
    options: argparse.Namespace, spec: Spec, candidates: Candidates, command: tuple[str, ...], folder: Path
) -> int:
    """Nothing is started: with ``--json`` what earlier runs have shown."""
    if not options.json:
        print("\nnothing was started; --run does it")
        return 0
    runs: list[Told] = []
    if (folder / JOURNAL).exists():
        journal = Journal(folder, spec.name, _fingerprint(spec, candidates, command))
        journal.close()
        runs = journal.runs
    _print(report.document(spec.name, candidates, _restored(spec, candidates, runs, folder), runs, command))
    return 0


def _print(found: dict[str, Any]) -> None:
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(found)) + b"\n")
    sys.stdout.flush()


@contextlib.contextmanager
def _noticing(asked: threading.Event) -> Iterator[None]:
    """Signals that ask us to end set ``asked``; nothing is interrupted in the middle."""

    def end(_number: int, _frame: FrameType | None) -> None:
        asked.set()

    before = {number: signal.signal(number, end) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _run(
    options: argparse.Namespace,
    spec: Spec,
    candidates: Candidates,
    executor: Executor,
    command: tuple[str, ...],
    folder: Path,
    stop: threading.Event,
) -> int:
    with _noticing(stop):
        journal = Journal(folder, spec.name, _fingerprint(spec, candidates, command), fresh=options.fresh)
        with contextlib.closing(journal):
            halving = _restored(spec, candidates, journal.runs, folder)
            if journal.runs:
                say(f"goes on after {dry_run.counted(len(journal.runs), 'run')} ({folder})")
            program, progress = executors.paceline(spec), Progress(QUIET_S)
            running = Running(
                spec,
                command,
                candidates,
                executor,
                journal,
                halving,
                program,
                folder,
                progress.say,
                stop,
                progress.tell,
            )
            try:
                done = running.run()
            finally:
                progress.end()
            found = report.document(spec.name, candidates, halving, journal.runs, command)
            _save(folder, found)
    if options.json:
        _print(found)
    else:
        print(visible_lines(report.table(found)))
    if not done:
        say(f"ended early, nothing is left running; the same command goes on where it was ({folder})")
        return INTERRUPTED
    return 0 if found["winners"] else 1


def _restored(spec: Spec, candidates: Candidates, runs: list[Told], folder: Path) -> Halving:
    try:
        return Halving.restore(_config(spec, candidates), [run_of(one) for one in runs])
    except ValueError as error:
        raise JournalError(
            f"{folder}: the journal does not fit this trial ({error}); start again with --fresh"
        ) from error


def _save(folder: Path, found: dict[str, Any]) -> None:
    """``result.json`` and ``report.md``, each all at once."""
    documents = {"result.json": msgspec.json.encode(found), "report.md": report.markdown(found).encode()}
    for name, held in documents.items():
        path = folder / f"{name}.new"
        try:
            path.write_bytes(held)
            path.replace(folder / name)
        except OSError as error:
            raise JournalError(f"{path}: {error.strerror}; the runs are kept, the same command tells them") from error


if __name__ == "__main__":
    sys.exit(main())
