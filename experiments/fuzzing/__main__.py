"""Hostile bytes for every decoder, recording reader, importer and HTTP route: ``make fuzz``.

    make fuzz                          20 minutes, all targets, both processors
    make fuzz MINUTES=2 TARGET=bus     two minutes for what comes from the bus
    make fuzz ARGS=--list              the targets
    python -m experiments.fuzzing --target bus.op --input FILE     one input again

Each target gets its share of the time in a process of its own. What it finds is kept in .paceline/fuzz: inputs that
reach something new under corpus, to go on from the next time; inputs that are findings under findings. Status 1 where
there are any.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

with warnings.catch_warnings():
    # The Kafka client reads its schemas by a function that Python has deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from . import http
    from .target import ROOT, Target
    from .targets import every

TARGETS = every()
FOLDER = ROOT / ".paceline" / "fuzz"
LEAST_S = 5


@dataclass
class Result:
    """What became of a target."""

    name: str
    inputs: int = 0
    seconds: float = 0.0
    coverage: int = 0
    new: int = 0
    findings: list[str] = field(default_factory=list)


def main(argv: list[str] | None = None) -> int:
    """Fuzz, or repeat one input; the exit status."""
    options = _parser().parse_args(argv)
    names = [name for name in (*TARGETS, *http.names()) if name.startswith(options.target)]
    if options.list:
        print("\n".join(names))
        return 0
    if not names:
        print(f"fuzz: no target begins with {options.target!r}; --list names them", file=sys.stderr)
        return 2
    if options.input is not None:
        return _repeat(names, options.input)
    return _fuzz(names, options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="experiments.fuzzing", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=_positive, default=20.0, metavar="N", help="for all but HTTP (default: 20)")
    parser.add_argument("--target", default="", metavar="NAME", help="only targets whose names begin so")
    parser.add_argument("--processes", type=int, default=2, metavar="N", help="side by side (default: 2)")
    parser.add_argument(
        "--requests", type=int, default=20_000, metavar="N", help="a route of HTTP (default: 20000; 0: none)"
    )
    parser.add_argument("--input", type=Path, metavar="FILE", help="give the target this file and show what happens")
    parser.add_argument("--list", action="store_true", help="name the targets")
    return parser


def _positive(raw: str) -> float:
    value = float(raw)
    if not 0 < value <= 10_000:
        raise ValueError
    return value


def _repeat(names: list[str], path: Path) -> int:
    if len(names) != 1 or names[0] not in TARGETS:
        print("fuzz: --input needs --target with the whole name of one", file=sys.stderr)
        return 2
    taken = TARGETS[names[0]].check(path.read_bytes())
    print(f"{names[0]}: {'read' if taken else 'refused, as documented'}")
    return 0


def _fuzz(names: list[str], options: argparse.Namespace) -> int:
    began_s = time.monotonic()
    bytewise = [TARGETS[name] for name in names if name in TARGETS]
    results: list[Result] = []
    total = sum(target.share for target in bytewise)
    routes = len(names) - len(bytewise) if options.requests else 0
    print(f"{len(bytewise)} targets in {options.minutes:g} minutes, then {routes} routes", flush=True)
    with ThreadPoolExecutor(options.processes) as pool:
        tasks = []
        for target in sorted(bytewise, key=lambda one: -one.share):
            share_s = options.minutes * 60 * options.processes * target.share / total
            tasks.append(pool.submit(_worker, target, max(LEAST_S, round(share_s))))
        tasks += [
            pool.submit(_http, name, options.requests) for name in names if name not in TARGETS and options.requests
        ]
        for task in as_completed(tasks):
            results.append(task.result())
            _tell(results[-1], len(results), len(tasks))
    _table(results, time.monotonic() - began_s)
    return 1 if any(result.findings for result in results) else 0


def _worker(target: Target, seconds: int) -> Result:
    """A process of its own: what ends it, a crash of C code or a hang, ends no other target."""
    log = FOLDER / "logs" / f"{target.name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    before = {path.name for path in (FOLDER / "corpus" / target.name).glob("*")}
    command = [sys.executable, "-m", "experiments.fuzzing.worker", target.name, str(seconds), str(FOLDER)]
    environ = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    began_s = time.monotonic()
    with log.open("wb") as out:
        status = subprocess.run(command, cwd=ROOT, env=environ, stdout=out, stderr=out, check=False).returncode
    said = log.read_text("utf-8", "replace")
    result = Result(target.name, seconds=time.monotonic() - began_s)
    result.inputs = _last(r"number_of_executed_units:\s*(\d+)|^#(\d+)\s", said)
    result.coverage = _last(r"cov: (\d+)", said)
    result.new = len({path.name for path in (FOLDER / "corpus" / target.name).glob("*")} - before)
    result.findings = [_words(target.name, finding) for finding in _findings(said)]
    if status:
        file = re.search(r"Test unit written to (\S+)", said)
        reason = re.findall(r"ERROR: (.*)", said) or said.strip().splitlines()[-1:]
        what = {"finding": f"the process ended with status {status}", "says": " ".join(reason)[:200]}
        result.findings.append(_words(target.name, {**what, "file": file[1] if file else str(log)}))
    return result


def _http(name: str, requests: int) -> Result:
    began_s = time.monotonic()
    command = [sys.executable, "-m", "experiments.fuzzing.http", name, str(requests)]
    environ = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    result = Result(name, seconds=time.monotonic() - began_s)
    log = FOLDER / "logs" / f"{re.sub(r'[^a-z0-9]+', '-', name.lower())}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(done.stdout + done.stderr)
    result.inputs = _last(r"^(\d+) requests$", done.stdout)
    if done.returncode:
        reason = next((line for line in done.stderr.splitlines() if line.startswith("- ")), done.stderr[-200:])
        result.findings.append(f"{name}: {reason}; all of it in {log}")
    return result


def _findings(said: str) -> Iterator[dict[str, str]]:
    for line in said.splitlines():
        if line.startswith('{"finding"'):
            yield json.loads(line)


def _words(name: str, finding: dict[str, str]) -> str:
    repeat = f"{sys.executable} -m experiments.fuzzing --target {name} --input {finding['file']}"
    return f"{name}: {finding['finding']}: {finding['says']}\n    {repeat}"


def _last(pattern: str, text: str) -> int:
    """The last number that ``pattern`` finds in ``text``, or 0."""
    matches = [next(filter(None, match.groups()), "0") for match in re.finditer(pattern, text, re.M)]
    return int(matches[-1]) if matches else 0


def _tell(result: Result, done: int, of: int) -> None:
    rate = result.inputs / result.seconds if result.seconds else 0.0
    state = f"{len(result.findings)} findings" if result.findings else "held"
    print(f"{done}/{of} {result.name}: {result.inputs:,} inputs, {rate:,.0f}/s, {state}", flush=True)
    for finding in result.findings:
        print(f"  {finding}", flush=True)


def _table(results: list[Result], seconds: float) -> None:
    print(f"\n{'target':<28}{'inputs':>12}{'a second':>10}{'coverage':>10}{'new corpus':>12}{'findings':>10}")
    for one in sorted(results, key=lambda one: one.name):
        rate = one.inputs / one.seconds if one.seconds else 0.0
        row = f"{one.name:<28}{one.inputs:>12,}{rate:>10,.0f}{one.coverage:>10,}{one.new:>12,}{len(one.findings):>10}"
        print(row)
    inputs, findings = sum(one.inputs for one in results), sum(len(one.findings) for one in results)
    print(f"\n{inputs:,} inputs in {seconds / 60:.1f} minutes, {findings} findings")


if __name__ == "__main__":
    sys.exit(main())
