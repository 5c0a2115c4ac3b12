"""The bus written down: all of it, each row once, through deaths, outages and whatever comes.

A test has jobs and findings of its own names: the shared broker holds what others sent.
"""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from archive.database import schema
from archive.database.address import in_folder
from archive.database.meters import METERS, DatabaseMeters
from experiments.postgresql_server import PostgresServer
from paceline import topics, wire
from paceline.exposition import text
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.topic_admin import ensure_topics
from tests.archive.database.asked import Database
from tests.archive.database.on_the_bus import make_again, mirrored, process, send, send_raw
from tests.derived_events import described, finding, suggestion

Until = Callable[[Callable[[], object]], None]
pytestmark = pytest.mark.bus


@pytest.fixture
def file(tmp_path: Path) -> str:
    """The address of a file of SQLite that is not there yet."""
    return in_folder(tmp_path)


@pytest.fixture
def own_postgres(new_postgres: Callable[..., PostgresServer]) -> Iterator[PostgresServer]:
    """A PostgreSQL that may be stopped."""
    server = new_postgres()
    yield server
    server.close()


def test_what_is_published_is_written_and_gone_on_from(
    broker: BrokerSettings, file: str, opened: Callable[[str], Database], until: Until,
    promtool: Callable[[str], None],
) -> None:  # fmt: skip
    """Jobs, findings and suggestions; another start with the same database reads none of it again."""
    own = {"cluster": "published", "job": "published"}
    first, second = finding(id="published", **own), finding(id="published", revision=2, **own)
    send(broker, described(**own), described(node="node-2", **own), first, second, suggestion(id="published", **own))
    database = opened(file).prepare()
    amounts = """
        SELECT job.nodes, finding.revision, suggestion.title FROM job JOIN finding USING (cluster, job, attempt)
        JOIN suggestion USING (cluster, job, attempt) WHERE cluster = 'published'
    """
    with mirrored(broker, file) as mirror:
        until(lambda: database.ask(amounts) == [(2, 2, "Cordon node-1")])
        until(lambda: mirror.waits() is None and mirror.lag.get("finding") == 0)
        told = text(DatabaseMeters(mirror).families())
        promtool(told)
        assert f'paceline_archive_database_rows_total{{table="finding"}} {mirror.rows["finding"]}.0' in told
        assert 'paceline_archive_database_lag_messages{topic="finding"} 0.0' in told
        assert all(f"# HELP {meter.sample} " in told for meter in METERS)
    with mirrored(broker, file) as again:
        send(broker, finding(id="published", revision=3, **own))
        until(lambda: again.rows["finding"] == 1)
        assert again.rows == {"job": 0, "finding": 1, "suggestion": 0}


