"""Back-fill from an archive: what the bus no longer has, as it would have been heard.

Rule of this file: a door; the archive is asked in SQL, for some hours at a time. Windows mean what ``subjects`` says
they do, and its constants are used: the same windows come to the same series by either way, which is tested. Of GPUs
whose window names no job, the job is the one that was last described to be there; where they are idle and empty it must
have been heard, too.
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from paceline.events import ARCHIVE_WINDOW_S, FREE_GPUS
from paceline.events.silence import PLACED_JOB_SILENT_S
from paceline.gpu.uuids import INSTANCE
from paceline.history.query import Connection, History
from paceline.history.tables import DEVICE_WINDOW, HOST_WINDOW, JOB_WINDOW
from paceline.history.views import Scope
from paceline.schema import unit_of

from .aggregates import PATIENCE
from .group_sizes import GPUS
from .history import SAMPLES, SERIES, SeriesSubject
from .memory import Memory
from .subjects import DEVICE, FREE_MEMORY, FREE_TIME, HOST, JOBS_S, NODES_S

logger = logging.getLogger("paceline.forecaster")
#: So much is in memory at once.
SPAN_S = 6 * 3600.0
#: So far back clusters are read, for their quarter hours, but from no more than so many windows: a minute's work or so.
CLUSTERS_S, CLUSTERS_ROWS = 28 * 86_400.0, 20_000_000
#: What a question may take: the series that are filled need the rest, and a question that needs more goes to disk.
MEMORY = "512MB"
#: Series of a group of GPUs, by what groups it.
OF_GROUP: Mapping[Sequence[str], int] = {(): 4, ("node",): 3, ("job",): 2}
RATIO = "ratio, 0 to 1"

_SEATS = """
CREATE TEMP TABLE seat AS
WITH place AS (
    SELECT cluster, job, started_s, ended_s, unnest(json_extract(event, '$.places[*]')) AS place FROM job_parts
)
SELECT
    cluster, job, started_s, ended_s, json_extract_string(place, '$.node') AS node,
    unnest([json_extract_string(place, '$.device'), json_extract_string(place, '$.local_rank')]) AS device
FROM place
"""
#: The minutes in which something of a job was measured.
_HEARD = f"""
CREATE TEMP TABLE heard AS
WITH measured AS (
    SELECT cluster, job, start_s AS at_s FROM job_window WHERE length_s >= {JOBS_S}
    UNION ALL SELECT cluster, job, start_s FROM device_window WHERE job IS NOT NULL AND length_s >= {NODES_S}
    UNION ALL SELECT cluster, job, started_s FROM job_parts
)
SELECT DISTINCT cluster, job, floor(at_s / {NODES_S}) * {NODES_S} AS at_s FROM measured
"""
_SHARES = f"""
CREATE TEMP TABLE share AS
WITH reported AS (
    SELECT
        *, coalesce(mean_sm_active_ratio, mean_utilization_ratio) AS busy, coalesce(
            busy <= {FREE_TIME} AND (
                mean_fb_used_bytes IS NULL OR coalesce(mean_fb_total_bytes, 0) = 0
                OR mean_fb_used_bytes <= {FREE_MEMORY} * mean_fb_total_bytes
            ), false
        ) AS at_rest
    FROM device_window WHERE length_s >= {NODES_S}
    QUALIFY row_number() OVER (PARTITION BY cluster, node, device, start_s ORDER BY kafka_offset) = 1
), placed AS (
    SELECT
        reported.*, CASE WHEN seat.ended_s IS NULL OR reported.start_s < seat.ended_s THEN seat.job END AS placed_job
    FROM reported ASOF LEFT JOIN seat ON reported.cluster = seat.cluster AND reported.node = seat.node
        AND reported.device = seat.device AND reported.start_s >= seat.started_s
), owned AS (
    SELECT placed.*, coalesce(
        placed.job, CASE WHEN NOT at_rest OR heard.at_s >= placed.start_s - {PLACED_JOB_SILENT_S} THEN placed_job END
    ) AS owner
    FROM placed ASOF LEFT JOIN heard ON placed.cluster = heard.cluster AND placed.placed_job = heard.job
        AND placed.start_s >= heard.at_s
)
SELECT
    cluster, node, device, owner AS job, start_s, length_s > {NODES_S} AS merged, busy,
    at_rest AND owner IS NULL AS free, max_fb_total_bytes,
    {", ".join(f"mean_{field}" for field in DEVICE)}
FROM owned
"""


class Values(NamedTuple):
    """A series' values over some hours."""

    subject: SeriesSubject
    times_s: list[float]
    values: list[float]


