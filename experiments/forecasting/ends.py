"""How well ends of jobs are forecast: recorded runs, asked at some shares of their way, beside when they ended.

Steps of language models on H100 (with the time that compiling took), evaluations of MLPerf runs, and iterations of
processes on two cores with others beside them, evaluations and checkpoints included. A run's last step is taken as the
number that it meant to do.
"""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from forecaster.job_end import Progress, job_end

Array = NDArray[np.float64]
SHARES = (0.1, 0.25, 0.5, 0.75, 0.9)
#: Runs of fewer steps are left out, and moments before which fewer were seen.
FEWEST, KNOWN = 12, 3


def runs(folder: Path) -> Iterator[tuple[str, Array]]:
    """Of each run its source and when each of its steps was done, in seconds."""
    steps = pd.read_parquet(folder / "modded_nanogpt_h100_steps.parquet").sort_values("step")
    for _, rows in steps.groupby(["rec", "run"]):
        yield "H100 language models", rows.drop_duplicates("step", keep="last")["train_ms"].to_numpy(np.float64) / 1e3
    events = pd.read_parquet(folder / "mlperf40_events.parquet")
    for _, rows in events[events["key"] == "eval_start"].groupby("run_id"):
        yield "MLPerf, by evaluations", np.sort(rows["t_ms"].to_numpy(np.float64)) / 1e3
    events = pd.read_parquet(folder / "own_jobs_events.parquet")
    for _, rows in events[events["event"] == "iter"].groupby("job"):
        yield "processes beside others", np.sort(rows["t"].to_numpy(np.float64))


def evaluate(data: Path) -> list[dict[str, Any]]:
    """One row a source and share of the way: errors of what was left, and what ended inside the 80 % interval."""
    asked = defaultdict[tuple[str, float], list[tuple[float, bool, float]]](list)
    for source, times in runs(data):
        for share in SHARES:
            at = int(share * (len(times) - 1))
            if len(times) < FEWEST or at < KNOWN:
                continue
            progress = Progress()
            for step, time_s in enumerate(times[: at + 1]):
                progress.reach(float(time_s), step)
            end, left_s = job_end(progress, len(times)), times[-1] - times[at]
            if end is not None:
                inside = end.low_s <= times[-1] <= end.high_s
                asked[source, share].append(
                    (abs(end.time_s - times[-1]) / left_s, inside, (end.high_s - end.low_s) / left_s)
                )
    return [
        {
            "source": source,
            "done": share,
            "runs": len(told),
            "median_error": float(np.median([error for error, _, _ in told])),
            "inside": float(np.mean([inside for _, inside, _ in told])),
            "width": float(np.median([width for _, _, width in told])),
        }
        for (source, share), told in sorted(asked.items())
    ]
