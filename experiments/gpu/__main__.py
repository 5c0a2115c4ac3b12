"""``python -m experiments.gpu``: every prediction about the probe on a GPU, tried here.

Rule of this file: the standard library until the bundle is unpacked; what stands in the way is one line and status 2.
"""

import argparse
import json
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from experiments.gpu import bundle, machine

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "benchmarks.md"
#: Where the runs' files and the results stay: a folder that git does not look into.
KEPT = ROOT / ".paceline" / "gpu"


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="make test-gpu", description=__doc__.splitlines()[0])
    made.add_argument("--cpu", action="store_true", help="the forms of the cases that need no GPU")
    made.add_argument("--list", action="store_true", help="say what is predicted, and run nothing")
    made.add_argument("--only", metavar="NAME", nargs="+", help="these cases alone")
    made.add_argument("--seconds", type=float, default=480.0, help="all cases together (default: %(default).0f)")
    made.add_argument("--folder", type=Path, default=KEPT, help="for the runs' files, emptied (default: %(default)s)")
    made.add_argument("--json", metavar="FILE", type=Path, help="what was read (default: results.json in that folder)")
    made.add_argument("--from", dest="told", metavar="FILE", type=Path, help="run nothing: read such a file instead")
    made.add_argument("--write", action="store_true", help="put the table into docs/benchmarks.md")
    made.add_argument("--wheels", metavar="DIR", type=Path, default=ROOT / ".wheels", help="default: %(default)s")
    return made


def main() -> int:
    options = parser().parse_args()
    with tempfile.TemporaryDirectory(prefix="paceline-wheels-") as folder:
        bundle.unpack(options.wheels, Path(folder))
        if absent := bundle.missing():
            return _refuse(
                f"{sys.executable} lacks {', '.join(absent)}; fix: `make gpu-bundle` where there is a network"
            )
        if options.list:
            return _list()
        told = json.loads(options.told.read_text()) if options.told else _run(options)
        if isinstance(told, str):
            return _refuse(told)
        return _finish(told, write=options.write)


def _run(options: argparse.Namespace) -> dict[str, Any] | str:
    """Run the cases; what was found, or why nothing could be."""
    from experiments.gpu import report, runner
    from experiments.gpu.case import NOT_RUN
    from experiments.gpu.table import CASES, TWO_RANKS

    facts = machine.asked()
    if isinstance(facts, str):
        return f"{sys.executable} cannot say what it runs on: {facts}"
    if facts["device"] is None and not options.cpu:
        return f"no GPU: PyTorch {facts['torch']} of {sys.executable} sees none; ARGS=--cpu runs what needs none"
    # Which back end two ranks use is a question of a GPU alone.
    first = [] if options.cpu else [TWO_RANKS]
    wanted = {*options.only, *first} if options.only else {case.name for case in CASES}
    if unknown := wanted - {case.name for case in CASES}:
        return f"no case {', '.join(sorted(unknown))}; ARGS=--list names them"
    cases, start = [case for case in CASES if case.name in wanted], time.monotonic()

    def tell(outcome: runner.Outcome) -> None:
        took = "" if outcome.reading.outcome == NOT_RUN else f" ({outcome.took_s:.0f} s)"
        print(f"{outcome.case.name}: {outcome.reading.outcome}: {outcome.reading.words}{took}", flush=True)

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    shutil.rmtree(options.folder, ignore_errors=True)
    options.folder.mkdir(parents=True)
    device = "cpu" if options.cpu else "cuda"
    print(f"{len(cases)} cases on {facts['device'] or facts['processor']}, {options.seconds:.0f} s at most", flush=True)
    outcomes = runner.run(cases, device, options.folder, tell, options.seconds)
    told = report.found(facts, device, outcomes, time.monotonic() - start)
    report.save(told, options.json or options.folder / "results.json")
    return told


def _finish(told: dict[str, Any], *, write: bool) -> int:
    from experiments import markdown
    from experiments.gpu import report
    from experiments.gpu.case import BROKEN, FAILS

    print(report.summary(told["cases"]))
    if write and told["device"] != "cuda":
        return _refuse("docs/benchmarks.md tells of GPUs alone: nothing is written")
    if write:
        markdown.write(PAGE, "gpu", report.page(told))
    return int(any(row["outcome"] in (FAILS, BROKEN) for row in told["cases"]))


def _list() -> int:
    from experiments.gpu.table import CASES

    for case in CASES:
        print(f"{case.name}: {case.proves}: {case.predicted}{'' if case.on_cpu else ' (needs CUDA)'}")
    return 0


def _refuse(why: str) -> int:
    print(f"make test-gpu: {why}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