def backfill(where: str, environ: Mapping[str, str], memory: Memory, now_s: float | None = None) -> int:
    """Fill ``memory`` from the archive at ``where``, oldest first; how many values were kept.

    Raises:
        StoreError, QueryError: it cannot be read.
    """
    history = History.open(where, environ)
    end_s = time.time() if now_s is None else now_s
    since_s, kept = end_s - SAMPLES * NODES_S, 0
    devices = _fit(history, Scope(end_s - SPAN_S, end_s))
    for begin_s, until_s in (*_older(history, end_s - CLUSTERS_S, since_s), *_spans(since_s, end_s)):
        scope = Scope(begin_s, until_s)
        if any(history.files(table, scope) for table in (DEVICE_WINDOW, HOST_WINDOW, JOB_WINDOW)):
            # Which jobs were heard right before the span, and how many GPUs, counts in it.
            wider = scope._replace(since_s=begin_s - PLACED_JOB_SILENT_S)
            with history.connect(wider, ("device_window", "host_window", "job_window", "job"), MEMORY) as connection:
                _share(connection)
                if begin_s < since_s:
                    found = _of_groups(connection, (), begin_s)
                else:
                    found = _values(connection, devices, begin_s, end_s - SAMPLES * JOBS_S)
                kept += sum(memory.put(*one) for one in found)
    return kept


def _spans(begin_s: float, end_s: float) -> Iterator[tuple[float, float]]:
    while begin_s < end_s:
        yield begin_s, min(end_s, begin_s + SPAN_S)
        begin_s += SPAN_S


def _older(history: History, begin_s: float, end_s: float) -> list[tuple[float, float]]:
    """The spans of which clusters are read, oldest first: the newest that hold ``CLUSTERS_ROWS`` windows of GPUs."""
    return [
        (from_s, until_s)
        for from_s, until_s in _spans(begin_s, end_s)
        if sum(file.rows for file in history.files(DEVICE_WINDOW, Scope(from_s, end_s))) <= CLUSTERS_ROWS
    ]


def newest_s(where: str, environ: Mapping[str, str]) -> float:
    """Up to when the archive at ``where`` has windows; no later than now, whatever a clock said.

    Raises:
        StoreError: it cannot be read.
    """
    tables = {table.name for table in (DEVICE_WINDOW, HOST_WINDOW, JOB_WINDOW)}
    files = History.open(where, environ).manifest.files
    return min(time.time(), 60.0 + max((file.last_s for file in files if file.table in tables), default=0.0))


def _fit(history: History, scope: Scope) -> bool:
    """Whether there is room for a series a GPU; where there is not, nodes, jobs and the cluster are what counts."""
    with history.connect(scope, ("device_window",), MEMORY) as connection:
        counted = connection.ask("SELECT count(DISTINCT (cluster, node, device)) FROM device_window").rows
    devices = int(counted[0][0])
    fit = devices * len(DEVICE) <= SERIES // 2
    if not fit:
        logger.info("%d GPUs: their nodes, jobs and clusters are filled from the archive, not each of them", devices)
    return fit


def _share(connection: Connection) -> None:
    """Make the table of what each GPU adds to its groups, minute by minute."""
    connection.ask(_SEATS)
    connection.ask(_HEARD)
    connection.ask(_SHARES)


def _values(connection: Connection, devices: bool, begin_s: float, jobs_since_s: float) -> Iterator[Values]:
    if devices:
        yield from _of_devices(connection, begin_s)
    for by in OF_GROUP:
        yield from _of_groups(connection, by, begin_s)
    yield from _of_hosts(connection, begin_s)
    yield from _of_jobs(connection, max(begin_s, jobs_since_s))


def _of_devices(connection: Connection, since_s: float) -> Iterator[Values]:
    lists = _lists(f"mean_{field}" for field in DEVICE)
    sql = f"""SELECT cluster, node, device, arg_max(coalesce(job, ''), start_s), arg_max(max_fb_total_bytes, start_s),
        {lists} FROM share WHERE start_s >= ? AND NOT merged GROUP BY cluster, node, device"""
    for cluster, node, device, job, total, times_s, *values in connection.each(sql, [since_s]):
        for field, told in zip(DEVICE, values, strict=True):
            high = total if field == "fb_used_bytes" else 1.0 if field.endswith("_ratio") else None
            key = f"{cluster}/device/{node}/{device}/{field}"
            subject = SeriesSubject(key, unit_of(field), NODES_S, cluster, job or None, node, device, high=high)
            yield from _measured(subject, times_s, told)


