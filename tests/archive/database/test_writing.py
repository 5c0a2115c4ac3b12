"""What is written: each finding and suggestion by its newest revision, each job as its nodes amount to."""

import contextlib
import random

import pytest
from sqlalchemy.exc import OperationalError

from archive.database import rows, writing
from archive.database.errors import DatabaseError, explained, of_a_row
from archive.database.positions import Positions
from archive.database.writing import read_positions, write, write_positions
from paceline import topics, wire
from paceline.events import Cost, JobDescribed, RankPlace
from paceline.events.base import LATEST_S
from paceline.job_life import JobLife
from tests.archive.database.asked import Database, batch
from tests.derived_events import HOSTILE, described, finding, suggestion

#: No name on the bus has more characters: those of jobs and nodes, those of kinds.
LONGEST, LONGEST_KIND = 1024, 256

LOW, HIGH = -(2**63), 2**63 - 1


def told(revision: int, **changes: object):
    return finding(revision=revision, summary=f"revision {revision}", **changes)


def node(name: str, lowest: int, **changes: object) -> JobDescribed:
    """What a node with one rank says."""
    place = RankPlace(rank=lowest, local_rank=0, node=name, device="gpu", pid=1)
    return described(node=name, producer=f"of {name}", places=[place], **changes)


def job(database: Database, *columns: str) -> tuple[object, ...]:
    (row,) = database.ask(f"SELECT {', '.join(columns)} FROM job")
    return row


def test_revisions_in_any_order_end_with_the_newest(database: Database) -> None:
    """Also those of one batch, and repeated; when it was first seen stays."""
    database.write(told(2), told(1), told(3), told(2), at_s=100.0)
    database.write(told(1), at_s=200.0)
    assert database.ask("SELECT revision, summary, first_seen_s, updated_s FROM finding") == [
        (3, "revision 3", 100.0, 100.0)
    ]
    assert database.write(told(4), at_s=300.0)["finding"] == 1
    assert database.ask("SELECT revision, first_seen_s, updated_s FROM finding") == [(4, 100.0, 300.0)]


def test_what_is_not_newer_changes_nothing(database: Database) -> None:
    """The same revision in other words is a repetition, whatever it says; so it is counted."""
    database.write(told(2), suggestion(revision=2))
    before = database.ask("SELECT * FROM finding"), database.ask("SELECT * FROM suggestion")
    changed = database.write(told(2, cause="link"), told(1), suggestion(revision=2, title="other"), at_s=9000.0)
    assert changed.total() == 0
    assert (database.ask("SELECT * FROM finding"), database.ask("SELECT * FROM suggestion")) == before


@pytest.mark.long
def test_every_order_of_revisions_comes_to_the_same(database: Database) -> None:
    """Any order, any batches, any repetition: as many findings, each at its newest."""
    chance = random.Random(5)
    messages = [told(revision, id=f"f{number}") for number in range(20) for revision in range(1, 6)] * 2
    chance.shuffle(messages)
    while messages:
        taken = chance.randint(1, 30)
        database.write(*messages[:taken])
        del messages[:taken]
    assert database.ask("SELECT count(*), min(revision), max(revision) FROM finding") == [(20, 5, 5)]


def test_a_finding_is_found_by_the_nodes_of_its_newest_revision(database: Database) -> None:
    by_node = "SELECT finding FROM finding_node WHERE node = :node ORDER BY finding"
    database.write(told(1, nodes=["a", "b", "a"]), told(1, id="f2", nodes=["b"]))
    assert database.ask(by_node, node="b") == [("f1",), ("f2",)]
    database.write(told(3, nodes=["c"]))
    database.write(told(2, nodes=["a"]))
    assert database.ask(by_node, node="a") == []
    assert database.ask(by_node, node="c") == [("f1",)]
    database.ask("DELETE FROM finding WHERE id = 'f1'")
    assert database.ask("SELECT * FROM finding_node") == [("f2", "b")]


def test_a_job_is_what_its_nodes_say(database: Database) -> None:
    """It began with the first, is not over before the last, and its words are those of the lowest rank."""
    first = node("a", 0, started_s=20.0, framework="torch", labels={"user": "ada"}, batch_size=32)
    second = node("b", 8, started_s=10.0, framework="jax", world_size=16)
    database.write(first, second)
    assert job(database, "ranks", "nodes", "started_s", "ended_s", "framework", "batch_size") == (
        16, 2, 10.0, None, "torch", 32,
    )  # fmt: skip
    database.write(node("b", 8, started_s=10.0, sequence=1, ended_s=90.0, exit_status=0))
    assert job(database, "ended_s", "exit_status") == (None, 0)
    database.write(node("a", 0, started_s=20.0, sequence=1, ended_s=80.0, exit_status=-9), at_s=6000.0)
    assert job(database, "ended_s", "exit_status", "first_seen_s", "updated_s") == (90.0, -9, 5000.0, 6000.0)


