"""What the history that a Prometheus holds suggests: ``paceline suggestions --prometheus``.

Rule of this file: a door. It asks for a stretch at a time, tells it to the advice of each cluster in the order of time,
and gives what is suggested at the end. It changes nothing.
"""

import math
import os
from collections import Counter
from collections.abc import Callable

from paceline.events import Suggestion
from paceline.prometheus import MINUTE_S, PrometheusError
from paceline.prometheus_server import series
from paceline.settings import CLUSTER
from paceline.terminal import say

from .advice.recorded import RecordedAdvice
from .advice_thresholds import thresholds
from .history import DEVICES, STEPS, Stretch, trained

#: Minutes that one question is about: of thousands of GPUs they are a few ten megabytes.
STRETCH_MINUTES = 120
DAY_S = 86_400.0
PROGRAM = "paceline suggestions"


def from_prometheus(url: str, days: float, now_s: float, tick: Callable[[str], None]) -> list[Suggestion]:
    """What the last ``days`` before ``now_s`` (Unix time) suggest; ``tick`` is told how far it has come.

    Raises:
        PrometheusError: it does not answer, or not as Prometheus does, or holds nothing of GPUs.
        SettingError: a setting is not allowed.
    """
    cluster, advice = CLUSTER.read(os.environ), RecordedAdvice(thresholds(os.environ))
    end_s = math.floor(now_s / MINUTE_S) * MINUTE_S
    at_s, count = end_s - days * DAY_S, 0
    left_out: Counter[str] = Counter()
    begin_s = at_s
    while at_s < end_s:
        until_s = min(end_s, at_s + STRETCH_MINUTES * MINUTE_S)
        stretch = Stretch(cluster)
        for labels, _, values in series(url, STEPS, at_s, until_s, left_out=left_out):
            profile = trained(labels, cluster, at_s) if values else None
            if profile is not None:
                advice.update(profile)
        for metric in DEVICES:
            rows = series(url, metric, at_s, until_s, left_out=left_out)
            count += sum(stretch.take(metric, row) for row in rows)
        for window in stretch.windows():
            advice.update(window)
        at_s = until_s
        tick(f"{(at_s - begin_s) / DAY_S:.1f} of {days:g} days, {count:,} values")
    if not count:
        raise PrometheusError(f"Prometheus at {url}: no dcgm-exporter's GPUs in the last {days:g} days; check the URL")
    for what, times in left_out.items():
        say(f"Prometheus: {what} ({times:,})", PROGRAM)
    advice.conclude()
    return list(advice.newest.values())
