"""What can be asked of an archive in SQL: a view a table, and a few that answer what people ask first.

Rule of this file: pure text. Numbers and names are written into it by ``quoted`` alone.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from paceline.events import LONG_WINDOW_S
from paceline.gpu.use import IDLE_RATIO
from paceline.lost_time import COUNTED

from .table import CLUSTER, PUBLISHED, Kind, Table
from .tables import TABLES

#: What DuckDB calls each kind of column.
_TYPES: Mapping[Kind, str] = {
    "text": "VARCHAR",
    "json": "JSON",
    "i64": "BIGINT",
    "f64": "DOUBLE",
    "bool": "BOOLEAN",
    "text[]": "VARCHAR[]",
    "i64[]": "BIGINT[]",
    "f64[]": "DOUBLE[]",
}
#: Tables in which a row tells of what goes on, however long ago it was published.
LASTING = ("job", "node", "slurm_job")


class Scope(NamedTuple):
    """What is asked for: from ``since_s`` to before ``until_s``, of one cluster, job or node where one is named.

    ``nodes``: only these, of tables that have a node a row; the files and the parts of files without them are not read.
    """

    since_s: float
    until_s: float
    cluster: str = ""
    job: str = ""
    node: str = ""
    nodes: tuple[str, ...] = ()

    def words(self, table: Table) -> dict[str, str]:
        """The columns of ``table`` that shall be equal to a word."""
        named = {CLUSTER: self.cluster, "job": self.job, "node": self.node}
        if table.topic is None:  # Jobs as their scheduler calls them.
            named = {CLUSTER: self.cluster}
        return {name: word for name, word in named.items() if word and name in table.columns}


def quoted(word: str) -> str:
    """``word`` as SQL has it.

    >>> quoted("o'clock")
    "'o''clock'"
    """
    return "'" + word.replace("'", "''").replace("\0", "") + "'"


def table_view(table: Table, addresses: Iterable[str], scope: Scope) -> list[str]:
    """Statements that make the view of ``table`` over files at ``addresses``; a column that none has is null."""
    columns = ", ".join(f'"{name}" {_TYPES[kind]}' for name, kind in table.columns.items())
    files = ", ".join(map(quoted, addresses))
    rows = f"SELECT * FROM none.{table.name}"
    if files:
        rows += f" UNION ALL BY NAME SELECT * FROM read_parquet([{files}], union_by_name=true, hive_partitioning=false)"
    wanted = [f'"{table.time}" < {scope.until_s!r}']
    if table.name not in LASTING:
        wanted.append(f'"{table.time}" >= {scope.since_s!r}')
    wanted += [f'"{name}" = {quoted(word)}' for name, word in scope.words(table).items()]
    if scope.nodes and "node" in table.columns:  # Bounds are what a reader passes over parts of files by.
        low, high = quoted(min(scope.nodes)), quoted(max(scope.nodes))
        wanted.append(f'"node" BETWEEN {low} AND {high} AND "node" IN ({", ".join(map(quoted, scope.nodes))})')
    time = f'make_timestamp(CAST("{table.time}" * 1e6 AS BIGINT)) AS time'
    return [
        f"CREATE TABLE none.{table.name} ({columns})",
        f"CREATE VIEW {table.name} AS SELECT {time}, * FROM ({rows}) WHERE {' AND '.join(wanted)}",
    ]


def scope_table(scope: Scope) -> str:
    """A statement that makes the table from which views read the period."""
    return f"CREATE TABLE none.scope AS SELECT {scope.since_s!r} AS since_s, {scope.until_s!r} AS until_s"


def _newest(table: str, key: str, order: str) -> str:
    return f"SELECT * FROM {table} QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY {order}) = 1"


#: A part of a job tells of itself again; which one it is, see ``JobDescribed.teller``.
_JOB_PARTS = _newest(
    "job",
    "cluster, job, attempt, node, part, json_extract_string(event, '$.labels.kubernetes_pod')",
    f"{PUBLISHED} DESC, kafka_offset DESC",
)

#: Windows that a minute is one of, or several: shorter ones say the same again.
OF_LONG_WINDOWS = f"length_s >= {LONG_WINDOW_S:g}"
#: For how long a GPU was used in a window, and idle; null where it was not measured. Windows that an archive has joined
#: say it themselves, unless an older version joined them.
USED_S = f"coalesce(used_s, length_s * CAST(mean_utilization_ratio >= {IDLE_RATIO!r} AS INTEGER))"
IDLE_S = f"coalesce(idle_s, length_s * CAST(mean_utilization_ratio < {IDLE_RATIO!r} AS INTEGER))"
#: The mean step of the median rank: its work, and its waits by their share. A median does not see one long wait.
_MEAN_STEP_S = "greatest(step_median_s, own_median_s / nullif(1 - least(wait_ratio, 1), 0))"
_WAITED_S = f"sum(wait_ratio * steps * {_MEAN_STEP_S})"
_SPENT_S = f"sum(steps * {_MEAN_STEP_S}) FILTER (wait_ratio IS NOT NULL)"
#: The share of the time of windows, not of their steps, for which the median rank waits: slow steps count for more.
WAITING_RATIO = f"{_WAITED_S} / nullif({_SPENT_S}, 0)"

#: Of jobs that were described before the period, those that were still there in it. What a job lost by its findings is
#: as ``paceline.lost_time`` counts it: of those that overlap in steps the largest, and of a job that began before the
#: period from its first step there on. Its step is the median, as reports tell it: each window's stands for all of its
#: steps, to half a percent.
_JOBS = f"""
WITH described AS (
    SELECT
        cluster, job, attempt, min(started_s) AS started_s, max({PUBLISHED}) AS told_s,
        CASE WHEN count(*) = count(ended_s) THEN max(ended_s) END AS ended_s,
        max(exit_status) AS exit_status, max(world_size) AS ranks, count(DISTINCT node) AS nodes,
        any_value(framework) AS framework, any_value(batch_size) AS batch_size
    FROM job_parts GROUP BY ALL
), paces AS (
    SELECT
        cluster, job, attempt, round(200 * ln(nullif(step_median_s, 0))) AS pace, sum(steps) AS counted,
        sum(step_median_s * steps) / nullif(sum(steps), 0) AS step_s, max(last_step) AS last_step,
        min(first_step) AS first_step, max(start_s + length_s) AS heard_s, {_WAITED_S} AS waited_s,
        {_SPENT_S} AS spent_s, max(ranks) AS ranks, min(start_s) AS first_s
    FROM job_window GROUP BY ALL
), paced AS (
    SELECT
        cluster, job, attempt, max(last_step) - min(first_step) + 1 AS steps, max(heard_s) AS heard_s,
        min(step_s) FILTER (upto >= 0.5 * every) AS step_s, sum(waited_s) / nullif(sum(spent_s), 0) AS wait_ratio,
        max(ranks) AS ranks, min(first_s) AS first_s
    FROM (
        SELECT
            *, sum(counted) OVER (PARTITION BY cluster, job, attempt ORDER BY pace NULLS FIRST) AS upto,
            sum(counted) OVER (PARTITION BY cluster, job, attempt) AS every
        FROM paces
    ) GROUP BY ALL
), labelled AS (
    SELECT
        cluster, job, attempt, min(value) FILTER (label = 'slurm_user') AS user_name,
        min(value) FILTER (label = 'slurm_account') AS account,
        min(value) FILTER (label = 'slurm_partition') AS "partition",
        min(value) FILTER (label = 'slurm_state') AS slurm_state,
        min(value) FILTER (label = 'kubernetes_namespace') AS namespace
    FROM job_labels GROUP BY ALL
), costing AS (
    SELECT
        cluster, job, attempt, id, greatest(findings.first_step, from_step) AS first_step,
        greatest(last_step, findings.first_step) + 1 AS end_step,
        cost_lost_s / (end_step - findings.first_step) AS rate_s,
        cost_gpu_hours / (end_step - findings.first_step) AS rate_gpu_hours
    FROM findings LEFT JOIN (
        SELECT cluster, job, attempt, min(first_step) AS from_step
        FROM paces LEFT JOIN described USING (cluster, job, attempt)
        WHERE coalesce(described.started_s < (SELECT since_s FROM none.scope), true) GROUP BY ALL
    ) USING (cluster, job, attempt)
    WHERE state IN {COUNTED!r} AND findings.first_step >= 0 AND cost_lost_s > 0
        AND (from_step IS NULL OR end_step > from_step)
), stretches AS (
    SELECT *, lead(step) OVER (PARTITION BY cluster, job, attempt ORDER BY step) AS until FROM (
        SELECT DISTINCT cluster, job, attempt, unnest([first_step, end_step]) AS step FROM costing
    )
), largest AS (
    SELECT
        cluster, job, attempt, step, until - step AS steps, max(rate_s) AS rate_s,
        arg_max(rate_gpu_hours, (rate_s, id)) AS rate_gpu_hours
    FROM stretches JOIN costing USING (cluster, job, attempt)
    WHERE first_step <= step AND end_step > step AND until IS NOT NULL GROUP BY ALL
), lost AS (
    SELECT
        cluster, job, attempt, sum(steps * rate_s) AS lost_s, sum(steps * rate_gpu_hours) AS lost_gpu_hours
    FROM largest GROUP BY ALL
), judged AS (
    SELECT
        cluster, job, attempt, found.findings, coalesce(lost_s, 0.0) AS lost_s,
        coalesce(lost_gpu_hours, 0.0) AS lost_gpu_hours
    FROM (SELECT cluster, job, attempt, count(*) AS findings FROM findings GROUP BY ALL) AS found
    LEFT JOIN lost USING (cluster, job, attempt)
)
SELECT
    cluster, job, attempt, coalesce(started_s, first_s) AS started_s,
    make_timestamp(CAST(coalesce(started_s, first_s) * 1e6 AS BIGINT)) AS started,
    ended_s, heard_s, exit_status, coalesce(described.ranks, paced.ranks) AS ranks, nodes, framework, batch_size,
    steps, step_s, wait_ratio, coalesce(findings, 0) AS findings, lost_s, lost_gpu_hours,
    user_name, account, "partition", slurm_state, namespace
