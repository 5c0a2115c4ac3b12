"""A batch of messages into the tables, and how far they were read, in one transaction.

Rule of this file: a door, and no transaction of its own: whoever calls begins and commits. What comes twice, or late,
changes nothing (``upserts``); so a batch may be written again whenever it is not sure that it was.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Executable, bindparam, delete, select

from . import upserts
from .positions import Positions
from .rows import Row, of_nodes
from .tables import FINDING, FINDING_NODE, JOB, POSITION

#: What a job's row takes from its first message, until its nodes are added up in the same transaction.
_OF_A_NEW_JOB = ("cluster", "job", "attempt", "framework", "backend", "started_s", "labels", "updated_s")
_JOB_KEY = ("cluster", "job", "attempt")


class Batch(NamedTuple):
    """Rows by the table that they are for, each in the order in which its messages came."""

    jobs: Sequence[Row] = ()
    findings: Sequence[Row] = ()
    suggestions: Sequence[Row] = ()

    def one_by_one(self) -> Iterable["Batch"]:
        """The same, a row a batch."""
        yield from (Batch(jobs=[row]) for row in self.jobs)
        yield from (Batch(findings=[row]) for row in self.findings)
        yield from (Batch(suggestions=[row]) for row in self.suggestions)


def read_positions(connection: Connection) -> Positions:
    """How far each partition was read."""
    return Positions.of(tuple(row) for row in connection.execute(select(POSITION)))


def write_positions(connection: Connection, before: Positions, now: Positions) -> None:
    """Note how far each partition is read, where that is news."""
    remade, changed = before.remade(now), before.changed(now)
    if remade:
        connection.execute(delete(POSITION).where(POSITION.c.topic.in_(remade)))
    _many(connection, upserts.position(connection.dialect.name), changed)


def write(connection: Connection, batch: Batch) -> Counter[str]:
    """Write ``batch``; how many rows of each table are new or changed."""
    dialect = connection.dialect.name
    return Counter(
        job=_write_jobs(connection, batch.jobs),
        finding=_write_findings(connection, batch.findings),
        suggestion=_many(connection, upserts.suggestion(dialect), _ordered(batch.suggestions, "id")),
    )


def _write_jobs(connection: Connection, rows: Sequence[Row]) -> int:
    if not rows:
        return 0
    dialect, told = connection.dialect.name, _ordered(rows, *_JOB_KEY, "teller")
    new = [{name: row[name] for name in _OF_A_NEW_JOB} | _unknown(row) for row in told]
    _many(connection, upserts.new_job(dialect), new)
    keys = sorted({tuple(row[name] for name in _JOB_KEY) for row in told})
    connection.execute(upserts.jobs_locked(keys)).close()
    changed = _many(connection, upserts.job_node(dialect), told)
    if changed:
        _add_up(connection, keys)
    return changed


def _unknown(row: Row) -> Row:
    """What is not known of a job before its nodes are added up."""
    return {"ranks": 0, "nodes": 0, "first_seen_s": row["updated_s"]}


def _add_up(connection: Connection, keys: list[tuple[Any, ...]]) -> None:
    """What the nodes of these jobs say, into the rows of the jobs."""
    amounts = {row[:3]: row._asdict() for row in connection.execute(upserts.totals(keys))}
    for row in connection.execute(upserts.words(keys)):
        amounts[row[:3]] |= row._asdict()
    updates = [{f"of_{name}": values.pop(name) for name in _JOB_KEY} | values for _, values in sorted(amounts.items())]
    columns = {name: bindparam(name, type_=JOB.c[name].type) for name in updates[0] if not name.startswith("of_")}
    connection.execute(upserts.job_update().values(columns), updates)


def _write_findings(connection: Connection, rows: Sequence[Row]) -> int:
    if not rows:
        return 0
    changed = _many(connection, upserts.finding(connection.dialect.name), _ordered(rows, "id"))
    ids = sorted({row["id"] for row in rows})
    held = connection.execute(select(FINDING.c.id, FINDING.c.nodes).where(FINDING.c.id.in_(ids))).all()
    connection.execute(delete(FINDING_NODE).where(FINDING_NODE.c.finding.in_(ids)))
    _many(connection, FINDING_NODE.insert(), [row for finding, nodes in held for row in of_nodes(finding, nodes)])
    return changed


def _ordered(rows: Sequence[Row], *by: str) -> list[Row]:
    """``rows`` in the order of their keys, and of a key as they came: of two who write none waits in a ring."""
    return sorted(rows, key=lambda row: tuple(row[name] for name in by))


def _many(connection: Connection, statement: Executable, rows: Sequence[Row]) -> int:
    """Execute ``statement`` a row at a time; how many rows it changed."""
    counted = {"preserve_rowcount": True}
    return connection.execute(statement, list(rows), execution_options=counted).rowcount if rows else 0
