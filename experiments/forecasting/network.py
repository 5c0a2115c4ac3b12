"""Train the global network on the recorded series: the shipped weights (all of them), and the evaluation's (dev only).

python -m experiments.forecasting.network --data FOLDER --part dev --out experiments/forecasting/network.npz

With ``--leave-out``, OUT is a folder and gets one file a source: weights that have seen nothing of that source, from
the other sources' development halves. The gate is fitted on, and judged by, what these say of the source left out.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from forecaster.learning.examples import Examples, Recorded, drawn, joined
from forecaster.learning.synthetic import made_up
from forecaster.models import arrays

from . import data

#: Series of a kind count as much as they are many in the world, not in the folder.
PASTS = {
    "pods": 40,
    "cluster": 14,
    "power": 34,
    "cloud": 20,
    "alibaba2018": 14,
    "google2019": 10,
    "jobs": 12,
    "made-up": 16,
}
#: Kinds of series that come from a source of another name.
SOURCE = {"cluster": "pods"}


def groups(folder: Path, part: str) -> dict[str, list[Recorded]]:
    """The recorded series by kind; for ``dev`` only their first halves, and the runs that are not held out."""
    rng = np.random.default_rng(7)
    utilisation = data.pods(folder, "gpu_util", 100.0)
    pods = [*utilisation, *data.pods(folder, "gpu_mem_mib", None), *data.pods(folder, "host_mem_frac", 1.0)]
    some = [rng.choice(len(utilisation), rng.integers(3, 40), replace=False) for _ in range(24)]
    recorded = {
        "pods": pods,
        "cluster": [data.mean_of([utilisation[at] for at in chosen]) for chosen in some],
        "power": data.node_power(folder),
        "cloud": data.cloud(folder),
        **centres(folder),
        "jobs": jobs(folder),
    }
    return {
        kind: [development(one, part) for one in series if _belongs(one, part)] for kind, series in recorded.items()
    }


def centres(folder: Path) -> dict[str, list[data.EvaluationSeries]]:
    """The data centres' means, a source for each centre."""
    names = ("alibaba2018", "google2019")
    return {name: data.centre(folder, name, 300.0) + data.centre(folder, name, 30.0) for name in names}


def _belongs(series: data.EvaluationSeries, part: str) -> bool:
    return part == "all" or series.part in (None, "dev")


def development(series: data.EvaluationSeries, part: str) -> Recorded:
    """Its first half for ``dev``, unless all of it is held out or none."""
    half = part == "dev" and series.part is None
    values = series.values[: len(series.values) // 2] if half else series.values
    return Recorded(values, series.interval_s, series.low, series.high)


def jobs(folder: Path) -> list[data.EvaluationSeries]:
    """Processor time, memory and IO of real processes, once a second."""
    table = pd.read_parquet(folder / "own_jobs_5hz.parquet")
    series = []
    for job, rows in table.groupby("job"):
        for column in ("cpu_pct", "rss_mb", "read_Bps", "write_Bps", "vctx_per_s"):
            values = rows[column].to_numpy(float)
            if values.std() > 0:
                series.append(data.EvaluationSeries(f"{job}/{column}", values, 0.2, 0.0))
    return series


def examples(folder: Path, part: str, thousand: float, seed: int) -> dict[str, Examples]:
    """Pasts of every kind in the proportions of ``PASTS``, ``thousand`` thousands in all."""
    rng = np.random.default_rng(seed)
    parts = {}
    for kind, series in {**groups(folder, part), "made-up": made_up(120, rng)}.items():
        count = int(PASTS[kind] * thousand * 1000 / sum(PASTS.values()))
        parts[kind] = drawn(series, count, rng)
        print(f"{kind}: {count} pasts from {len(series)} series", file=sys.stderr, flush=True)
    return parts


def fitted(parts: Sequence[Examples], rounds: int, members: int) -> dict[str, Any]:
    """The weights of ``members`` networks as named arrays."""
    from forecaster.learning.fitting import fit, packed

    pasts, models = joined(parts), []
    for seed in range(members):
        models.append(fit(pasts, rounds, seed))
        print(f"member {seed + 1} of {members} fitted", file=sys.stderr, flush=True)
    return packed(models)


def main() -> int:
    """Train and write the weights."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="the recorded data; asked for")
    parser.add_argument("--part", choices=["dev", "all"], default="all")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--thousand", type=float, default=120.0, help="thousands of pasts")
    parser.add_argument("--rounds", type=int, default=16)
    parser.add_argument("--members", type=int, default=4)
    parser.add_argument("--leave-out", action="store_true", help="one file for each source left out")
    args = parser.parse_args()
    if (refusal := data.missing(args.data)) is not None:
        print(f"experiments.forecasting.network: {refusal}", file=sys.stderr)
        return 2
    import torch

    torch.set_num_threads(1)
    parts = examples(args.data, args.part, args.thousand, 11)
    if not args.leave_out:
        arrays.write(args.out, fitted(list(parts.values()), args.rounds, args.members))
        return 0
    args.out.mkdir(parents=True, exist_ok=True)
    for source in sorted(set(parts) - {"made-up", *SOURCE}):
        kept = [part for kind, part in parts.items() if SOURCE.get(kind, kind) != source]
        arrays.write(args.out / f"network-without-{source}.npz", fitted(kept, args.rounds, args.members))
    return 0


if __name__ == "__main__":
    sys.exit(main())
