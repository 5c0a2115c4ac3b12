"""The tables, as this version of the code reads and writes them.

Rule of this file: data alone. A change here needs a new file in ``migrations/versions``, and a test compares the two.
Names of tables and columns are what people's queries hold: they are added to, and not renamed. Units end the names;
times are Unix seconds.
"""

from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    Double,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.types import TypeEngine

#: JSON, of which PostgreSQL can index what is inside.
DOCUMENT = JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")

metadata = MetaData()


def _column(name: str, kind: TypeEngine[Any] | type[TypeEngine[Any]], *, null: bool = False) -> Column[Any]:
    return Column(name, kind, nullable=null)


#: One attempt of a job, as what its nodes say amounts to.
JOB = Table(
    "job",
    metadata,
    _column("cluster", Text),
    _column("job", Text),
    _column("attempt", BigInteger),
    _column("ranks", BigInteger),
    _column("nodes", BigInteger),
    _column("framework", Text),
    _column("backend", Text),
    _column("started_s", Double),
    _column("ended_s", Double, null=True),
    _column("exit_status", BigInteger, null=True),
    _column("batch_size", BigInteger, null=True),
    _column("labels", DOCUMENT),
    _column("first_seen_s", Double),
    _column("updated_s", Double),
    PrimaryKeyConstraint("cluster", "job", "attempt", name="job_pkey"),
    Index("job_started", "started_s"),
)

#: What each node of it, or each part of a node, said last.
JOB_NODE = Table(
    "job_node",
    metadata,
    _column("cluster", Text),
    _column("job", Text),
    _column("attempt", BigInteger),
    _column("teller", Text),
    _column("node", Text),
    _column("producer", Text),
    _column("sequence", BigInteger),
    _column("lowest_rank", BigInteger, null=True),
    _column("local_ranks", BigInteger),
    _column("world_size", BigInteger),
    _column("framework", Text),
    _column("backend", Text),
    _column("started_s", Double),
    _column("ended_s", Double, null=True),
    _column("exit_status", BigInteger, null=True),
    _column("batch_size", BigInteger, null=True),
    _column("labels", DOCUMENT),
    _column("updated_s", Double),
    _column("event", DOCUMENT),
    PrimaryKeyConstraint("cluster", "job", "attempt", "teller", name="job_node_pkey"),
    ForeignKeyConstraint(
        ["cluster", "job", "attempt"],
        ["job.cluster", "job.job", "job.attempt"],
        name="job_node_job",
        ondelete="CASCADE",
    ),
    Index("job_node_node", "node"),
)

FINDING = Table(
    "finding",
    metadata,
    _column("id", Text),
    _column("revision", BigInteger),
    _column("cluster", Text),
    _column("job", Text),
    _column("attempt", BigInteger),
    _column("kind", Text),
    _column("state", Text),
    _column("cause", Text),
    _column("severity", Text),
    _column("confidence", Double),
    _column("ranks", DOCUMENT),
    _column("nodes", DOCUMENT),
    _column("devices", DOCUMENT),
    _column("stage", BigInteger, null=True),
    _column("rank_group", Text, null=True),
    _column("first_step", BigInteger),
    _column("last_step", BigInteger),
    _column("lost_s", Double),
    _column("gpu_hours", Double),
    _column("throughput_lost_ratio", Double),
    _column("summary", Text),
    _column("first_seen_s", Double),
    _column("updated_s", Double),
    _column("event", DOCUMENT),
    PrimaryKeyConstraint("id", name="finding_pkey"),
    Index("finding_job", "cluster", "job", "attempt"),
    Index("finding_updated", "updated_s"),
    Index("finding_cause", "cause", "updated_s"),
)

FINDING_NODE = Table(
    "finding_node",
    metadata,
    _column("finding", Text),
    _column("node", Text),
    PrimaryKeyConstraint("finding", "node", name="finding_node_pkey"),
    ForeignKeyConstraint(["finding"], ["finding.id"], name="finding_node_finding", ondelete="CASCADE"),
    Index("finding_node_node", "node"),
)

SUGGESTION = Table(
    "suggestion",
    metadata,
    _column("id", Text),
    _column("revision", BigInteger),
    _column("cluster", Text),
    _column("action", Text),
    _column("target", Text),
    _column("state", Text),
    _column("severity", Text),
    _column("risk", Text),
    _column("job", Text),
    _column("attempt", BigInteger),
    _column("ranks", DOCUMENT),
    _column("nodes", DOCUMENT),
    _column("devices", DOCUMENT),
    _column("findings", DOCUMENT),
    _column("title", Text),
    _column("reason", Text),
    _column("gpu_hours_per_day", Double, null=True),
    _column("money_per_day", Double, null=True),
    _column("currency", Text),
    _column("decided_by", Text),
    _column("because", Text),
    _column("created_s", Double),
    _column("updated_s", Double),
    _column("expires_s", Double),
    _column("event", DOCUMENT),
    PrimaryKeyConstraint("id", name="suggestion_pkey"),
    Index("suggestion_job", "cluster", "job", "attempt"),
    Index("suggestion_updated", "updated_s"),
)

#: How far each partition has been read: written with the rows that came of it.
POSITION = Table(
    "position",
    metadata,
    _column("topic", Text),
    _column("partition", Integer),
    _column("next_offset", BigInteger),
    _column("topic_id", Text, null=True),
    PrimaryKeyConstraint("topic", "partition", name="position_pkey"),
)