FROM described FULL JOIN paced USING (cluster, job, attempt) LEFT JOIN judged USING (cluster, job, attempt)
LEFT JOIN labelled USING (cluster, job, attempt)
WHERE heard_s IS NOT NULL OR greatest(ended_s, described.started_s, told_s) >= (SELECT since_s FROM none.scope)
"""

#: A job is Slurm's where its labels tell Slurm's number of it; where they tell none, where its id is one and it began
#: while that one ran.
_JOB_LABELS = """
WITH described AS (
    SELECT cluster, job, attempt, max(started_s) AS started_s,
        max(json_extract_string(event, '$.labels.slurm_job_id')) AS slurm_job_id
    FROM job GROUP BY ALL
), told AS (
    SELECT DISTINCT cluster, job, attempt, entry.key AS label, entry.value AS value FROM (
        SELECT
            cluster, job, attempt,
            unnest(map_entries(CAST(json_extract(event, '$.labels') AS MAP(VARCHAR, VARCHAR)))) AS entry
        FROM job WHERE json_type(event, '$.labels') = 'OBJECT'
    )
), accounted AS (
    SELECT described.cluster, described.job, described.attempt, slurm.*
    FROM described JOIN (SELECT * RENAME (cluster AS in_cluster, job AS its_job) FROM slurm_jobs) AS slurm
    ON described.cluster = slurm.in_cluster AND (
        described.slurm_job_id = slurm.slurm_job_id OR (
            described.slurm_job_id IS NULL AND described.job = slurm.its_job
            AND described.started_s BETWEEN slurm.start_s - 60 AND coalesce(slurm.end_s, described.started_s) + 60
        )
    )
), unpivoted AS (
    SELECT cluster, job, attempt, unnest([
        {'label': 'slurm_job_name', 'value': name}, {'label': 'slurm_user', 'value': user_name},
        {'label': 'slurm_account', 'value': account}, {'label': 'slurm_partition', 'value': "partition"},
        {'label': 'slurm_state', 'value': state}
    ]) AS entry FROM accounted
)
SELECT cluster, job, attempt, label, value FROM told
UNION SELECT cluster, job, attempt, entry.label, entry.value FROM unpivoted WHERE entry.value IS NOT NULL
"""


def _mean(column: str) -> str:
    """The mean of ``column`` over samples; of windows that did not measure it, none count."""
    return f"sum(samples * mean_{column}) / nullif(sum(samples) FILTER (mean_{column} IS NOT NULL), 0) AS {column}"


_DEVICES = f"""
SELECT
    cluster, node, device, {_mean("utilization_ratio")}, {_mean("fb_used_bytes")},
    max(max_fb_total_bytes) AS fb_total_bytes, {_mean("power_w")},
    max(max_temperature_celsius) AS temperature_celsius_max, {_mean("throttled_ratio")},
    sum(length_s) / 3600 AS hours, max(start_s + length_s) AS heard_s
