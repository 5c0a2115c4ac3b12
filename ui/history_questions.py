"""What History asks of an archive, in SQL.

Rule of this file: pure. The SQL is this file's own: words from a page or a link are values that are bound to it, never
a part of it. Every question has a period, the views that it reads, and a bound on its rows. Costs grow within an
episode, so the newest revision counts; a loss by day is what an episode cost more than at its revision before.
"""

import datetime
from typing import NamedTuple

from paceline.history.views import IDLE_S, OF_LONG_WINDOWS, USED_S, WAITING_RATIO

from .history_link import DAY_S, Sought, midnight, next_month

#: Rows of lists, of the worst nodes, of a job's episodes, and points of a line.
LISTED, WORST, EPISODES, POINTS = 200, 15, 60, 400
#: How far back of a month episodes are looked at, so that what they had cost before it does not count.
BEFORE_S = 14 * DAY_S
#: Names of a job in clusters with a slash in theirs.
_SPLITS = 8
#: What links call a job: with its cluster where that has a name of its own.
_NAME = "CASE WHEN {0}cluster = 'default' THEN {0}job ELSE concat({0}cluster, '/', {0}job) END"


class Question(NamedTuple):
    """A question: its SQL and the values bound to it, the views that it reads, its period, and how many rows at most.

    Two that are equal have the same answer.
    """

    sql: str
    values: tuple[str | float, ...]
    views: tuple[str, ...]
    since_s: float
    until_s: float
    most: int


class _Where(NamedTuple):
    parts: tuple[str, ...] = ()
    values: tuple[str | float, ...] = ()

    def also(self, part: str, *values: str | float) -> "_Where":
        return _Where((*self.parts, part), (*self.values, *values))

    @property
    def sql(self) -> str:
        return " AND ".join(self.parts) or "true"


def _job_is(where: _Where, job: str, of: str = "") -> _Where:
    """Only this job: by what it may be called in its cluster, which files are sorted by, then by both."""
    pieces = job.split("/", _SPLITS)
    names = ["/".join(pieces[at:]) for at in range(len(pieces))]
    held = ", ".join("?" * len(names))
    return where.also(f"{of}job IN ({held}) AND {_NAME.format(of)} = ?", *names, job)


def _findings_where(sought: Sought) -> _Where:
    where = _Where()
    if sought.job:
        where = _job_is(where, sought.job)
    if sought.node:
        where = where.also("list_contains(nodes, ?)", sought.node)
    if sought.find:
        machines = "array_to_string(nodes, chr(10)), array_to_string(devices, chr(10))"
        names = f"concat_ws(chr(10), {_NAME.format('')}, {machines})"
        where = where.also(f"contains(lower({names}), lower(?))", sought.find)
    for column, word in (("cause", sought.cause), ("kind", sought.kind), ("cluster", sought.cluster)):
        if word:
            where = where.also(f"{column} = ?", word)
    return where


def findings(sought: Sought, now_s: float) -> Question:
    """The findings of the period, the newest first."""
    where = _findings_where(sought)
    return Question(
        f"SELECT time_s, cluster, job, attempt, kind, state, cause, severity, nodes, cost_lost_s, cost_gpu_hours, "
        f"summary, id, event FROM findings WHERE {where.sql} ORDER BY time_s DESC, id",
        where.values,
        ("findings",),
        *sought.period(now_s),
        LISTED,
    )


