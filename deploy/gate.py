"""What `make test`, `make test-all` and `make test-part` run, and what they say in the end.

Rules of this file: it needs a Python and nothing else, for it runs before the environment is there. Everything that is
fetched is fetched first, side by side; a failure there is one of the environment (status 3), not of what is tested.
A failed test is run again once, alone, after the others, only where a slow machine can have been the reason
(``repeatable``), and is reported as FLAKY then, however it ends. The last lines name every failed and flaky test
with its reason, the seconds by part and of the longest files, and the load of the machine before and after.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PLUGIN_NAMES = ("no_skips", "gate_report", "one_report", "rewritten_ahead")
PYTEST = [".venv/bin/python", "-m", "pytest", *(word for name in PLUGIN_NAMES for word in ("-p", name))]
#: Whole: a test may stand in a folder that has gone.
PLUGINS = str(ROOT / "tests" / "plugins")
FAILED, NOT_TO_BE_HAD = 1, 3
#: pytest's status where the marks left nothing to run.
NOTHING_RUN = 5

#: Ring 1 is all that is quick, and of the programs those marked ``landing``; ring 2 is the rest.
PROGRAMS = "bus or browser or e2e or training or network"
ELSEWHERE = "gpu or frameworks"
RING_1 = f"landing or not (slow or {PROGRAMS} or {ELSEWHERE})"
#: With no more failed tests than this, a busy machine can be the reason.
MOST_REPEATED = 3
#: So many files that took longest are named in the end: where a ring that takes too long is to be cut first.
LONGEST = 12

#: Which parts of ring 2 (folders of tests/) a change of a folder owes; the longest name that fits counts.
OWED: dict[str, tuple[str, ...]] = {
    "annotator": ("annotator", "deploy"),
    "archive": ("archive", "ui", "streams", "deploy"),
    "collectors": ("collectors",),
    "control": ("control", "ui"),
    "deploy": ("deploy",),
    "docker-compose.yml": ("deploy", "e2e"),
    "experiments": ("experiments",),
    "forecaster": ("forecaster",),
    "importers": ("importers",),
    "paceline": ("paceline", "streams", "collectors", "control", "e2e"),
    "paceline/alerts": ("paceline",),
    "paceline/balance": ("paceline", "experiments", "docs"),
    "paceline/commands": ("paceline", "e2e"),
    "paceline/energy": ("paceline", "streams", "ui", "control"),
    "paceline/gpu": ("paceline", "collectors"),
    "paceline/history": ("paceline", "archive", "ui", "streams", "forecaster"),
    "paceline/otlp": ("paceline",),
    "paceline/sidecar": ("paceline", "e2e"),
    "paceline/top": ("paceline",),
    "paceline/tracking": ("paceline", "e2e"),
    "paceline/training": ("paceline", "e2e", "experiments"),
    "postmortem": ("postmortem",),
    "pyproject.toml": ("deploy", "e2e"),
    "requirements.lock": ("streams", "paceline", "ui", "forecaster", "control", "e2e"),
    "simulator": ("simulator", "streams"),
    "streams": ("streams", "e2e"),
    "trials": ("trials",),
    "ui": ("ui",),
}


class Failure(NamedTuple):
    """A test that failed: its id, its marks, whether waiting took too long (else a value was wrong), and the reason."""

    test: str
    marks: tuple[str, ...]
    timed_out: bool
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.test}: {self.reason}" if self.reason else self.test


class Report(NamedTuple):
    """What one run of pytest came to: counts by outcome, seconds by part and by file."""

    failures: tuple[Failure, ...]
    counts: dict[str, int]
    seconds: dict[str, float]
    files: dict[str, float]


def repeatable(failures: Sequence[Failure]) -> bool:
    """Whether these may be run again: few, all of them programs that waited in vain.

    >>> waited = Failure("tests/ui/test_browser.py::test_a", ("browser",), True)
    >>> repeatable([waited])
    True
    >>> repeatable([waited._replace(timed_out=False)]), repeatable([waited._replace(marks=("e2e", "exactly_once"))])
    (False, False)
    """
    programs, never = {"bus", "browser", "e2e", "network"}, {"training", "exactly_once"}
    return 0 < len(failures) <= MOST_REPEATED and all(
        one.timed_out and programs.intersection(one.marks) and not never.intersection(one.marks) for one in failures
    )


def owed(changed: Sequence[str]) -> list[str]:
    """The parts of ring 2 that changes of these files owe, a test's own part among them.

    >>> owed(["paceline/gpu/xids.py", "tests/ui/test_feed.py", "README.md"])
    ['collectors', 'paceline', 'ui']
    """
    parts = set()
    for path in changed:
        folders = path.split("/")
        if folders[0] == "tests" and len(folders) > 2:
            parts.add(folders[1])
        fitting = [name for name in OWED if path == name or path.startswith(name + "/")]
        parts.update(OWED[max(fitting, key=len)] if fitting else ())
    return sorted(part for part in parts if (ROOT / "tests" / part).is_dir())


def read_report(path: Path) -> Report:
    """What ``tests/plugins/gate_report.py`` wrote at ``path``; nothing where pytest did not come so far."""
    failures: dict[str, Failure] = {}
    counts: dict[str, int] = defaultdict(int)
    seconds: dict[str, float] = defaultdict(float)
    files: dict[str, float] = defaultdict(float)
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        row = json.loads(line)
        seconds[row["part"]] += row["seconds"]
        files[row["test"].partition("::")[0]] += row["seconds"]
        counts[row["outcome"]] += row["phase"] == "call" or row["outcome"] != "passed"
        if row["outcome"] == "failed":
            failures[row["test"]] = Failure(row["test"], tuple(row["marks"]), row["timed_out"], row["reason"])
    return Report(tuple(failures.values()), counts, seconds, files)


class Gate:
    """One run: what was tried so far, and how it ended."""

    def __init__(self, workers: str, more: Sequence[str]) -> None:
        self._workers = workers
        self._more = list(more)
        self._folder = Path(tempfile.mkdtemp(prefix="paceline-gate-"))
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._load = _load()
        self._took: dict[str, float] = {}
        self._seconds: dict[str, float] = defaultdict(float)
        self._files: dict[str, float] = defaultdict(float)
        self._counts: dict[str, int] = defaultdict(int)
        self._failed: list[str] = []
        self._flaky: list[Failure] = []
        self._repeat: list[Failure] = []

    def fetch(self) -> bool:
        """Get environment, system packages, Apache Kafka and Helm; false where something was not to be had."""
        began = time.monotonic()
        env = _start(["make", "--no-print-directory", "env"])
        ready = _run(["deploy/system-packages.sh"]) == 0
        if not ready:
            print("gate: environment: system packages could not be installed; the lines above name them", flush=True)
        # Without Java or Maven its tests are skipped, and the line above has said so; in CI that is a failure above.
        elif _run(["deploy/kafka/kafka.sh", "fetch"]) == NOT_TO_BE_HAD:
            ready = False
            print("gate: environment: Apache Kafka could not be fetched; Maven's message is above", flush=True)
        if env.wait() != 0:
            ready = False
            print("gate: environment: .venv could not be built; the lines above say why", flush=True)
        # Elsewhere than on Linux and x86-64 it ends with another status, and its tests are skipped.
        elif _run(["deploy/helm/tools.sh"]) == NOT_TO_BE_HAD:
            ready = False
            print("gate: environment: Helm could not be fetched; pip's message is above", flush=True)
        self._took["fetching"] = time.monotonic() - began
        return ready

    def pytest(self, name: str, marks: str, paths: Sequence[str] = (), *, shared: bool = True) -> None:
        """Run the tests with these marks; ``shared`` by several processes, or one after the other in one."""
        words = [*PYTEST, "-q", "-m", marks, *paths, *self._more]
        if shared:
            words += ["--dist", "loadgroup", "--no-loadscope-reorder", "--numprocesses", self._workers]
        began, path = time.monotonic(), self._folder / f"{name}.jsonl"
        status = _run(words, PYTHONPATH=PLUGINS, GATE_REPORT=str(path))
        self._took[name] = time.monotonic() - began
        report = read_report(path)
        for part, took in report.seconds.items():
            self._seconds[part] += took
        for file, took in report.files.items():
            self._files[file] += took
        for outcome, count in report.counts.items():
            self._counts[outcome] += count
        self._repeat += report.failures
        if report.counts.get("skipped") and os.environ.get("CI") == "true":
            self._failed.append(f"{name}: {report.counts['skipped']} skipped; in CI nothing may be")
        elif not report.failures and status not in (0, NOTHING_RUN):
            self._failed.append(f"{name}: pytest ended with status {status}")

    def beside(self, name: str, words: Sequence[str]) -> Beside:
        """Start a command beside the tests; what it prints is shown when it has ended."""
        return Beside(name, words, self._folder / f"{name}.log")

    def ended(self, other: Beside) -> None:
        """Wait for a command that was started beside the tests."""
        status, self._took[other.name] = other.wait()
        if status:
            self._failed.append(f"{other.name}: ended with status {status}; its lines are above")

    def command(self, name: str, words: Sequence[str]) -> None:
        """Run a command of its own."""
        began = time.monotonic()
        status = _run(words)
        self._took[name] = time.monotonic() - began
        if status:
            self._failed.append(f"{name}: ended with status {status}")

    def repeat(self) -> None:
        """Run what may be run again, alone, once."""
        failures, self._repeat = self._repeat, []
        if not repeatable(failures):
            self._failed += [str(one) for one in failures]
            return
        path = self._folder / "again.jsonl"
        print(f"gate: again, alone: {' '.join(one.test for one in failures)}", flush=True)
        status = _run([*PYTEST, *(one.test for one in failures)], PYTHONPATH=PLUGINS, GATE_REPORT=str(path))
        again = {one.test for one in read_report(path).failures}
        self._flaky += failures
        self._failed += [str(one) for one in failures if one.test in again or status not in (0, FAILED)]
        self._counts["passed"] += len(failures) - len(again)

    def close(self) -> int:
        """Say how it ended, on the last lines; the exit status."""
        took = ", ".join(f"{name} {seconds:.0f}" for name, seconds in self._took.items())
        print(f"\ngate: seconds by the clock: {took}")
        parts = sorted(self._seconds.items(), key=lambda item: -item[1])
        print(f"gate: seconds of tests by part: {', '.join(f'{part} {seconds:.0f}' for part, seconds in parts)}")
        longest = sorted(self._files.items(), key=lambda item: -item[1])[:LONGEST]
        print(f"gate: seconds of the longest files: {', '.join(f'{file} {seconds:.0f}' for file, seconds in longest)}")
        print(f"gate: load (1, 5, 15 min) before {self._load}, after {_load()}")
        for flaky in self._flaky:
            print(f"FLAKY {flaky}")
        for failed in self._failed:
            print(f"FAILED {failed}")
        print(
            f"{self._counts['passed']} passed, {len(self._failed)} failed, {self._counts['skipped']} skipped",
            flush=True,
        )
        self._keep()
        return FAILED if self._failed else 0

    def _keep(self) -> None:
        """Remember flaky tests in this checkout: build/flaky.jsonl has a line each."""
        if not self._flaky:
            return
        kept = ROOT / "build" / "flaky.jsonl"
        kept.parent.mkdir(exist_ok=True)
        with kept.open("a", encoding="utf-8") as file:
            for one in self._flaky:
                kept_row = {"test": one.test, "reason": one.reason, "time_s": time.time(), "load_before": self._load}
                file.write(json.dumps(kept_row) + "\n")


class Beside:
    """A command that runs beside the tests."""

    def __init__(self, name: str, words: Sequence[str], log: Path) -> None:
        self.name = name
        self._log = log
        self._took = 0.0
        with log.open("wb") as output:
            self._process = subprocess.Popen(words, cwd=ROOT, stdout=output, stderr=output)  # noqa: S603 - our own commands
        self._watch = threading.Thread(target=self._until_its_end, args=(time.monotonic(),))
        self._watch.start()

    def _until_its_end(self, began: float) -> None:
        self._process.wait()
        self._took = time.monotonic() - began

    def wait(self) -> tuple[int, float]:
        """Its status and the seconds that it ran; its lines are printed."""
        self._watch.join()
        print(self._log.read_text(encoding="utf-8", errors="replace"), end="", flush=True)
        return self._process.returncode, self._took


def _start(words: Sequence[str], **environ: str) -> subprocess.Popen[bytes]:
    # What `make test` tells its own children of itself would change what a `make` in a test prints.
    inherited = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    # Processes beside each other with as many threads of linear algebra as cores spin, at worst for minutes.
    return subprocess.Popen(words, cwd=ROOT, env={**inherited, "OPENBLAS_NUM_THREADS": "1", **environ})  # noqa: S603 - our own commands


def _run(words: Sequence[str], **environ: str) -> int:
    process = _start(words, **environ)
    try:
        return process.wait()
    except KeyboardInterrupt:  # A Ctrl-C reached it as well; a signal to this process alone did not.
        process.terminate()
        process.wait()
        raise


def _load() -> str:
    try:
        return " ".join(f"{each:.1f}" for each in os.getloadavg())
    except OSError:
        return "unknown"


def _training_files() -> list[str]:
    """The files that judge real training runs: pytest need not collect all others to run a few."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return [str(file.relative_to(ROOT)) for file in files if "mark.training" in file.read_text(encoding="utf-8")]


