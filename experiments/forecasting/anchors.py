"""Other people's methods on the cases of the contest: ``make bench-anchors DATA=FOLDER``.

statsforecast's AutoETS, AutoTheta and MSTL, in an environment of their own, with their defaults but for additive errors
of AutoETS: left free, they may be multiplicative, whose intervals reach any number. Each gets the case's context, gaps
bridged, and the season that the base repeats (AutoETS takes none above 24). Where statsforecast is not installed, in
the environment of everything else, fracast and Prophet as the forecaster asks them.
"""

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from forecaster.forecast import forecast
from forecaster.models.registry import registry
from forecaster.series import Array, Series

from ..markdown import table, write
from .contest import ASKED, BASE, Tally, asked, base_of, scale_of, season_of
from .data import Case, cases, missing, tasks
from .report import summary

ROOT = Path(__file__).parents[2]
#: Central intervals whose ends are ``ASKED``, without the median.
INTERVALS = (20, 40, 60, 80, 95)
#: No season of AutoETS is longer.
LONGEST_SEASON = 24

#: From a case and a horizon to steps x ``ASKED``.
Method = Callable[[Case, int], Array]


def methods() -> dict[str, Method]:
    """Those that this environment has."""
    try:
        from statsforecast.models import MSTL, AutoETS, AutoTheta
    except ModuleNotFoundError:
        return {name: _ours(name) for name in ("fracast", "prophet")}
    return {
        "AutoETS": _of(lambda season: AutoETS(season if season <= LONGEST_SEASON else 1, model="AZZ")),
        "AutoTheta": _of(lambda season: AutoTheta(season)),
        "MSTL": _of(lambda season: MSTL([season]) if season > 1 else AutoETS(1, model="AZZ")),
    }


def _ours(name: str) -> Method:
    """One that the forecaster has, too."""
    models = registry(None)
    return lambda case, horizon: forecast(asked(case, horizon, name), models).values


def _of(made: Callable[[int], Any]) -> Method:
    """A method of statsforecast, from what makes its model for a season."""

    def quantiles(case: Case, horizon: int) -> Array:
        past = np.asarray(Series.of(case.context, case.series.interval_s).filled, dtype=np.float64)
        told = made(season_of(case)).forecast(past, horizon, level=list(INTERVALS))
        columns = {0.5: told["mean"]}
        for share in INTERVALS:
            columns[0.5 - share / 200] = told[f"lo-{share}"]
            columns[0.5 + share / 200] = told[f"hi-{share}"]
        rows = np.stack([columns[level] for level in sorted(columns)], axis=1)
        return np.asarray(np.sort(np.clip(rows, case.series.low, case.series.high), axis=1))

    return quantiles


def judged(data: Path, part: str, share: float) -> dict[str, dict[str, Tally]]:
    """Task -> name -> its tally. What fails, or is no number, answers as the base does, and is counted."""
    tried, told = methods(), dict[str, dict[str, Tally]]()
    for task in tasks(data):
        chosen = list(cases(task, "dev" if part == "dev" else "held-out"))
        tallies = told[task.name] = {name: Tally() for name in (BASE, *tried)}
        for case in chosen[: max(4, round(len(chosen) * share))]:
            scale = scale_of(case)
            base = np.repeat(base_of(case, task.horizon)[:, None], len(ASKED), axis=1)
            tallies[BASE].append(case, base, scale, 0.0)
            for name, method in tried.items():
                began_s = time.perf_counter()
                try:
                    made = method(case, task.horizon)
                except Exception:  # whatever it is that fails there
                    made = np.full_like(base, np.nan)
                if not np.isfinite(made).all():
                    tallies[name].unsuited += 1
                    made = base
                tallies[name].append(case, made, scale, time.perf_counter() - began_s)
        print(f"{task.name}: {len(tallies[BASE].errors)} cases", file=sys.stderr, flush=True)
    return told


def main() -> int:
    """Run them and print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="the recorded data")
    parser.add_argument("--part", choices=["held-out", "dev"], default="held-out")
    parser.add_argument("--share", type=float, default=1.0, help="of the cases to run (1.0)")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md")
    args = parser.parse_args()
    if (refusal := missing(args.data)) is not None:
        print(f"experiments.forecasting.anchors: {refusal}", file=sys.stderr)
        return 2
    warnings.simplefilter("ignore")
    told = judged(args.data, args.part, args.share)
    rows = []
    for name, mase, wql in summary(told, list(methods())):
        every = [tallies[name] for tallies in told.values()]
        inside = np.mean([np.mean(one.inside) for one in every])
        took_ms = 1e3 * np.median(np.concatenate([one.seconds for one in every]))
        unsuited = sum(one.unsuited for one in every)
        rows.append([name, f"{mase:.3f}", f"{wql:.3f}", f"{inside:.0%}", f"{took_ms:.0f}", str(unsuited)])
    count = sum(len(tallies[BASE].errors) for tallies in told.values())
    text = (
        f"{date.today():%d %B %Y}, {count} cases of {len(told)} tasks, relative to repeating the last season "
        f"(geometric means over tasks):\n\n{table(['method', 'MASE', 'wQL', 'inside 80 %', 'ms', 'not able'], rows)}\n"
    )
    print(text)
    if args.write:
        # Each environment has methods of its own, and a place of its own on the page.
        write(ROOT / "docs" / "benchmarks.md", f"anchors: {', '.join(sorted(methods()))}", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
