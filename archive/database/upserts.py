"""The statements that write: each row by its key, and only over an older one.

Rule of this file: who is older is said here and nowhere else, inside the statement, so that it holds whatever another
writer does at the same time. Each is executed a row at a time, in the order in which messages came.
"""

from typing import Any

from sqlalchemy import (
    ColumnElement,
    Insert,
    Select,
    Subquery,
    Table,
    Update,
    and_,
    bindparam,
    case,
    func,
    or_,
    select,
    tuple_,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from .tables import FINDING, JOB, JOB_NODE, POSITION, SUGGESTION

Inserted = postgresql.Insert | sqlite.Insert
_KEY = (JOB_NODE.c.cluster, JOB_NODE.c.job, JOB_NODE.c.attempt)
#: After every rank that there may be.
_NO_RANK = 2**62


def finding(dialect: str) -> Insert:
    """A finding over an older revision of it; when it was first seen stays."""
    return _by_revision(dialect, FINDING, keep=("first_seen_s",))


def suggestion(dialect: str) -> Insert:
    """A suggestion over an older revision of it."""
    return _by_revision(dialect, SUGGESTION)


def position(dialect: str) -> Insert:
    """A position over what was there."""
    inserted = _insert(dialect, POSITION)
    return inserted.on_conflict_do_update(index_elements=["topic", "partition"], set_=_others(inserted, POSITION))


def job_node(dialect: str) -> Insert:
    """What a node says over what it said before.

    A producer numbers what it says. Another producer of the same node is a sidecar that was started again, or the one
    before whose last words come late: the later start of the ranks counts, and of equal ones that they have ended.
    """
    inserted = _insert(dialect, JOB_NODE)
    new, old = inserted.excluded, JOB_NODE.c
    same = new.producer == old.producer
    newer = or_(
        and_(same, new.sequence > old.sequence),
        and_(~same, new.started_s > old.started_s),
        and_(~same, new.started_s == old.started_s, or_(old.ended_s.is_(None), new.ended_s.is_not(None))),
    )
    return inserted.on_conflict_do_update(
        index_elements=["cluster", "job", "attempt", "teller"], set_=_others(inserted, JOB_NODE), where=newer
    )


def new_job(dialect: str) -> Insert:
    """A job that nobody has spoken of before, so that what its nodes say has a row to belong to."""
    return _insert(dialect, JOB).on_conflict_do_nothing()


def jobs_locked(keys: list[tuple[Any, ...]]) -> Select[Any]:
    """The rows of these jobs, which no other writer changes until this one has; SQLite has locked all."""
    return select(JOB.c.job).where(tuple_(JOB.c.cluster, JOB.c.job, JOB.c.attempt).in_(keys)).with_for_update()


def totals(keys: list[tuple[Any, ...]]) -> Select[Any]:
    """What the nodes of these jobs amount to: a job has ended when all have, with the status that is not 0, if any."""
    told = _speaking(keys)
    key = [told.c[column.name] for column in _KEY]
    failed = func.max(func.nullif(told.c.exit_status, 0))
    return select(
        *key,
        func.max(told.c.world_size).label("ranks"),
        func.count(told.c.node.distinct()).label("nodes"),
        func.min(told.c.started_s).label("started_s"),
        case((func.count() == func.count(told.c.ended_s), func.max(told.c.ended_s))).label("ended_s"),
        func.coalesce(failed, func.max(told.c.exit_status)).label("exit_status"),
        func.max(told.c.updated_s).label("updated_s"),
    ).group_by(*key)


def words(keys: list[tuple[Any, ...]]) -> Select[Any]:
    """What the node with the lowest rank says of these jobs."""
    told = _speaking(keys)
    key = [told.c[column.name] for column in _KEY]
    order = (func.coalesce(told.c.lowest_rank, _NO_RANK), told.c.started_s.desc(), told.c.teller)
    place = func.row_number().over(partition_by=key, order_by=order).label("place")
    said = [told.c[name] for name in ("framework", "backend", "batch_size", "labels")]
    placed = select(*key, *said, place).subquery()
    return select(*(column for column in placed.c if column.name != "place")).where(placed.c.place == 1)


def job_update() -> Update:
    """What a job's nodes amount to, into its row; the parameters of its key begin with ``of_``."""
    return update(JOB).where(*(JOB.c[column.name] == bindparam(f"of_{column.name}") for column in _KEY))


def _speaking(keys: list[tuple[Any, ...]]) -> Subquery:
    """The rows of these jobs' nodes, without those whose ranks another has started since: a pod, and the one before.

    One that left after that ran beside it, as ``paceline.job_life`` has it.
    """
    latest_s = func.max(JOB_NODE.c.started_s).over(partition_by=(*_KEY, JOB_NODE.c.lowest_rank)).label("latest_s")
    told = select(JOB_NODE, latest_s).where(tuple_(*_KEY).in_(keys)).subquery()
    speaks = or_(told.c.started_s == told.c.latest_s, told.c.ended_s > told.c.latest_s, told.c.lowest_rank.is_(None))
    return select(told).where(speaks).subquery()


def _by_revision(dialect: str, table: Table, keep: tuple[str, ...] = ()) -> Insert:
    inserted = _insert(dialect, table)
    newer = inserted.excluded.revision > table.c.revision
    return inserted.on_conflict_do_update(index_elements=["id"], set_=_others(inserted, table, keep), where=newer)


def _others(inserted: Inserted, table: Table, keep: tuple[str, ...] = ()) -> dict[str, ColumnElement[Any]]:
    """Every column that is no part of the key, and is not to stay, as it was to be inserted."""
    return {
        column.name: inserted.excluded[column.name]
        for column in table.columns
        if not column.primary_key and column.name not in keep
    }


def _insert(dialect: str, table: Table) -> Inserted:
    return postgresql.insert(table) if dialect == "postgresql" else sqlite.insert(table)