FROM device_window WHERE {OF_LONG_WINDOWS} GROUP BY ALL
"""

_DEVICE_GAPS = f"""
SELECT
    make_timestamp(CAST(since_s * 1e6 AS BIGINT)) AS since, make_timestamp(CAST(until_s * 1e6 AS BIGINT)) AS until,
    cluster, node, device, since_s, until_s, (until_s - since_s) / 3600 AS hours
FROM (
    SELECT
        cluster, node, device,
        max(start_s + length_s) OVER (one ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS since_s,
        lead(start_s) OVER one AS until_s
    FROM device_window WHERE {OF_LONG_WINDOWS} WINDOW one AS (PARTITION BY cluster, node, device ORDER BY start_s)
) WHERE until_s - since_s > 900
"""

#: View -> what a row of it is, and its SQL.
VIEWS: Mapping[str, tuple[str, str]] = {
    "findings": (
        "a finding, its newest revision",
        _newest("finding", "cluster, id", f"revision DESC, {PUBLISHED} DESC"),
    ),
    "suggestions": (
        "a suggestion, its newest revision",
        _newest("suggestion", "cluster, id", f"revision DESC, {PUBLISHED} DESC"),
    ),
    "job_parts": ("the last report of a node, or a part of one, on its job", _JOB_PARTS),
    "slurm_jobs": (
        "a job of Slurm's accounting, its newest record",
        _newest("slurm_job", "cluster, job", f"{PUBLISHED} DESC"),
    ),
    "job_labels": (
        "what Kubernetes, Slurm and its accounting call an attempt of a job, a label a row",
        _JOB_LABELS.strip(),
    ),
    "jobs": ("an attempt of a job: when, where, its pace, what it lost, whose it was", _JOBS.strip()),
    "devices": ("a GPU: how much it was used", _DEVICES.strip()),
    "gaps": (
        "more than 15 min without data of a GPU that reported before and after",
        _DEVICE_GAPS.strip(),
    ),
}
#: What each of these reads.
NEEDS: Mapping[str, tuple[str, ...]] = {
    "findings": ("finding",),
    "suggestions": ("suggestion",),
    "job_parts": ("job",),
    "slurm_jobs": ("slurm_job",),
    "job_labels": ("job", "slurm_job"),
    "jobs": ("job", "job_window", "finding", "slurm_job"),
    "devices": ("device_window",),
    "gaps": ("device_window",),
}
NAMES = (*(table.name for table in TABLES), *VIEWS)
