"""What the history that a Prometheus holds suggests: ``paceline suggestions --prometheus``.

Rule of this file: a door. It asks for a stretch at a time, tells it to the advice of each cluster in the order of time,
and gives what is suggested at the end. It changes nothing, and no more of an answer is read than there is room for.
"""

import http.client
import math
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator

from paceline.events import Suggestion
from paceline.prometheus import MINUTE_S, MOST_BYTES, Metric, PrometheusError, RefusedQueryError, Row, asked, read
from paceline.settings import CLUSTER

from .advice.recorded import RecordedAdvice
from .advice_thresholds import thresholds
from .history import DEVICES, STEPS, Stretch, trained

#: Minutes that one question is about: of thousands of GPUs they are a few ten megabytes.
STRETCH_MINUTES = 120
TIMEOUT_S = 30.0
DAY_S = 86_400.0


def from_prometheus(url: str, days: float, now_s: float, tick: Callable[[str], None]) -> list[Suggestion]:
    """What the last ``days`` before ``now_s`` (Unix time) suggest; ``tick`` is told how far it has come.

    Raises:
        PrometheusError: it does not answer, or not as Prometheus does, or holds nothing of GPUs.
        SettingError: a setting is not allowed.
    """
    cluster, advice = CLUSTER.read(os.environ), RecordedAdvice(thresholds(os.environ))
    end_s = math.floor(now_s / MINUTE_S) * MINUTE_S
    at_s, count = end_s - days * DAY_S, 0
    begin_s = at_s
    while at_s < end_s:
        until_s = min(end_s, at_s + STRETCH_MINUTES * MINUTE_S)
        stretch = Stretch(cluster)
        for labels, _, values in _rows(url, STEPS, at_s, until_s):
            profile = trained(labels, cluster, at_s) if values else None
            if profile is not None:
                advice.update(profile)
        count += sum(stretch.take(metric, row) for metric in DEVICES for row in _rows(url, metric, at_s, until_s))
        for window in stretch.windows():
            advice.update(window)
        at_s = until_s
        tick(f"{(at_s - begin_s) / DAY_S:.1f} of {days:g} days, {count:,} values")
    if not count:
        raise PrometheusError(f"Prometheus at {url}: no dcgm-exporter's GPUs in the last {days:g} days; check the URL")
    advice.conclude()
    return list(advice.newest.values())


def _rows(url: str, metric: Metric, begin_s: float, end_s: float) -> Iterator[Row]:
    """The series of ``metric`` between two times."""
    content = _content(url, asked(metric, begin_s, end_s))
    try:
        yield from read(metric, content)
    except RefusedQueryError as error:
        raise PrometheusError(f"Prometheus at {url}: {error}") from error
    except ValueError as error:
        raise PrometheusError(f"Prometheus at {url}: no answer of a Prometheus; check the URL") from error


def _content(url: str, parameters: dict[str, str]) -> bytes:
    """What is answered, of an error as well: Prometheus says there why it refuses."""
    if not url.startswith(("http://", "https://")):
        raise PrometheusError(f"Prometheus at {url}: an address begins with http:// or https://")
    data = urllib.parse.urlencode(parameters).encode()
    # What unpacks to more than it was is not asked for.
    headers = {"Accept-Encoding": "identity"}
    try:
        request = urllib.request.Request(f"{url.rstrip('/')}/api/v1/query_range", data, headers)  # noqa: S310
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:  # noqa: S310 - see above
                content: bytes = response.read(MOST_BYTES + 1)
        except urllib.error.HTTPError as error:
            with error:
                content = error.read(MOST_BYTES + 1)
    except (OSError, http.client.HTTPException, ValueError) as error:
        cause = getattr(error, "reason", None) or str(error) or type(error).__name__
        raise PrometheusError(f"Prometheus at {url}: {cause}; check the URL") from error
    if len(content) > MOST_BYTES:
        raise PrometheusError(f"Prometheus at {url}: an answer of more than {MOST_BYTES:,} bytes; check the URL")
    return content