def _changed() -> list[str]:
    """Files that differ from main, uncommitted ones among them."""
    words = ["git", "diff", "--name-only", "main"]
    return subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()  # noqa: S603 - no input


def run(ring: str, parts: Sequence[str], workers: str, more: Sequence[str]) -> int:
    """Run one ring, or the rest of some parts; the exit status."""
    gate = Gate(workers, more)
    if not gate.fetch():
        return NOT_TO_BE_HAD
    if ring == "part":
        paths = [f"tests/{part}" for part in parts]
        gate.pytest("tests", f"not ({RING_1}) and not (training or {ELSEWHERE})", paths)
    else:
        everything = ring == "all"
        # Verdicts on real training runs come first and have the machine for themselves.
        gate.pytest("training", "training" if everything else "training and landing", _training_files(), shared=False)
        lint = gate.beside("lint", ["make", "--no-print-directory", "lint"])
        own = f"not (training or {ELSEWHERE})"
        gate.pytest("tests", own if everything else f"({RING_1}) and {own}")
        gate.ended(lint)
        gate.command("wheel", ["deploy/wheel-test.sh", *([] if everything else ["--quick"])])
    gate.repeat()
    return gate.close()


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status: 0 passed, 1 failed, 2 wrong arguments, 3 something could not be fetched."""
    parser = argparse.ArgumentParser(prog="gate.py", description="Run the tests of a ring, as `make test` does.")
    parser.add_argument("ring", choices=["land", "all", "part"], help="`make test`, `make test-all`, `make test-part`")
    parser.add_argument("--part", default="", help="folders of tests/ (streams,ui), or owed: by what differs from main")
    parser.add_argument("--workers", default="3", help="processes that share the tests (3)")
    parser.add_argument("--args", default="", help="further arguments of pytest")
    options = parser.parse_args(argv)
    parts = [part for part in options.part.split(",") if part]
    if parts == ["owed"]:
        parts = owed(_changed())
        print(f"gate: parts that the changes owe: {', '.join(parts) or 'none'}", flush=True)
        if not parts:
            return 0
    known = sorted(path.name for path in (ROOT / "tests").iterdir() if any(path.glob("**/test_*.py")))
    if options.ring == "part" and (not parts or set(parts) - set(known)):
        parser.error(f"make test-part PART=…: owed, or of {', '.join(known)}")
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return run(options.ring, parts, options.workers, shlex.split(options.args))
    except KeyboardInterrupt:
        return 130
    finally:
        signal.signal(signal.SIGTERM, before)


if __name__ == "__main__":
    sys.exit(main())
