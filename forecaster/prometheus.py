"""Back-fill from a Prometheus server: the last days of DCGM's and Paceline's metrics, by range queries.

Rule of this file: a door. What is asked is a table, and how, ``paceline.prometheus``' affair. No more of an answer is
read than there is room for.
"""

import logging
import math
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping

import httpx

from paceline.gpu.dcgm import exported
from paceline.gpu.exporter import label, place_of_labels
from paceline.http_login import UNREADABLE, authorization, basic, cause, parted
from paceline.prometheus import MOST_BYTES, Metric, PrometheusError, RefusedQueryError, Row, asked, read
from paceline.prometheus_server import checked
from paceline.schema import unit_of
from paceline.settings import PROMETHEUS_LOGIN

from .history import SAMPLES, SeriesSubject
from .memory import Memory
from .subjects import DEVICE, JOBS_S, NODES_S

#: Points of a series in one answer: of thousands of series they are a few ten megabytes.
POINTS = 500
TIMEOUT_S = 30.0
log = logging.getLogger("paceline.forecaster")


#: Per GPU; of several names of one thing the later ones are DCGM 4.6's.
DEVICES = tuple(
    Metric(name, column, unit_of(column), factor, 1.0 if column.endswith("_ratio") else None, NODES_S)
    for column in DEVICE
    for name, factor in exported(column)
)
#: Per job, by the label ``training_job``.
JOBS = (
    Metric("paceline_step_seconds", "step_s", "s", interval_s=JOBS_S),
    Metric("paceline_steps_per_second", "steps_per_s", "1/s", interval_s=JOBS_S),
)


def backfill(url: str, memory: Memory, cluster: str = "default", now_s: float | None = None) -> int:
    """Fill ``memory`` from the server at ``url``; how many values were kept.

    Raises:
        PrometheusError: it does not answer, or not as Prometheus does.
    """
    end_s = math.floor((time.time() if now_s is None else now_s) / NODES_S) * NODES_S
    kept, left_out, nodes = 0, Counter[str](), dict[str, str]()
    url, own = parted(url)
    url = checked(url)
    login = basic(own) or authorization(url, PROMETHEUS_LOGIN, os.environ)
    # What unpacks to more than it was is not asked for.
    headers = {"Accept-Encoding": "identity"} | ({"Authorization": login} if login else {})
    with _client(url, headers) as client:
        for metric in (*DEVICES, *JOBS):
            for labels, times_s, values in _range(client, metric, end_s, left_out):
                subject = _subject(metric, labels, cluster, nodes)
                if subject is None:
                    left_out[f"series of {metric.name} of MIG instances, or without a node, GPU or job"] += 1
                else:
                    kept += memory.put(subject, times_s, values)
    for what, count in left_out.items():
        log.warning("Prometheus: %s (%d)", what, count)
    return kept


def _client(url: str, headers: dict[str, str]) -> httpx.Client:
    """Asks the server at ``url``, by a proxy where the environment names one.

    Raises:
        PrometheusError: the address, or the proxy's, is none that can be used.
    """
    try:
        return httpx.Client(base_url=url, timeout=TIMEOUT_S, headers=headers)
    except (ValueError, httpx.InvalidURL) as error:
        raise PrometheusError(f"Prometheus at {url}: {UNREADABLE}; check --prometheus") from error
    except ImportError as error:  # Of a SOCKS proxy.
        raise PrometheusError(
            f"Prometheus at {url}: ALL_PROXY names a SOCKS proxy, which is not used here; name it in NO_PROXY"
        ) from error


def _subject(metric: Metric, labels: Mapping[str, str], cluster: str, nodes: dict[str, str]) -> SeriesSubject | None:
    """Whose values they are; None where the labels do not say. ``nodes`` has the node of each UUID so far."""
    cluster = labels.get("cluster", cluster)
    if metric in JOBS:
        trained = label(labels, "training_job")
        key = f"{cluster}/job/{trained}/{metric.field}"
        return (
            SeriesSubject(key, metric.unit, metric.interval_s, cluster, job=trained, high=metric.high)
            if trained
            else None
        )
    node, device = place_of_labels(labels, nodes)
    # An instance of a GPU under MIG tells of itself alone.
    if not node or not device or label(labels, "GPU_I_ID"):
        return None
    key = f"{cluster}/device/{node}/{device}/{metric.field}"
    job = label(labels, "hpc_job") or None
    return SeriesSubject(key, metric.unit, metric.interval_s, cluster, job, node, device, high=metric.high)


def _range(client: httpx.Client, metric: Metric, end_s: float, left_out: Counter[str]) -> Iterator[Row]:
    begin_s, whole_s = end_s - SAMPLES * metric.interval_s, POINTS * metric.interval_s
    while begin_s < end_s:
        until_s = min(end_s, begin_s + whole_s)
        yield from _answer(client, metric, asked(metric, begin_s, until_s), left_out)
        begin_s = until_s


def _answer(client: httpx.Client, metric: Metric, parameters: dict[str, str], left_out: Counter[str]) -> list[Row]:
    where = str(client.base_url).rstrip("/")
    try:
        with client.stream("POST", "/api/v1/query_range", data=parameters) as response:
            content = _content(response)
    except httpx.HTTPError as error:
        raise PrometheusError(f"Prometheus at {where}: {cause(error)}; check --prometheus") from error
    except httpx.InvalidURL as error:
        raise PrometheusError(f"Prometheus at {where}: {UNREADABLE}; check --prometheus") from error
    if content is None:
        raise PrometheusError(f"Prometheus at {where}: an answer of more than {MOST_BYTES:,} bytes; check --prometheus")
    try:
        return read(metric, content, left_out)
    except RefusedQueryError as error:
        raise PrometheusError(f"Prometheus at {where}: {error}") from error
    except ValueError as error:
        said = f"status {response.status_code}, no answer of a Prometheus"
        if response.status_code in (401, 403):
            said = f"status {response.status_code}; {PROMETHEUS_LOGIN.name}, its _FILE or ~/.netrc hold the login"
        raise PrometheusError(f"Prometheus at {where}: {said}; check --prometheus") from error


def _content(response: httpx.Response) -> bytes | None:
    """What was answered, as it came; None where that is more than there is room for."""
    content = bytearray()
    for part in response.iter_raw():
        content += part
        if len(content) > MOST_BYTES:
            return None
    return bytes(content)
