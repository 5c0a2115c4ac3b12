"""How well stragglers are found: real runs and simulated jobs with known faults, Paceline beside other tools' rules.

The exit status is 1 where an aim is missed (``aims`` has them). Real runs need PyTorch, and root for slow links; those
that cannot run here are named and left out.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from experiments.detection import real, report, simulated, unseen
from experiments.detection.aims import aims
from experiments.detection.judged import RULES
from experiments.detection.score import Marks
from experiments.machine import machine

EXAMPLES = """\
examples:
  python -m experiments.detection                       everything; the healthy hours take longest
  python -m experiments.detection --quick               a few of each
  python -m experiments.detection --only simulated      one part: real, simulated, unseen (shapes of job) or healthy
  python -m experiments.detection --only simulated --seed 3000000 --paceline     on jobs that nobody has looked at
  python -m experiments.detection --healthy-hours 100 --workers 2
  python -m experiments.detection --json result.json --plot docs/images/detection.png
"""
PARTS = ("real", "simulated", "unseen", "healthy")


def main() -> int:
    options = _options()
    wanted = options.only or PARTS
    hours = options.healthy_hours or (8 if options.quick else 1000)
    began = time.monotonic()
    parts: dict[str, report.By] = {}
    if "real" in wanted:
        parts["real"] = _real(options)
    if "simulated" in wanted:
        parts["simulated"] = _many(simulated.faulty(options.quick, options.seed), options)
    if "unseen" in wanted:
        parts["unseen"] = _many(unseen.jobs(options.seed), options)
    if "healthy" in wanted:
        parts["healthy"] = _many(simulated.healthy(hours, options.seed), options)
    found = {"machine": machine(), "quick": options.quick, "seed": options.seed, "parts": report.figures(parts)}
    found["took_s"] = round(time.monotonic() - began, 1)
    print(report.text(found))
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")
    if options.plot and "simulated" in parts:
        report.picture(found, options.plot)
    return 0 if all(aim.met for aim in aims(found["parts"])) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.detection",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="a few of each")
    parser.add_argument("--only", action="append", choices=PARTS, help="only this part; may be given again")
    parser.add_argument("--eight", action="store_true", help="real runs of eight processes, too")
    parser.add_argument("--healthy-hours", type=int, metavar="N", help="simulated healthy job-hours (default: 1000)")
    parser.add_argument(
        "--seed",
        type=int,
        default=simulated.SEED,
        metavar="N",
        help="the first seed of the simulated jobs: another one makes jobs that no threshold was seen on",
    )
    parser.add_argument("--paceline", action="store_true", help="leave the other tools' rules out of simulated jobs")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="processes to simulate in (default: 1)")
    parser.add_argument("--recordings", type=Path, metavar="DIR", help="keep the real runs' recordings there")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers there, too")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw recall by size there")
    return parser.parse_args()


def _real(options: argparse.Namespace) -> report.By:
    found: report.By = {rule: [] for rule in RULES}
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.recordings or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for one in real.runs(options.quick, options.eight):
            try:
                marks = real.run(one, folder)
            except (real.RunError, real.LinkError) as error:
                _say(f"left out: {error}")
                continue
            _tell(one.name, marks)
            for rule, mark in marks.items():
                found[rule].append(mark)
    return found


def _many(jobs: list[simulated.Planned], options: argparse.Namespace) -> report.By:
    found: report.By = {rule: [] for rule in RULES}
    if options.paceline:
        jobs = [job._replace(others=False) for job in jobs]
    began = time.monotonic()
    for number, (job, marks) in enumerate(zip(jobs, _results(jobs, options.workers), strict=True), 1):
        for rule, mark in marks.items():
            found[rule].append(mark)
        own = marks[RULES[0]]
        if job.spec.faults or own.false_accusations or own.false_remarks or number % 20 == 0:
            _tell(f"{number}/{len(jobs)}, {time.monotonic() - began:.0f} s: {job.name}", marks)
    return {rule: marks for rule, marks in found.items() if marks}


def _results(jobs: list[simulated.Planned], workers: int) -> Iterable[dict[str, Marks]]:
    if workers == 1:
        yield from map(simulated.run, jobs)
        return
    with ProcessPoolExecutor(workers) as pool:
        yield from pool.map(simulated.run, jobs)


def _tell(name: str, marks: dict[str, Marks]) -> None:
    own = marks[RULES[0]]
    said = []
    for one in own.outcomes:
        after = f" after {one.confirmed_steps} steps" if one.found else ""
        cause = ", right cause" if one.cause_right else ", wrong cause" if one.found else ""
        said.append(("found" if one.found else "MISSED") + after + cause)
    said += [f"FALSE {text}" for text in own.false_accusations + own.false_remarks]
    _say(f"{name}: {'; '.join(said) or 'silent'}")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