def test_attempts_and_clusters_are_jobs_of_their_own(database: Database) -> None:
    database.write(described(), described(attempt=1), described(cluster="other"), described(job="other"))
    assert database.ask("SELECT count(*) FROM job") == [(4,)]


def test_a_pod_and_the_one_before_are_not_two(database: Database) -> None:
    """Who was killed says nothing any more: whoever has started its ranks since speaks for them."""
    database.write(
        node("a", 0, started_s=10.0, labels={"kubernetes_pod": "w-1"}),
        node("a", 0, started_s=50.0, labels={"kubernetes_pod": "w-2"}, ended_s=90.0, exit_status=0),
    )
    assert job(database, "nodes", "started_s", "ended_s") == (1, 50.0, 90.0)
    assert database.ask("SELECT count(*) FROM job_node") == [(2,)]


@pytest.mark.slow
def test_jobs_end_as_job_life_says(database: Database) -> None:
    """One idea, told in SQL here and in ``paceline.job_life`` for those who follow: they agree on random jobs."""
    chance = random.Random(11)
    lives = {f"j{number:02}": JobLife(0) for number in range(60)}
    messages = []
    for name, life in lives.items():
        for step in range(chance.randint(1, 8)):
            lowest = chance.randrange(3)
            said = node(
                f"n{lowest}", lowest, job=name, sequence=step, started_s=float(chance.randrange(1, 4)),
                ended_s=chance.choice([None, 100.0 + step]), labels={"kubernetes_pod": f"p{chance.randrange(2)}"},
            )  # fmt: skip
            life.update(said)
            messages.append(said)
    for start in range(0, len(messages), 7):
        database.write(*messages[start : start + 7])
    assert dict(database.ask("SELECT job, ended_s FROM job")) == {name: life.ended_s for name, life in lives.items()}
    assert len({life.ended_s for life in lives.values()}) > 3


@pytest.mark.parametrize(
    ("late", "taken"),
    [
        ({"producer": "one", "sequence": 4}, False),
        ({"producer": "one", "sequence": 5}, False),
        ({"producer": "one", "sequence": 6}, True),
        ({"producer": "two", "started_s": 9.0}, False),
        ({"producer": "two", "started_s": 10.0}, False),
        ({"producer": "two", "started_s": 10.0, "ended_s": 70.0}, True),
        ({"producer": "two", "started_s": 11.0}, True),
    ],
)
def test_late_words_of_a_node_change_nothing(database: Database, late: dict[str, object], taken: bool) -> None:
    """A repetition; or the last words of a sidecar that died, which come after those of the next."""
    held = {"producer": "one", "sequence": 5, "started_s": 10.0, "ended_s": 60.0}
    database.write(described(**held))
    assert database.write(described(**{**held, "ended_s": None, "sequence": 0, **late}))["job"] == taken


def test_numbers_at_the_bounds_of_events_come_back(database: Database) -> None:
    cost = Cost(lost_s=-LATEST_S, gpu_hours=1e30, throughput_lost_ratio=-1e30)
    bounds = {"attempt": LOW, "stage": HIGH, "first_step": LOW, "last_step": HIGH, "ranks": [LOW, HIGH]}
    database.write(finding(revision=HIGH, cost=cost, **bounds), finding(id="low", revision=LOW))
    assert database.ask(
        "SELECT revision, attempt, stage, first_step, last_step, lost_s, gpu_hours FROM finding WHERE id = 'f1'"
    ) == [(HIGH, LOW, HIGH, LOW, HIGH, -LATEST_S, 1e30)]
    database.write(described(world_size=HIGH, exit_status=LOW, ended_s=LATEST_S, batch_size=HIGH, sequence=2**53))
    assert job(database, "ranks", "exit_status", "ended_s", "batch_size") == (HIGH, LOW, LATEST_S, HIGH)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [HOSTILE, "a\0b", "'; DROP TABLE finding; --", "%s :x {}", "x" * 1_000_000, "\\", "日" * 2000],
    ids=["signs", "nul", "statement", "placeholders", "megabyte", "backslash", "wide"],
)
def test_hostile_text_is_kept_and_found(database: Database, text: str) -> None:
    """As a name, in lists, and as a megabyte of words."""
    name, kind = text[:LONGEST], text[:LONGEST_KIND]
    where = {"cluster": name, "job": name, "nodes": [name], "devices": [name]}
    database.write(
        finding(id=name, kind=kind, cause=kind, state=kind, summary=text, group=name, **where),
        suggestion(target=name, title=text, reason=text, because=text, manifest=text, steps=[text], **where),
        described(cluster=name, job=name, node=name, labels={kind: name}, backend=kind),
    )
    counted = "SELECT count(*) FROM finding JOIN finding_node ON finding = id JOIN job USING (cluster, job, attempt)"
    assert database.ask(counted) == [(1,)]
    assert database.write(finding(id=name)).total() == 0