def jobs(sought: Sought, now_s: float) -> Question:
    """The attempts of jobs that ran in the period, the newest first."""
    since_s, until_s = sought.period(now_s)
    where = _Where()
    if sought.job:
        where = _job_is(where, sought.job)
    if sought.cluster:
        where = where.also("cluster = ?", sought.cluster)
    here = "SELECT 1 FROM job WHERE job.cluster = jobs.cluster AND job.job = jobs.job AND job.attempt = jobs.attempt"
    if sought.node:
        where = where.also(f"EXISTS ({here} AND job.node = ?)", sought.node)
    if sought.find:
        words = (sought.find, sought.find)
        named = f"contains(lower({_NAME.format('jobs.')}), lower(?))"
        where = where.also(f"({named} OR EXISTS ({here} AND contains(lower(job.node), lower(?))))", *words)
    told = (
        "SELECT 1 FROM findings AS f WHERE f.cluster = jobs.cluster AND f.job = jobs.job AND f.attempt = jobs.attempt"
    )
    for column, word in (("cause", sought.cause), ("kind", sought.kind)):
        if word:
            where = where.also(f"EXISTS ({told} AND f.{column} = ?)", word)
    return Question(
        "SELECT started_s, ended_s, heard_s, cluster, job, attempt, ranks, nodes, steps, step_s, wait_ratio, findings, "
        f"lost_s, lost_gpu_hours, exit_status FROM jobs WHERE {where.sql} "
        "ORDER BY started_s DESC NULLS LAST, cluster, job, attempt",
        where.values,
        ("jobs",),
        since_s,
        until_s,
        LISTED,
    )


def lost_by_day(sought: Sought, now_s: float) -> Question:
    """The calendar: for each day of the month (as days since 1970) what was lost in it, and by how many episodes."""
    first = sought.shown_month(now_s)
    begin_s, end_s = midnight(first), midnight(next_month(first))
    where = _findings_where(sought).also("time_s >= ?", begin_s)
    told = "OVER (PARTITION BY cluster, id ORDER BY revision, time_s ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    return Question(
        f"SELECT CAST(floor(time_s / {DAY_S!r}) AS BIGINT) AS day, "
        "sum(greatest(0.0, cost_gpu_hours - hours_before)) AS gpu_hours, "
        "sum(greatest(0.0, cost_lost_s - lost_before)) AS lost_s, count(DISTINCT (cluster, id)) AS findings FROM ("
        f"SELECT *, coalesce(max(cost_gpu_hours) {told}, 0.0) AS hours_before, "
        f"coalesce(max(cost_lost_s) {told}, 0.0) AS lost_before FROM finding"
        f") WHERE {where.sql} GROUP BY day ORDER BY day",
        where.values,
        ("finding",),
        max(0.0, begin_s - BEFORE_S),
        end_s,
        31,
    )


def worst_nodes(sought: Sought, now_s: float) -> Question:
    """The nodes that findings name, those that cost most first; what one of several nodes cost is shared evenly."""
    where = _findings_where(sought).also("len(nodes) > 0")
    own, values = ("WHERE node = ?", (sought.node,)) if sought.node else ("", ())
    return Question(
        "SELECT cluster, node, count(*) AS findings, sum(gpu_hours) AS gpu_hours, sum(lost_s) AS lost_s, "
        "mode(cause) AS cause, count(DISTINCT job) AS jobs, max(time_s) AS time_s FROM ("
        "SELECT cluster, job, cause, time_s, unnest(list_distinct(nodes)) AS node, "
        "cost_gpu_hours / len(list_distinct(nodes)) AS gpu_hours, cost_lost_s / len(list_distinct(nodes)) AS lost_s "
        f"FROM findings WHERE {where.sql}) {own} GROUP BY cluster, node "
        "ORDER BY gpu_hours DESC, lost_s DESC, findings DESC, cluster, node",
        (*where.values, *values),
        ("findings",),
        *sought.period(now_s),
        WORST,
    )


def causes(sought: Sought, now_s: float) -> Question:
    """What was lost by cause."""
    where = _findings_where(sought)
    return Question(
        "SELECT cause, count(*) AS findings, sum(cost_gpu_hours) AS gpu_hours, sum(cost_lost_s) AS lost_s "
        f"FROM findings WHERE {where.sql} GROUP BY cause ORDER BY gpu_hours DESC, lost_s DESC, cause",
        where.values,
        ("findings",),
        *sought.period(now_s),
        WORST,
    )


