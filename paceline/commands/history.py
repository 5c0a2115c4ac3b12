"""``paceline history``: what happened, asked of an archive.

Rule of this file: options to questions; DuckDB answers them. It needs no broker and changes nothing.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from paceline.install import install
from paceline.options import Parser
from paceline.settings import ARCHIVE, whole
from paceline.terminal import say
from paceline.words import WAITING

if TYPE_CHECKING:
    from paceline.history.query import Answer
    from paceline.history.views import Scope

PROGRAM = "paceline history"
EPILOG = """examples:
  paceline history jobs --since 7d                              what ran, how fast, and what it lost
  paceline history jobs --label slurm_account=nlp               whose they were; labels: SELECT * FROM job_labels
  paceline history findings --since 24h --cause throttling      what was found
  paceline history findings --node gpu-17 --json | jq .summary  on one node, an object a line
  paceline history devices --since 2026-11-01 --until 2026-11-15
  paceline history gaps --since 30d                             when nothing is known of a GPU
  paceline history --sql "SELECT cause, sum(cost_gpu_hours) FROM findings GROUP BY ALL" --since 30d
  paceline history tables                                       what can be asked in SQL

Times are in UTC. SQL is DuckDB's; it sees the archive, between --since and --until, and no other file.
Exit status 0: answered; 1: the archive cannot be read, or the question cannot be answered; 2: wrong options.
"""
#: Headings that are those of `paceline top` and the page; in SQL, CSV and JSON columns keep their names.
TITLES = {"wait_ratio": WAITING}
#: The options that a question of findings or jobs can be narrowed by, and their columns.
_WORDS = {"job": "job", "kind": "kind", "cause": "cause", "state": "state"}

_LABELLED = (
    "EXISTS (SELECT 1 FROM job_labels AS one WHERE one.cluster = jobs.cluster AND one.job = jobs.job "
    "AND one.attempt = jobs.attempt AND one.label = ? AND one.value = ?)"
)


class Question(NamedTuple):
    """A question: its SQL, before what narrows it, its order, and the options that do narrow it."""

    sql: str
    order: str
    words: tuple[str, ...] = ()
    node: str = ""


QUESTIONS: Mapping[str, Question] = {
    "jobs": Question(
        "SELECT started, job, attempt, ranks, nodes, steps, step_s, wait_ratio, findings, lost_s, lost_gpu_hours, "
        "make_timestamp(CAST(ended_s * 1e6 AS BIGINT)) AS ended, exit_status, user_name, account, cluster FROM jobs",
        "started DESC",
        ("job",),
        "EXISTS (SELECT 1 FROM job WHERE job.cluster = jobs.cluster AND job.job = jobs.job "
        "AND job.attempt = jobs.attempt AND job.node = ?)",
    ),
    "findings": Question(
        "SELECT time, job, kind, state, cause, ranks, nodes, cost_lost_s AS lost_s, cost_gpu_hours AS gpu_hours, "
        "confidence AS confidence_ratio, summary, cluster, id FROM findings",
        "time DESC",
        ("job", "kind", "cause", "state"),
        "list_contains(nodes, ?)",
    ),
    "devices": Question(
        "SELECT node, device, utilization_ratio, fb_used_bytes, fb_total_bytes, power_w, throttled_ratio, hours, "
        "make_timestamp(CAST(heard_s * 1e6 AS BIGINT)) AS updated, cluster FROM devices",
        "node, device",
        (),
        "node = ?",
    ),
    "gaps": Question(
        "SELECT since, until, node, device, hours, cluster FROM gaps", "since, node, device", (), "node = ?"
    ),
    "suggestions": Question(
        "SELECT time, action, target, state, severity, title, gain_gpu_hours_per_day AS gpu_hours_per_day, cluster, id "
        "FROM suggestions",
        "time DESC",
        ("state",),
        "list_contains(nodes, ?)",
    ),
}


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = Parser(
        prog=PROGRAM,
        description="Query an archive: jobs, findings, devices, nodes.\nNeeds an archive of `paceline archive`.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("what", nargs="?", choices=[*QUESTIONS, "tables"], help="what to list")
    made.add_argument("--sql", metavar="SQL", help="your own SQL query instead")
    made.add_argument(
        "--from", dest="archive", metavar="WHERE", help=f"a folder or s3://BUCKET/PREFIX (default: {ARCHIVE.name})"
    )
    made.add_argument(
        "--since", metavar="WHEN", default="7d", help="start: so long ago (7d, 12h), or a date (%(default)s)"
    )
    made.add_argument("--until", metavar="WHEN", default="0s", help="end: so long ago, or a date (now)")
    made.add_argument("--cluster", metavar="NAME", default="", help="only this cluster")
    made.add_argument("--node", metavar="NAME", default="", help="only what concerns this node")
    for name in _WORDS:
        made.add_argument(f"--{name}", metavar="NAME", default="", help=f"only this {name}")
    made.add_argument(
        "--label", metavar="NAME=VALUE", dest="labels", type=_label, action="append", default=[],
        help="only jobs with this label, as slurm_account=nlp or kubernetes_namespace=ml; repeatable",
    )  # fmt: skip
    made.add_argument("--limit", metavar="N", type=_limit, default=100, help="rows at most (%(default)s)")
    form = made.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="a JSON object a line")
    form.add_argument("--csv", action="store_true", help="CSV, a heading first")
    return made


def _label(raw: str) -> tuple[str, str]:
    name, equals, value = raw.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{raw!r}: allowed: NAME=VALUE, as slurm_account=nlp")
    return name, value


def _limit(raw: str) -> int:
    try:
        return whole(1, 10_000_000)(raw)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{raw!r}: {error}; allowed: 1 to 10000000") from None


def main(argv: list[str] | None = None) -> int:
    """Answer one question; the exit status."""
    made = parser()
    args = made.parse_args(argv)
    if (args.what is None) == (args.sql is None):
        made.error("what? One of " + ", ".join(QUESTIONS) + ", tables, or --sql")
    if args.labels and args.what != "jobs":
        made.error("--label is for jobs")
    archive = args.archive or ARCHIVE.read(os.environ)
    if args.what != "tables" and not archive:
        made.error(f"--from: which archive? Name a folder or s3://BUCKET/PREFIX, or set {ARCHIVE.name}")
    try:
        from paceline.history import answers
        from paceline.history.query import QueryError
        from paceline.history.store import StoreError
    except ModuleNotFoundError as error:
        say(f"{error.name} is missing; fix: {install('history')}", PROGRAM)
        return 2
    if args.what == "tables":
        print(_tables())
        return 0
    try:
        answer = _asked(args, archive, _scope(made, args))
    except (QueryError, StoreError) as error:
        say(str(error), PROGRAM)
        return 1
    show: Callable[[Answer], object] = answers.json_lines if args.json else answers.csv_lines
    lines = show(answer) if args.json or args.csv else [answers.table(answer, {} if args.sql is not None else TITLES)]
    for line in lines:  # type: ignore[attr-defined]
        print(line)
    return 0


def _scope(made: argparse.ArgumentParser, args: argparse.Namespace) -> "Scope":
    from paceline.history import spans
    from paceline.history.views import Scope

    now_s = time.time()
    try:
        since_s, until_s = spans.moment(args.since, now_s), spans.moment(args.until, now_s)
    except ValueError as error:
        made.error(str(error))
    if since_s >= until_s:
        made.error(f"--since {args.since} is not before --until {args.until}")
    return Scope(since_s, until_s, args.cluster)


def _asked(args: argparse.Namespace, archive: str, scope: "Scope") -> "Answer":
    from paceline.history import views
    from paceline.history.query import History

    history = History.open(archive, os.environ)
    if args.sql is not None:
        with history.connect(scope, views.NAMES) as connection:
            return connection.ask(args.sql, (), args.limit)
    question = QUESTIONS[args.what]
    wanted = {name: getattr(args, name) for name in question.words if getattr(args, name)}
    parts, values = [f"{_WORDS[name]} = ?" for name in wanted], list(wanted.values())
    if args.node:
        parts, values = [*parts, question.node], [*values, args.node]
    for label in args.labels:
        parts, values = [*parts, _LABELLED], [*values, *label]
    where = f" WHERE {' AND '.join(parts)}" if parts else ""
    with history.connect(scope, (args.what,)) as connection:
        return connection.ask(f"{question.sql}{where} ORDER BY {question.order}", values, args.limit)


def _tables() -> str:
    from paceline.history import views
    from paceline.history.tables import TABLES

    lines = [f"{name:<16} {what}" for name, (what, _) in views.VIEWS.items()]
    for table in TABLES:
        told_by = "Slurm" if table.topic is None else table.topic.short
        lines.append(f"{table.name:<16} {told_by}: {', '.join(['time', *table.columns])}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
