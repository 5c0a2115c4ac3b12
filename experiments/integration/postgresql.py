"""PostgreSQL: a real server holds a month of a large cluster's findings, and answers what people ask of it.

Rule of this file: rows are written by the product's own code, and asked for by a person's SQL. What it does when it is
killed, stopped or refused is in ``tests/archive/database``.
"""

import random
import time
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import Engine, text

from archive.database import address, schema
from archive.database.engine import engine
from archive.database.rows import of_finding, of_job
from archive.database.writing import Batch, write
from experiments.integration.check import Check, expect
from experiments.postgresql_server import PostgresServer
from experiments.processes import free_port
from paceline import topics, wire
from paceline.events import Cost, Coverage, Evidence, Finding, JobDescribed

FINDINGS, JOBS, NODES, DAY_S, MONTH_S = 100_000, 2_000, 1_250, 86_400.0, 30 * 86_400.0
BATCH = 500
NOW_S = 1.8e9
CAUSES = ("worker_compute", "throttling", "link", "input_pipeline", "unknown")
#: What is asked, in how many seconds at most it is to be answered, and the SQL.
QUESTIONS = (
    ("a job's findings", 1.0, "SELECT * FROM finding WHERE cluster = 'big' AND job = 'job-7' AND attempt = 0"),
    (
        "a day of a node",
        1.0,
        "SELECT finding.* FROM finding JOIN finding_node ON finding_node.finding = finding.id "
        f"WHERE node = 'node-9' AND updated_s > {NOW_S - DAY_S}",
    ),
    (
        "a month by cause",
        2.0,
        "SELECT cause, count(*), sum(gpu_hours) FROM finding "
        f"WHERE cluster = 'big' AND updated_s > {NOW_S - MONTH_S} GROUP BY cause ORDER BY 3 DESC",
    ),
    (
        "a week's throttling",
        2.0,
        f"SELECT id, summary FROM finding WHERE cause = 'throttling' AND updated_s > {NOW_S - 7 * DAY_S}",
    ),
)


def month_of_findings(folder: Path) -> str:
    """What was written how fast, and how long each question takes; raises where one takes too long."""
    server = PostgresServer(free_port()).start()
    try:
        at = address.address(server.database())
        made = engine(at)
        with made.begin() as connection:
            schema.prepare(connection, at.shown)
        took_s = _written(made)
        return f"{FINDINGS / took_s:,.0f} findings/s; " + "; ".join(_asked(made))
    finally:
        server.close()


def _written(made: Engine) -> float:
    begin_s = time.monotonic()
    with made.connect() as connection:
        with connection.begin():
            write(connection, Batch(jobs=[_job(number) for number in range(JOBS)]))
        for rows in _batches():
            with connection.begin():
                write(connection, Batch(findings=rows))
    return time.monotonic() - begin_s


def _batches() -> Iterator[list[dict[str, object]]]:
    chance = random.Random(21)
    for start in range(0, FINDINGS, BATCH):
        yield [_finding(number, chance) for number in range(start, start + BATCH)]


def _finding(number: int, chance: random.Random) -> dict[str, object]:
    lost_s, node = chance.expovariate(1 / 60.0), f"node-{chance.randrange(NODES)}"
    event = Finding(
        id=f"straggler-{number:016x}", revision=3, kind="straggler", state="recovered", cluster="big",
        job=f"job-{chance.randrange(JOBS)}", attempt=0, cause=chance.choice(CAUSES), ranks=[chance.randrange(512)],
        stage=None, group=None, nodes=[node], devices=[f"GPU-{number % 10_000}"], first_step=number,
        last_step=number + 100, severity="info", confidence=0.9,
        cost=Cost(lost_s=lost_s, gpu_hours=lost_s * 64 / 3600, throughput_lost_ratio=0.1),
        coverage=Coverage(ranks_expected=64, ranks_heard=64, events_missing=0),
        evidence=[Evidence(name="lateness", value=0.1, unit="s/step", peers=0.0, rule="median peer")] * 3,
        exonerated=["link"], summary=f"Rank 7 on {node} was slow for {lost_s:.0f} s.",
    )  # fmt: skip
    at_s = NOW_S - MONTH_S * (1 - number / FINDINGS)
    return of_finding(event, wire.untyped(topics.FINDING, wire.encode(event)), at_s)


def _job(number: int) -> dict[str, object]:
    event = JobDescribed(
        cluster="big", producer=f"p{number}", sequence=0, job=f"job-{number}", attempt=0, node=f"node-{number % NODES}",
        world_size=64, backend="nccl", framework="torch", started_s=NOW_S - MONTH_S, places=[],
    )  # fmt: skip
    return of_job(event, wire.untyped(topics.JOB, wire.encode(event)), NOW_S - MONTH_S)


def _asked(made: Engine) -> Iterator[str]:
    with made.connect() as connection:
        for words, most_s, statement in QUESTIONS:
            begin_s = time.monotonic()
            found = len(connection.execute(text(statement)).all())
            took_s = time.monotonic() - begin_s
            slow = f"{words}: {found} rows in {took_s:.3f} s, where {most_s:g} s were to do"
            expect(bool(found) and took_s <= most_s, slow)
            yield f"{words}: {found} rows in {took_s * 1000:.0f} ms"


CHECKS = (Check("postgresql-month", month_of_findings),)