def test_json_of_any_depth_that_is_read_is_written(database: Database) -> None:
    """A field of a later version may be nested; what is too deep is refused as it is read, and never later."""
    taken = 0
    for depth in (10, 300, 600, 800, 900, 940, 960, 980):
        value = wire.encode(finding(id=f"f{depth}"))[:-1] + b',"x":' + b"[" * depth + b"]" * depth + b"}"
        with contextlib.suppress(wire.WireError, RecursionError), database.begin() as connection:
            row = rows.row(topics.FINDING, value, 0.0)
            taken += 1
            write(connection, writing.Batch(findings=[row]))
    assert taken > 2
    assert database.ask("SELECT count(*) FROM finding") == [(taken,)]


def test_rows_and_positions_are_one(database: Database) -> None:
    """What ends in the middle has written neither; written again, it is there once."""
    messages, now = [described(), told(1), suggestion()], Positions({("t", 0): 3}, {"t": "id"})
    with database.begin() as connection:
        write(connection, batch(messages))
        write_positions(connection, Positions({}, {}), now)
        connection.get_transaction().rollback()
    for table in ("job", "job_node", "finding", "finding_node", "suggestion", "position"):
        assert database.ask(f"SELECT count(*) FROM {table}") == [(0,)]
    for _ in range(2):
        with database.begin() as connection:
            write(connection, batch(messages))
            write_positions(connection, read_positions(connection), now)
    with database.begin() as connection:
        assert read_positions(connection) == now
    assert database.ask("SELECT count(*) FROM finding") == [(1,)]


def test_positions_of_a_topic_that_was_made_again_are_of_the_new_one(database: Database) -> None:
    """Partitions that it has no more are forgotten."""
    before = Positions({("t", 0): 30, ("t", 5): 8, ("u", 0): 2}, {"t": "one", "u": "other"})
    now = Positions({("t", 0): 1, ("u", 0): 2}, {"t": "two", "u": "other"})
    for held, told_now in ((Positions({}, {}), before), (before, now)):
        with database.begin() as connection:
            write_positions(connection, held, told_now)
    with database.begin() as connection:
        assert read_positions(connection) == now


def test_an_empty_batch_writes_nothing(database: Database) -> None:
    assert database.write().total() == 0


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_full_disk_is_told_and_leaves_no_half(database: Database) -> None:
    """SQLite's own limit of pages stands for the disk's: what was whole stays, and the mend is to make room."""
    database.write(told(1))
    many = [told(1, id=f"f{number}", exonerated=["x" * 10_000]) for number in range(200)]
    with database.begin() as connection:
        used = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        connection.exec_driver_sql(f"PRAGMA max_page_count = {used + 20}")
        with pytest.raises(DatabaseError, match=r"database or disk is full; make room"), explained(database.at):
            write(connection, batch(many))
    assert database.ask("SELECT id FROM finding") == [("f1",)]


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_file_that_may_only_be_read_is_told(database: Database) -> None:
    """By a mark in its head that says so, for whoever opens it: root may write to any other."""
    database.write(told(1))
    with database.at.file.open("r+b") as file:
        file.seek(18)
        file.write(b"\x03")
    with pytest.raises(DatabaseError, match=r"readonly database; name one that can be written"), explained(database.at):
        database.write(told(2))


def test_a_full_disk_is_nothing_of_a_row(database: Database) -> None:
    """Else every row would be passed over, one by one."""
    assert not of_a_row(OperationalError("", {}, Exception("database or disk is full")))