def test_what_is_no_event_is_passed_over_and_counted(
    own_embedded: BrokerSettings, file: str, opened: Callable[[str], Database], until: Until,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    """What comes after it is not held up; a tombstone lets the topic forget, not the history."""
    send(own_embedded, suggestion())
    with mirrored(own_embedded, file) as mirror:
        until(lambda: mirror.rows["suggestion"] == 1)
        deep = wire.encode(suggestion(id="deep"))[:-1] + b',"x":' + b"[" * 800 + b'"\\u0000"' + b"]" * 800 + b"}"
        for value in (b"{torn", b"[]", b'{"revision": 1}', b"\xff", deep, None):
            send_raw(own_embedded, topics.SUGGESTION, value)
        send(own_embedded, *(suggestion(id=f"after-{number}") for number in range(20)))
        until(lambda: mirror.rows["suggestion"] == 21 and mirror.unusable["suggestion", "undecodable"] == 5)
    assert sum("passed over a message on paceline.suggestion.v1" in one.message for one in caplog.records) == 1


def test_a_row_that_the_database_refuses_costs_that_row_alone(
    own_embedded: BrokerSettings, file: str, opened: Callable[[str], Database], until: Until
) -> None:
    """For whatever reason: it would be refused the next time, and the next."""
    database = opened(file).prepare()
    database.ask("CREATE UNIQUE INDEX of_an_operator ON finding (summary) WHERE summary = 'twice'")
    told = [finding(id=f"f{number}", summary="twice" if number in (3, 7) else str(number)) for number in range(10)]
    send(own_embedded, *told, described())
    with mirrored(own_embedded, file) as mirror:
        until(lambda: mirror.waits() is None and mirror.unusable["finding", "refused"] == 1)
        until(lambda: mirror.rows == {"job": 1, "finding": 9, "suggestion": 0})
    assert len(database.ask("SELECT id FROM finding")) == 9


@pytest.mark.exactly_once
def test_killed_at_any_moment_it_goes_on_where_it_was(
    own_embedded: BrokerSettings, file: str, opened: Callable[[str], Database], until: Until
) -> None:
    """Again and again in the middle of 3,000 messages: all is there, once, at its newest revision."""
    told = [
        finding(id=f"f{number % 1000}", revision=1 + number // 1000, job=f"j{number % 7}") for number in range(3000)
    ]
    send(own_embedded, *told, *(described(job=f"j{number}") for number in range(7)))
    database, held = opened(file).prepare(), 0
    read = "SELECT coalesce(sum(next_offset), 0) FROM position WHERE topic = 'paceline.finding.v1'"
    for _ in range(2):
        with process(own_embedded, file):
            before = held
            until(lambda: database.ask(read)[0][0] > before)  # noqa: B023 - asked at once
        held = database.ask(read)[0][0]
    with mirrored(own_embedded, file) as mirror:
        until(lambda: mirror.waits() is None and database.ask(read)[0][0] == 3000)
        assert mirror.rows["finding"] <= 3000 - held
    assert database.ask("SELECT count(*), min(revision), max(revision) FROM finding") == [(1000, 3, 3)]
    assert database.ask("SELECT count(*) FROM finding_node") == [(1000,)]
    assert database.ask("SELECT count(*) FROM job") == [(7,)]


def test_a_topic_that_was_made_again_is_read_from_its_start(
    own_broker: BrokerSettings, file: str, opened: Callable[[str], Database], until: Until
) -> None:
    """While it follows, and while it was away; the history keeps what was."""
    database = opened(file)
    send(own_broker, *(finding(id=f"before-{number}") for number in range(30)))
    with mirrored(own_broker, file) as mirror:
        until(lambda: mirror.rows["finding"] == 30)
        make_again(own_broker, topics.FINDING)
        send(own_broker, finding(id="between"))
        until(lambda: mirror.rows["finding"] == 31)
    make_again(own_broker, topics.FINDING)
    send(own_broker, finding(id="after"), finding(id="before-0", revision=9))
    with mirrored(own_broker, file) as mirror:
        until(lambda: mirror.rows["finding"] == 2)
    assert database.ask("SELECT count(*) FROM finding") == [(32,)]


def test_a_later_database_is_waited_for_with_its_reason(
    embedded_broker, file: str, opened: Callable[[str], Database], until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    """Told once in the log, and in readiness for as long as it lasts."""
    settings = BrokerSettings().with_brokers(embedded_broker.address)
    database = opened(file).prepare()
    database.ask(f"UPDATE {schema.VERSION_TABLE} SET version_num = '9999'")
    with caplog.at_level(logging.WARNING), mirrored(settings, file) as mirror:
        until(lambda: "revision 9999" in (mirror.waits() or ""))
        assert "start the later version" in str(mirror.waits())
        database.ask(f"UPDATE {schema.VERSION_TABLE} SET version_num = '{schema.revisions()[-1]}'")
        until(lambda: "database" not in (mirror.waits() or ""))
    assert sum("revision 9999" in one.message for one in caplog.records) == 1


def test_a_file_that_cannot_be_is_waited_for(embedded_broker, tmp_path: Path, until: Until) -> None:
    """No folder; no database; a folder in its place."""
    settings = BrokerSettings().with_brokers(embedded_broker.address)
    (tmp_path / "text").write_text("this is no database at all, and long enough to be seen as none " * 20)
    for name, cause in {"missing/file": "No such file", "text": "not a database", ".": "Is a directory"}.items():
        with mirrored(settings, f"sqlite:///{tmp_path}/{name}") as mirror:
            until(lambda: cause in (mirror.waits() or ""))  # noqa: B023 - asked at once
            assert str(mirror.waits()).startswith(f"waiting for the database at sqlite:///{tmp_path}")


def test_without_brokers_readiness_says_so(file: str, free_port: Callable[[], int], until: Until) -> None:
    with mirrored(BrokerSettings().with_brokers(f"127.0.0.1:{free_port()}"), file) as mirror:
        until(lambda: "no answer from Kafka: Kafka at 127.0.0.1" in (mirror.waits() or ""))


@pytest.mark.exactly_once
@pytest.mark.e2e
def test_killed_in_the_middle_of_a_batch_nothing_of_it_is_there(
    own_embedded: BrokerSettings, postgres: PostgresServer, opened: Callable[[str], Database], until: Until
) -> None:
    """A lock of another's holds it between two tables of one batch; then the next one writes it, once."""
    url = postgres.database()
    database = opened(url).prepare()
    name = url.rpartition("/")[2]
    send(own_embedded, described(), finding(), suggestion())
    ours = "FROM pg_stat_activity WHERE datname = %s AND application_name = 'paceline-archive'"
    waiting = f"SELECT count(*) {ours} AND wait_event_type = 'Lock'"
    with psycopg.connect(url) as other:
        other.execute("LOCK TABLE suggestion")
        with process(own_embedded, url):
            until(lambda: postgres.ask(waiting, "postgres", name)[0][0])
    until(lambda: not postgres.ask(f"SELECT count(*) {ours}", "postgres", name)[0][0])
    assert database.ask("SELECT count(*) FROM position WHERE next_offset > 0") == [(0,)]
    assert database.ask("SELECT count(*) FROM finding") == [(0,)]
    with mirrored(own_embedded, url) as mirror:
        until(lambda: mirror.rows == {"job": 1, "finding": 1, "suggestion": 1})
    assert database.ask("SELECT count(*) FROM finding") == [(1,)]


@pytest.mark.e2e
def test_a_postgresql_that_goes_away_is_waited_for_and_caught_up_with(
    own_embedded: BrokerSettings, own_postgres: PostgresServer, opened: Callable[[str], Database], until: Until
) -> None:
    """Ended as by a power cut while rows come; readiness says where, why and nothing of the login."""
    url = own_postgres.database()
    send(own_embedded, *(finding(id=f"f{number}") for number in range(50)))
    with mirrored(own_embedded, url) as mirror:
        until(lambda: mirror.rows["finding"] == 50 and mirror.waits() is None)
        own_postgres.kill()
        until(lambda: "refused" in (mirror.waits() or ""))
        send(own_embedded, *(finding(id=f"f{number}", revision=2) for number in range(100)))
        shown = f"waiting for the database at postgresql://127.0.0.1:{own_postgres.port}/history1 ("
        assert str(mirror.waits()).startswith(shown)
        assert "p/w@" not in str(mirror.waits())
        assert "p%2Fw" not in str(mirror.waits())
        own_postgres.start()
        database = opened(url)
        until(lambda: mirror.waits() is None and mirror.rows["finding"] == 150)
        assert mirror.thread.restarts == 0
    assert database.ask("SELECT count(*), min(revision), max(revision) FROM finding") == [(100, 2, 2)]


@pytest.mark.e2e
def test_a_postgresql_that_hangs_is_seen(
    embedded_broker, postgres: PostgresServer, opened: Callable[[str], Database], until: Until,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Whoever holds its tables holds the commit: readiness does not say that all is well meanwhile."""
    monkeypatch.setattr("archive.database.mirror.SLOW_S", 0.5)
    settings, url = BrokerSettings().with_brokers(embedded_broker.address), postgres.database()
    ensure_topics(settings)
    opened(url).prepare()
    with psycopg.connect(url) as other, mirrored(settings, url) as mirror:
        until(lambda: mirror.waits() is None)
        other.execute("LOCK TABLE finding")
        send(settings, finding(id="of-the-hanging"))
        until(lambda: "no answer for" in (mirror.waits() or ""))
        other.rollback()
        until(lambda: "no answer for" not in (mirror.waits() or ""))


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("change", "cause", "mend"),
    [
        ("ALTER ROLE {name} PASSWORD 'other'", "password authentication failed", "check user and password"),
        ("ALTER ROLE {name} SET default_transaction_read_only = on", "read-only transaction", "can be written"),
        ("ALTER DATABASE {name} RENAME TO {name}_gone", "does not exist", "create the database"),
        ("REVOKE CREATE ON SCHEMA public FROM pg_database_owner", "permission denied", "give its role the rights"),
    ],
)
def test_a_postgresql_that_refuses_is_told_with_its_mend(
    embedded_broker, new_postgres, postgres: PostgresServer, until: Until, change: str, cause: str, mend: str
) -> None:
    url = postgres.database()
    name = url.rpartition("/")[2]
    postgres.ask(change.format(name=name), name if "SCHEMA" in change else "postgres")
    with mirrored(BrokerSettings().with_brokers(embedded_broker.address), url) as mirror:
        until(lambda: cause in (mirror.waits() or ""))
        assert mend in str(mirror.waits())


@pytest.mark.exactly_once
@pytest.mark.e2e
def test_two_that_write_at_once_write_each_row_once(
    own_embedded: BrokerSettings, postgres: PostgresServer, opened: Callable[[str], Database], until: Until
) -> None:
    """As in the moment when one takes over from another."""
    url = postgres.database()
    told = [finding(id=f"f{number % 300}", revision=1 + number // 300) for number in range(1500)]
    send(own_embedded, *told, *(described(node=f"node-{number}") for number in range(40)))
    with mirrored(own_embedded, url) as one, mirrored(own_embedded, url) as other:
        until(lambda: one.waits() is None and other.waits() is None)
        until(lambda: opened(url).ask("SELECT count(*), min(revision) FROM finding") == [(300, 5)])
    database = opened(url)
    assert one.thread.restarts + other.thread.restarts == 0
    assert database.ask("SELECT nodes FROM job") == [(40,)]
