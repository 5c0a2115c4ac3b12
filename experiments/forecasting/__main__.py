"""Rolling-origin evaluation on recorded data: `make bench-forecasting`.

    python -m experiments.forecasting --data FOLDER --cache FOLDER       each source by what was learned without it
    python -m experiments.forecasting --data FOLDER                      every member of the ensemble and the default
    python -m experiments.forecasting --data FOLDER --models pool,fracast,prophet --share 0.1  slow ones, a tenth of it
    python -m experiments.forecasting --data FOLDER --write              into docs/benchmarks.md, with a picture

What belongs in FOLDER: docs/benchmarks.md, "Forecasting".

With ``--cache`` (of ``experiments.forecasting.network --leave-out`` and ``experiments.forecasting.gate --leave-out``)
network and gate have seen nothing of the source that they are judged on. Without, the network answers with weights that
were trained on the development halves alone (network.npz here); those shipped have seen all of it.

Cycles and kinds of job follow; --no-forecasts leaves only them.
"""

import argparse
import os
import sys
from datetime import date
from pathlib import Path

from forecaster import gate
from forecaster.models import network, patches
from forecaster.models.registry import Registry, registry
from forecaster.question import ENSEMBLE

from ..markdown import write
from . import cycles, day_ahead, ends, evidence, full, job_kinds, published, report
from .contest import UNGATED, contest
from .data import cases, missing, tasks

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PICTURE = "images/forecasting.svg"


def main() -> int:
    """Run the contest and print or write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="the recorded data; asked for")
    parser.add_argument("--cache", type=Path, metavar="FOLDER", help="what was learned without each source")
    parser.add_argument("--part", choices=["held-out", "dev"], default="held-out")
    parser.add_argument(
        "--models", default=",".join([ENSEMBLE, UNGATED, *registry(None).members]), help="names, with commas"
    )
    parser.add_argument("--share", type=float, default=1.0, help="of the cases to run (1.0)")
    parser.add_argument("--machine", default=f"{os.cpu_count()} cores", help="for the report's first line")
    parser.add_argument("--no-forecasts", action="store_true", help="only cycles and kinds of job")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md and the picture")
    args = parser.parse_args()
    if (refusal := missing(args.data)) is not None:
        print(f"experiments.forecasting: {refusal}", file=sys.stderr)
        return 2
    text = "" if args.no_forecasts else forecasts(args)
    text += report.rows(
        "Cycles, found within 2 % of the true period, near within 5 %, wrong beyond", cycles.evaluate(args.data)
    )
    text += report.rows("Kinds of job", job_kinds.evaluate(args.data))
    text += report.rows("Ends of jobs, errors and widths as shares of what was left", ends.evaluate(args.data))
    text += report.rows("Memory, asked at moments before it is full", full.evaluate(args.data, learned(None, "")))
    told = published.evaluate(args.data, args.part, learned(None, ""))
    text += report.rows("Inside the 80 % interval that was published so many steps ahead, on the bus", list(told))
    ahead = day_ahead.evaluate(args.data, learned(None, ""))
    title = "A cluster a day ahead by the quarter hour, losses as shares of repeating yesterday"
    text += report.rows(title, list(ahead))
    print(text)
    if args.write:
        write(ROOT / "docs" / "benchmarks.md", "forecasting", text)
    return 0


def forecasts(args: argparse.Namespace) -> str:
    """The contest's tables; with ``--write`` also its picture."""
    names, results = args.models.split(","), {}
    for task in tasks(args.data):
        chosen = list(cases(task, args.part))
        chosen = chosen[: max(4, round(len(chosen) * args.share))]
        results[task.name] = contest(chosen, task.horizon, names, learned(args.cache, task.source), lambda text: None)
        print(f"{task.name}: {len(chosen)} cases", file=sys.stderr, flush=True)
    said = f"{args.machine}, {date.today():%d %B %Y}. "
    said += "What was learned has seen nothing of the source that it is judged on." if args.cache else ""
    text = report.tables(results, names, said)
    if args.write:
        report.plot(results, names, ROOT / "docs" / PICTURE)
        text += f"\n![wQL by task and model]({PICTURE})\n"
    return text + "\n"


def learned(cache: Path | None, source: str) -> Registry:
    """The models that a source is judged by."""
    if cache is None:
        return registry(network.read(HERE / "network.npz"), gate=gate.shipped(), pretrained=patches.shipped())
    weights = network.read(evidence.weights_without(cache, source))
    pretrained = patches.read(evidence.pretrained_without(cache, source))
    return registry(weights, gate=gate.read(cache / f"gate-without-{source}.json"), pretrained=pretrained)


if __name__ == "__main__":
    sys.exit(main())
