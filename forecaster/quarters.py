"""Of a cluster's series a second one by the quarter hour: six weeks of them have room where minutes have three days.

Rule of this file: pure. What will be free tonight is said by days and weeks, not by the minutes of this afternoon.
"""

from dataclasses import replace

from paceline.events import BY_QUARTER_HOUR, FREE_GPUS

from .group_sizes import GPUS
from .history import History, SeriesSubject

QUARTER_S = 900.0
#: What is forecast a day ahead of a cluster, and of how many GPUs it is.
FIELDS = (FREE_GPUS, "gpu_busy_ratio", "gpu_power_w", GPUS)


def of(subject: SeriesSubject) -> SeriesSubject | None:
    """The same by the quarter hour, of a cluster's series on a finer grid; None for all others.

    >>> of(SeriesSubject("c/cluster/free_gpus", "GPUs", 60.0, "c")).key
    'c/cluster/free_gpus_15min'
    """
    cluster, _, field = subject.key.rpartition("/cluster/")
    if field not in FIELDS or cluster != subject.cluster:
        return None
    if (
        subject.interval_s >= QUARTER_S or QUARTER_S % subject.interval_s
    ):  # Somebody's own: not whole in a quarter hour.
        return None
    return replace(subject, key=subject.key + BY_QUARTER_HOUR, interval_s=QUARTER_S)


def put(history: History, subject: SeriesSubject, time_s: float, value: float) -> bool:
    """Keep a value as ``History.put`` does, and what it makes of its quarter hour; whether it was kept."""
    coarse = of(subject)
    before = None if coarse is None else history.find(subject.key)
    newest = -1 if before is None else before.newest
    kept = history.put(subject, time_s, value)
    track = history.find(subject.key) if kept and coarse is not None else None
    if coarse is not None and track is not None:
        samples = round(QUARTER_S / subject.interval_s)
        at, whole = int(time_s // QUARTER_S), (track.newest + 1) // samples
        # One whose last sample never comes is over when a sample of a later one comes, however much later.
        for quarter in sorted({newest // samples if newest >= 0 else at, at - 1, at}):
            if quarter < whole:
                history.put(coarse, quarter * QUARTER_S, track.mean(quarter * samples, (quarter + 1) * samples - 1))
    return kept
