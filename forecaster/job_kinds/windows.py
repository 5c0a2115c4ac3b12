"""From a job's series to windows of one second a row.

Rule of this file: a decision; what was not measured is NaN or absent, never 0.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

#: The series a job may have, by the names that events use, and what the model makes of each.
SERIES = {
    "cpu_ratio": "processors the job keeps busy; 1.0 is one core",
    "utilization_ratio": "GPU utilisation, 0-1",
    "sm_active_ratio": "GPU SM activity, 0-1; preferred over utilisation",
    "memory_used_bytes": "host memory of the job; accepted, not used",
    "disk_read_bytes_per_s": "bytes read by the job; accepted, not used",
    "disk_write_bytes_per_s": "bytes written by the job, sockets included where the system counts so",
    "voluntary_switches_per_s": "voluntary context switches of the job; accepted, not used",
    "collectives_per_s": "collective operations of the job",
    "power_w": "GPU power; accepted, not used",
    "fb_used_bytes": "GPU memory; accepted, not used",
    "network_rx_bytes_per_s": "accepted, not used",
    "network_tx_bytes_per_s": "accepted, not used",
}
#: Which series says how active the job is: the first of these that was measured.
ACTIVITY = ("sm_active_ratio", "utilization_ratio", "cpu_ratio")
WINDOW_S = 30.0
STEP_S = 10.0
#: Shorter records say nothing about the kind.
SHORTEST_S = 12.0
#: Coarser samples hide what tells kinds apart.
LONGEST_INTERVAL_S = 2.5
#: Only the latest windows count, so that work stays bounded: some four minutes.
MOST_WINDOWS = 20
#: A series with fewer measured samples than this share counts as not measured.
LEAST_MEASURED = 0.5

#: Nothing here is negative or beyond this; such a value was not measured.
LARGEST = 1e18

Window = Mapping[str, NDArray[np.float64]]


def seconds(
    series: Mapping[str, Sequence[float | None]], interval_s: float
) -> tuple[dict[str, NDArray[np.float64]], float]:
    """Each measured series as means over (about) a second, with short holes bridged; and the seconds of a row.

    Raises:
        ValueError: an unknown name, series of different lengths, or an interval that is not positive.
    """
    strange = sorted(set(series) - set(SERIES))
    if strange:
        raise ValueError(f"series: {strange[0]!r} is not known; known are {', '.join(SERIES)}")
    if not (np.isfinite(interval_s) and interval_s > 0):
        raise ValueError("interval_s: a positive number of seconds is needed")
    if len({len(column) for column in series.values()}) > 1:
        raise ValueError("series: all need the same length")
    samples = max(1, round(1.0 / interval_s))
    most = int((MOST_WINDOWS * STEP_S + WINDOW_S) / interval_s)
    rows = {}
    for name, column in series.items():
        values = np.asarray(list(column[-most:]), dtype=np.float64)
        values[~((values >= 0) & (values <= LARGEST))] = np.nan
        merged = _means(values, samples)
        if len(merged) and np.mean(np.isfinite(merged)) >= LEAST_MEASURED:
            rows[name] = _bridged(merged)
    return rows, samples * interval_s


def _means(values: NDArray[np.float64], samples: int) -> NDArray[np.float64]:
    blocks = values[len(values) % samples :].reshape(-1, samples)
    measured = np.isfinite(blocks)
    count = measured.sum(axis=1)
    total = np.where(measured, blocks, 0.0).sum(axis=1)
    result: NDArray[np.float64] = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    return result


def _bridged(column: NDArray[np.float64]) -> NDArray[np.float64]:
    measured = np.flatnonzero(np.isfinite(column))
    return np.interp(np.arange(len(column)), measured, column[measured])


def cut(rows: Window, row_s: float) -> list[dict[str, NDArray[np.float64]]]:
    """Windows of 30 s, a new one every 10 s, the last one ending with the record; one shorter window if that is all."""
    length = min((len(column) for column in rows.values()), default=0)
    if length * row_s < SHORTEST_S:
        return []
    size, step = min(length, round(WINDOW_S / row_s)), max(1, round(STEP_S / row_s))
    ends = range(length, size - 1, -step)
    return [{name: column[end - size : end] for name, column in rows.items()} for end in ends][:MOST_WINDOWS]
