"""Train the global network on the recorded series: the shipped weights (all of them), and the evaluation's (dev only).

python -m experiments.forecasting.network --data FOLDER --part dev --out experiments/forecasting/network.npz
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from forecaster.learning.examples import Examples, Recorded, drawn, joined
from forecaster.learning.synthetic import made_up

from . import data

#: Series of a kind count as much as they are many in the world, not in the folder.
PASTS = {"pods": 40, "cluster": 14, "power": 34, "cloud": 20, "centre": 24, "jobs": 12, "made-up": 16}


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
        "centre": data.centres(folder, 300.0) + data.centres(folder, 30.0),
        "jobs": jobs(folder),
    }
    return {kind: [_recorded(one, part) for one in series if _belongs(one, part)] for kind, series in recorded.items()}


def _belongs(series: data.EvaluationSeries, part: str) -> bool:
    return part == "all" or series.part in (None, "dev")


def _recorded(series: data.EvaluationSeries, part: str) -> Recorded:
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


def examples(folder: Path, part: str, thousand: float, seed: int) -> Examples:
    """Pasts of every kind in the proportions of ``PASTS``, in all ``thousand`` thousands for each 160."""
    rng = np.random.default_rng(seed)
    parts = []
    for kind, series in {**groups(folder, part), "made-up": made_up(120, rng)}.items():
        count = int(PASTS[kind] * thousand * 1000 / sum(PASTS.values()))
        parts.append(drawn(series, count, rng))
        print(f"{kind}: {count} pasts from {len(series)} series", file=sys.stderr, flush=True)
    return joined(parts)


def main() -> int:
    """Train and write the weights."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="the recorded data; asked for")
    parser.add_argument("--part", choices=["dev", "all"], default="all")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--thousand", type=float, default=120.0, help="thousands of pasts")
    parser.add_argument("--rounds", type=int, default=16)
    parser.add_argument("--members", type=int, default=4)
    args = parser.parse_args()
    if (refusal := data.missing(args.data)) is not None:
        print(f"experiments.forecasting.network: {refusal}", file=sys.stderr)
        return 2
    import torch

    from forecaster.learning.fitting import fit, packed

    torch.set_num_threads(1)
    pasts = examples(args.data, args.part, args.thousand, 11)
    models = []
    for seed in range(args.members):
        models.append(fit(pasts, args.rounds, seed))
        print(f"member {seed + 1} of {args.members} fitted", file=sys.stderr, flush=True)
    with args.out.open("wb") as file:
        np.savez_compressed(file, **packed(models))  # type: ignore[arg-type]
    return 0


if __name__ == "__main__":
    sys.exit(main())
