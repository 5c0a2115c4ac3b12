"""How well cycles are found: against evaluations of real H100 runs, iterations of real jobs, and signals without any.

A period is right within 2 % of the true one (the median gap of the events), and wrong beyond 5 %. A run whose cycle is
shorter than 3.6 of the signal's samples cannot be seen in it: there, and for jobs without a cycle, any period is a
false one. The runs of a benchmark alternate between development and held out; what the comb's few constants are was
chosen with sight of both.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from forecaster.cycles import Cycle, find_cycle, from_events
from forecaster.cycles.comb import FEWEST_SAMPLES

Array = NDArray[np.float64]
RIGHT, NEAR = 0.02, 0.05
PARTS = ("dev", "held-out")
NOISE_LENGTHS = (200, 550, 1200)
NOISE_EACH = 40


@dataclass(frozen=True)
class Signal:
    """A signal, what it comes from, and its true period in seconds, if it has one that it can show."""

    source: str
    part: str
    values: Array
    times_s: Array
    period_s: float | None

    def cycle(self) -> Cycle:
        """The cycle in the signal."""
        return find_cycle(self.values, float(np.median(np.diff(self.times_s))), self.times_s)


def power(folder: Path) -> list[Signal]:
    """Mean power of the nodes of each MLPerf run, with the gap of its evaluations."""
    events = pd.read_parquet(folder / "mlperf40_events.parquet")
    starts = events[events["key"] == "eval_start"].groupby("run_id")["t_ms"]
    truth = {run: float(np.median(np.diff(np.sort(times.to_numpy())))) / 1e3 for run, times in starts}
    signals, seen = [], defaultdict[str, int](int)
    for run, rows in pd.read_parquet(folder / "mlperf40_h100_node_power_2s.parquet").groupby("run_id"):
        kind = str(run).rsplit("_", 1)[0]
        nodes = [node.sort_values("t_ms") for _, node in rows.groupby("node")]
        times: Array = nodes[0]["t_ms"].to_numpy(np.float64) / 1e3
        values = [np.interp(times, node["t_ms"] / 1e3, node["ac_w"]) for node in nodes]
        signals.append(_signal("H100 power", PARTS[seen[kind] % 2], np.mean(values, axis=0), times, truth[run]))
        seen[kind] += 1
    return signals


def processor(folder: Path) -> list[Signal]:
    """Processor use of each recorded job, with the gap of its iterations where it trains."""
    events = pd.read_parquet(folder / "own_jobs_events.parquet")
    steps = {job: np.sort(rows["t"].to_numpy()) for job, rows in events[events["event"] == "iter"].groupby("job")}
    signals = []
    for place, (job, rows) in enumerate(pd.read_parquet(folder / "own_jobs_5hz.parquet").groupby("job")):
        rows = rows.sort_values("t")
        truth = float(np.median(np.diff(steps[job]))) if job in steps else None
        values, times = rows["cpu_pct"].to_numpy(np.float64), rows["t"].to_numpy(np.float64)
        signals.append(_signal("own_jobs CPU", PARTS[place % 2], values, times, truth))
    return signals


def _signal(source: str, part: str, values: Array, times: Array, truth: float | None) -> Signal:
    visible = truth is not None and truth >= FEWEST_SAMPLES * float(np.median(np.diff(times)))
    return Signal(source, part, values, times, truth if visible else None)


def _coloured(random: np.random.Generator, length: int, memory: float) -> Array:
    values = random.normal(size=length)
    for at in range(1, length):
        values[at] += memory * values[at - 1]
    return values


def _bursts(random: np.random.Generator, length: int) -> Array:
    edges = np.cumsum(random.exponential(random.uniform(5, 40), size=length))
    return 100.0 * (np.searchsorted(edges, np.arange(length)) % 2) + 5 * random.normal(size=length)


def _dips(random: np.random.Generator, length: int, share: float) -> Array:
    return random.normal(size=length) * 100 - 3000 * (random.random(length) < share)


NOISE: dict[str, Callable[[np.random.Generator, int], Array]] = {
    "white noise": lambda random, length: random.normal(size=length),
    "random walk": lambda random, length: np.cumsum(random.normal(size=length)),
    "noise with memory 0.8": lambda random, length: _coloured(random, length, 0.8),
    "trend and noise": lambda random, length: np.linspace(0, 20, length) + random.normal(size=length),
    "bursts at random": _bursts,
    "dips at random": lambda random, length: _dips(random, length, 0.05),
    "rare dips at random": lambda random, length: _dips(random, length, 0.01),
}


def noise() -> Iterator[Signal]:
    """Signals without a cycle, always the same."""
    random = np.random.default_rng(7)
    for name, make in NOISE.items():
        for length in NOISE_LENGTHS:
            for number in range(NOISE_EACH):
                yield Signal(name, PARTS[number % 2], make(random, length), np.arange(length, dtype=np.float64), None)


def evaluate(data: Path) -> list[dict[str, Any]]:
    """One row a source and part: signals with a cycle and the share found, signals without and the share of false ones.

    ``found`` and ``false`` are None where there was no such signal.
    """
    groups = defaultdict[tuple[str, str], list[Signal]](list)
    for one in (*power(data), *processor(data), *noise()):
        groups[one.source, one.part].append(one)
    return [_row(source, part, signals) for (source, part), signals in groups.items()] + _from_events(data)


def _row(source: str, part: str, signals: list[Signal]) -> dict[str, Any]:
    told = [(one.period_s, one.cycle().period_s) for one in signals]
    cyclic = [(true, said) for true, said in told if true is not None]
    errors = [abs(said / true - 1) for true, said in cyclic if said is not None]
    false = [said is not None for true, said in told if true is None]
    return {
        "source": source,
        "part": part,
        "cyclic": len(cyclic),
        "found": sum(error < RIGHT for error in errors) / len(cyclic) if cyclic else None,
        "near": sum(error < NEAR for error in errors) / len(cyclic) if cyclic else None,
        "wrong": sum(error >= NEAR for error in errors) / len(cyclic) if cyclic else None,
        "median_error": float(np.median(errors)) if errors else None,
        "acyclic": len(false),
        "false": sum(false) / len(false) if false else None,
    }


def _from_events(data: Path) -> list[dict[str, Any]]:
    """The same from events: iterations against their median gap, and requests that arrive at random."""
    events = pd.read_parquet(data / "own_jobs_events.parquet")
    groups = {
        kind: [np.sort(rows["t"].to_numpy()) for _, rows in part.groupby("job")]
        for kind, part in events.groupby("event")
    }
    errors, none = [], 0
    for times in groups["iter"]:
        said = from_events(times.tolist()).period_s
        none += said is None
        errors += [] if said is None else [abs(said / float(np.median(np.diff(times))) - 1)]
    false = [from_events(times.tolist()).period_s is not None for times in groups["req"]]
    return [
        {
            "source": "own_jobs events",
            "part": "all",
            "cyclic": len(groups["iter"]),
            "found": sum(error < RIGHT for error in errors) / len(groups["iter"]),
            "near": sum(error < NEAR for error in errors) / len(groups["iter"]),
            "wrong": sum(error >= NEAR for error in errors) / len(groups["iter"]),
            "median_error": float(np.median(errors)),
            "acyclic": len(false),
            "false": sum(false) / len(false),
        }
    ]