def _of_groups(connection: Connection, by: Sequence[str], since_s: float) -> Iterator[Values]:
    """What the GPUs of each cluster, node or job come to; it has as many as were in any of the newest minutes.

    Of clusters also from windows that the archive has merged from minutes: they are the same in each of theirs.
    """
    names = ", ".join(("cluster", *by))
    some = " AND ".join([*(f"{name} IS NOT NULL" for name in ("cluster", *by)), *(["NOT merged"] if by else [])])
    sql = f"""
    WITH reported AS (
        SELECT {names}, start_s, avg(busy) AS busy, sum(mean_power_w) AS power_w,
            CAST(count(*) FILTER (free) AS DOUBLE) AS free, max(count(*)) OVER (
                PARTITION BY {names}, merged ORDER BY start_s
                RANGE BETWEEN {(PATIENCE - 1) * NODES_S} PRECEDING AND CURRENT ROW
            ) AS gpus, merged
        FROM share WHERE {some} AND NOT starts_with(device, '{INSTANCE}') GROUP BY {names}, start_s, merged
    ), minutes AS (
        SELECT * REPLACE (start_s + {NODES_S} * minute AS start_s) FROM (
            SELECT *, unnest(range(CASE WHEN merged THEN {round(ARCHIVE_WINDOW_S / NODES_S)} ELSE 1 END)) AS minute
            FROM reported
        ) QUALIFY row_number() OVER (PARTITION BY {names}, start_s + {NODES_S} * minute ORDER BY gpus DESC, merged) = 1
    ) SELECT {names}, arg_max(gpus, start_s), {_lists(("busy", "power_w", "free", "gpus"))}
    FROM minutes WHERE start_s >= ? GROUP BY {names}"""
    for row in connection.each(sql, [since_s]):
        cluster, owner = row[0], row[1 : 1 + len(by)]
        gpus, times_s, busy, power_w, free, sizes = row[1 + len(by) :]
        base = "/".join((cluster, *(by or ("cluster",)), *owner))
        of = dict(zip(by, owner, strict=True))
        told: list[tuple[str, str, float | None, list[Any]]] = [
            ("gpu_busy_ratio", RATIO, 1.0, busy),
            ("gpu_power_w", "W", None, power_w),
            (FREE_GPUS, "GPUs", float(gpus), free),
            (GPUS, "GPUs", None, sizes),
        ]
        for field, unit, high, values in told[: OF_GROUP[by]]:
            subject = SeriesSubject(f"{base}/{field}", unit, NODES_S, cluster, high=high, **of)
            yield from _measured(subject, times_s, values)


def _of_hosts(connection: Connection, since_s: float) -> Iterator[Values]:
    sql = f"""SELECT cluster, node, arg_max(max_memory_total_bytes, start_s), {_lists(f"mean_{name}" for name in HOST)}
        FROM host_window WHERE length_s = {NODES_S} AND start_s >= ? GROUP BY cluster, node"""
    for cluster, node, total, times_s, *values in connection.each(sql, [since_s]):
        for field, told in zip(HOST, values, strict=True):
            high = total if field == "memory_used_bytes" else 1.0 if field.endswith("_ratio") else None
            key = f"{cluster}/node/{node}/{field}"
            yield from _measured(
                SeriesSubject(key, unit_of(field), NODES_S, cluster, node=node, high=high), times_s, told
            )


def _of_jobs(connection: Connection, since_s: float) -> Iterator[Values]:
    fields: Mapping[str, tuple[str, str, float | None]] = {
        "step_s": ("s", "CASE WHEN steps > 0 THEN step_median_s END", None),
        "steps_per_s": ("1/s", "steps / length_s", None),
        "wait_ratio": (RATIO, "wait_ratio", 1.0),
    }
    sql = f"""SELECT cluster, job, {_lists(told for _, told, _ in fields.values())}
        FROM job_window WHERE length_s = {JOBS_S} AND start_s >= ? GROUP BY cluster, job"""
    for cluster, job, times_s, *values in connection.each(sql, [since_s]):
        for (field, (unit, _, high)), told in zip(fields.items(), values, strict=True):
            subject = SeriesSubject(f"{cluster}/job/{job}/{field}", unit, JOBS_S, cluster, job, high=high)
            yield from _measured(subject, times_s, told)


def _lists(columns: "Iterator[str] | Sequence[str]") -> str:
    return ", ".join(f"list({column} ORDER BY start_s)" for column in ("start_s", *columns))


def _measured(subject: SeriesSubject, times_s: Sequence[float], values: Sequence[float | None]) -> Iterator[Values]:
    """What was measured; gaps stay gaps."""
    pairs = [(at_s, value) for at_s, value in zip(times_s, values, strict=True) if value is not None]
    if pairs:
        yield Values(subject, [at_s for at_s, _ in pairs], [float(value) for _, value in pairs])


def filled(where: str, environ: Mapping[str, str], memory: Memory, now_s: float | None = None) -> None:
    """Fill ``memory`` where that is possible, and say so: an archive that is none costs a line of the log."""
    began = time.monotonic()
    try:
        kept = backfill(where, environ, memory, now_s)
    except Exception as error:  # Whatever is wrong with it, the service does without.
        logger.warning("nothing is filled from the archive: %s", " ".join(str(error).split())[:500])
        return
    logger.info("%d values from the archive at %s in %.1f s", kept, where, time.monotonic() - began)
