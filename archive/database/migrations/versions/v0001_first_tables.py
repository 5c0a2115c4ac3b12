"""The first tables: jobs and what their nodes say, findings, suggestions, and how far the topics were read.

Rule of this file, and of every file beside it: once released it is never changed, and it imports nothing of ours.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.types import TypeEngine

revision = "0001"
down_revision = None

_DOCUMENT = sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")


def _column(name: str, kind: TypeEngine[Any] | type[TypeEngine[Any]], *, null: bool = False) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=null)


def upgrade() -> None:
    """Make them."""
    _job()
    _job_node()
    _finding()
    _finding_node()
    _suggestion()
    _position()


def _job() -> None:
    op.create_table(
        "job",
        _column("cluster", sa.Text),
        _column("job", sa.Text),
        _column("attempt", sa.BigInteger),
        _column("ranks", sa.BigInteger),
        _column("nodes", sa.BigInteger),
        _column("framework", sa.Text),
        _column("backend", sa.Text),
        _column("started_s", sa.Double),
        _column("ended_s", sa.Double, null=True),
        _column("exit_status", sa.BigInteger, null=True),
        _column("batch_size", sa.BigInteger, null=True),
        _column("labels", _DOCUMENT),
        _column("first_seen_s", sa.Double),
        _column("updated_s", sa.Double),
        sa.PrimaryKeyConstraint("cluster", "job", "attempt", name="job_pkey"),
    )
    op.create_index("job_started", "job", ["started_s"])


def _job_node() -> None:
    op.create_table(
        "job_node",
        _column("cluster", sa.Text),
        _column("job", sa.Text),
        _column("attempt", sa.BigInteger),
        _column("teller", sa.Text),
        _column("node", sa.Text),
        _column("producer", sa.Text),
        _column("sequence", sa.BigInteger),
        _column("lowest_rank", sa.BigInteger, null=True),
        _column("local_ranks", sa.BigInteger),
        _column("world_size", sa.BigInteger),
        _column("framework", sa.Text),
        _column("backend", sa.Text),
        _column("started_s", sa.Double),
        _column("ended_s", sa.Double, null=True),
        _column("exit_status", sa.BigInteger, null=True),
        _column("batch_size", sa.BigInteger, null=True),
        _column("labels", _DOCUMENT),
        _column("updated_s", sa.Double),
        _column("event", _DOCUMENT),
        sa.PrimaryKeyConstraint("cluster", "job", "attempt", "teller", name="job_node_pkey"),
        sa.ForeignKeyConstraint(
            ["cluster", "job", "attempt"],
            ["job.cluster", "job.job", "job.attempt"],
            name="job_node_job",
            ondelete="CASCADE",
        ),
    )
    op.create_index("job_node_node", "job_node", ["node"])


def _finding() -> None:
    op.create_table(
        "finding",
        _column("id", sa.Text),
        _column("revision", sa.BigInteger),
        _column("cluster", sa.Text),
        _column("job", sa.Text),
        _column("attempt", sa.BigInteger),
        _column("kind", sa.Text),
        _column("state", sa.Text),
        _column("cause", sa.Text),
        _column("severity", sa.Text),
        _column("confidence", sa.Double),
        _column("ranks", _DOCUMENT),
        _column("nodes", _DOCUMENT),
        _column("devices", _DOCUMENT),
        _column("stage", sa.BigInteger, null=True),
        _column("rank_group", sa.Text, null=True),
        _column("first_step", sa.BigInteger),
        _column("last_step", sa.BigInteger),
        _column("lost_s", sa.Double),
        _column("gpu_hours", sa.Double),
        _column("throughput_lost_ratio", sa.Double),
        _column("summary", sa.Text),
        _column("first_seen_s", sa.Double),
        _column("updated_s", sa.Double),
        _column("event", _DOCUMENT),
        sa.PrimaryKeyConstraint("id", name="finding_pkey"),
    )
    op.create_index("finding_job", "finding", ["cluster", "job", "attempt"])
    op.create_index("finding_updated", "finding", ["updated_s"])
    op.create_index("finding_cause", "finding", ["cause", "updated_s"])


def _finding_node() -> None:
    op.create_table(
        "finding_node",
        _column("finding", sa.Text),
        _column("node", sa.Text),
        sa.PrimaryKeyConstraint("finding", "node", name="finding_node_pkey"),
        sa.ForeignKeyConstraint(["finding"], ["finding.id"], name="finding_node_finding", ondelete="CASCADE"),
    )
    op.create_index("finding_node_node", "finding_node", ["node"])


def _suggestion() -> None:
    op.create_table(
        "suggestion",
        _column("id", sa.Text),
        _column("revision", sa.BigInteger),
        _column("cluster", sa.Text),
        _column("action", sa.Text),
        _column("target", sa.Text),
        _column("state", sa.Text),
        _column("severity", sa.Text),
        _column("risk", sa.Text),
        _column("job", sa.Text),
        _column("attempt", sa.BigInteger),
        _column("ranks", _DOCUMENT),
        _column("nodes", _DOCUMENT),
        _column("devices", _DOCUMENT),
        _column("findings", _DOCUMENT),
        _column("title", sa.Text),
        _column("reason", sa.Text),
        _column("gpu_hours_per_day", sa.Double, null=True),
        _column("money_per_day", sa.Double, null=True),
        _column("currency", sa.Text),
        _column("decided_by", sa.Text),
        _column("because", sa.Text),
        _column("created_s", sa.Double),
        _column("updated_s", sa.Double),
        _column("expires_s", sa.Double),
        _column("event", _DOCUMENT),
        sa.PrimaryKeyConstraint("id", name="suggestion_pkey"),
    )
    op.create_index("suggestion_job", "suggestion", ["cluster", "job", "attempt"])
    op.create_index("suggestion_updated", "suggestion", ["updated_s"])


def _position() -> None:
    op.create_table(
        "position",
        _column("topic", sa.Text),
        _column("partition", sa.Integer),
        _column("next_offset", sa.BigInteger),
        _column("topic_id", sa.Text, null=True),
        sa.PrimaryKeyConstraint("topic", "partition", name="position_pkey"),
    )