def use(sought: Sought, now_s: float) -> Question:
    """Device-hours by use: watched, at work, idle though a job had the GPU, idle without one, and not measured."""
    where = _Where((OF_LONG_WINDOWS,))
    if sought.job:
        where = _job_is(where, sought.job)
    for column, word in (("node", sought.node), ("cluster", sought.cluster)):
        if word:
            where = where.also(f"{column} = ?", word)
    if sought.find:
        where = where.also(
            f"contains(lower(concat_ws(chr(10), node, device, {_NAME.format('')})), lower(?))", sought.find
        )
    return Question(
        "SELECT sum(length_s) / 3600 AS watched, "
        f"nullif(sum({USED_S}), 0) / 3600 AS busy, "
        f"nullif(sum({IDLE_S}) FILTER (job <> ''), 0) / 3600 AS idle_held, "
        f"nullif(sum({IDLE_S}) FILTER (coalesce(job, '') = ''), 0) / 3600 AS idle_free, "
        f"nullif(sum(length_s - coalesce({USED_S} + {IDLE_S}, 0)), 0) / 3600 AS unmeasured, "
        "sum(length_s * mean_utilization_ratio) / nullif(sum(length_s) FILTER (mean_utilization_ratio IS NOT NULL), 0) "
        f"AS utilization_ratio FROM device_window WHERE {where.sql}",
        where.values,
        ("device_window",),
        *sought.period(now_s),
        1,
    )


def episodes(sought: Sought, now_s: float) -> Question:
    """The findings as episodes: from when to when each was reported, those that cost most, in the order of time."""
    where = _findings_where(sought)
    words = {name: name for name in ("state", "kind", "cause", "event")}
    words |= {"cost_lost_s": "lost_s", "cost_gpu_hours": "gpu_hours"}
    newest = ", ".join(f"arg_max({name}, (revision, time_s)) AS {word}" for name, word in words.items())
    return Question(
        f"SELECT * FROM (SELECT min(time_s) AS first_s, max(time_s) AS last_s, {newest}, cluster, id "
        f"FROM finding WHERE {where.sql} GROUP BY cluster, id "
        f"ORDER BY gpu_hours DESC, lost_s DESC, id LIMIT {EPISODES + 1}) ORDER BY first_s, id",
        where.values,
        ("finding",),
        *sought.period(now_s),
        EPISODES,
    )


def pace(sought: Sought, now_s: float) -> Question:
    """The job's pace at ``POINTS`` moments or so: the median rank's, the worst's, and the share of waiting."""
    where = _job_is(_Where((OF_LONG_WINDOWS,)), sought.job)
    weighed = "sum({0} * steps) / nullif(sum(steps) FILTER ({0} IS NOT NULL), 0) AS {0}"
    columns = ("step_median_s", "step_p95_s", "own_median_s", "own_worst_s")
    return Question(
        f"WITH told AS (SELECT * FROM job_window WHERE {where.sql}), "
        f"bucket AS (SELECT greatest(60.0, (max(start_s) - min(start_s)) / {POINTS}) AS bucket_s FROM told) "
        f"SELECT floor(start_s / bucket_s) * bucket_s AS at_s, any_value(bucket_s) AS bucket_s, "
        f"{', '.join(weighed.format(name) for name in columns)}, {WAITING_RATIO} AS wait_ratio "
        "FROM told, bucket GROUP BY at_s ORDER BY at_s",
        where.values,
        ("job_window",),
        *sought.period(now_s),
        POINTS + 2,
    )


def clusters(now_s: float) -> Question:
    """The clusters that told of anything in the last year."""
    since_s, until_s = Sought(past="365d").period(now_s // DAY_S * DAY_S)
    return Question(
        "SELECT DISTINCT cluster FROM (SELECT cluster FROM job UNION ALL SELECT cluster FROM finding) "
        "WHERE cluster <> '' ORDER BY cluster",
        (),
        ("job", "finding"),
        since_s,
        until_s + DAY_S,
        LISTED,
    )


def day_of(number: int) -> datetime.date:
    """The day that is ``number`` days after 1 January 1970."""
    return datetime.date(1970, 1, 1) + datetime.timedelta(days=number)
