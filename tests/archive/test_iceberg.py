"""Iceberg's tables have the archive's files, no other rows, and follow it whatever happens in between."""

import contextlib
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchTableError

from archive import iceberg as icebergs
from archive.archiver import Archiver
from archive.buffers import Place
from archive.iceberg import IcebergFollower, IcebergTables
from archive.merger import Merger
from archive.merging import Days
from archive.writer import GRACE_S, Writer
from paceline import topics, wire
from paceline.history.store import Store, StoreError, open_store
from paceline.history.tables import FINDING
from paceline.kafka import clients, embedded
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.topic_admin import ensure_topics
from tests.archive.conftest import commit
from tests.archive.test_killed import archive, told
from tests.derived_events import finding, job_window
from tests.paceline.history.conftest import LOGIN, s3_address  # noqa: F401
from tests.patience import PATIENCE_S

Until = Callable[..., Any]


def read(where: Path, table: str = "finding") -> pa.Table:
    """The table as any reader of Iceberg sees it, by the catalog in the archive's folder."""
    catalog = load_catalog("paceline", uri=f"sqlite:///{where}/iceberg/catalog.db", warehouse=f"file://{where}/iceberg")
    return catalog.load_table(("paceline", table)).scan().to_arrow()


def ids(where: Path) -> list[str]:
    """The ids of the findings in it."""
    return sorted(read(where).column("id").to_pylist())


@pytest.fixture
def where(store: Store) -> Path:
    """The archive's folder."""
    return Path(store.where)


@pytest.mark.long
def test_each_commit_is_read_back_as_it_was_written(store: Store, where: Path):
    writer, tables = Writer(store), IcebergTables.open(store, "", {})
    commit(writer, [finding(cluster="lab/2 %"), job_window(), job_window(start_s=2000.0)])
    assert tables.follow(writer.manifest) == 2
    [row] = read(where).to_pylist()
    assert (row["cluster"], row["id"], row["ranks"], row["cost_lost_s"]) == ("lab/2 %", "f1", [3], 12.5)
    commit(writer, [finding(id="f2")], read=2)
    assert tables.follow(writer.manifest) == 1
    assert ids(where) == ["f1", "f2"]
    assert read(where, "job_window").num_rows == 2
    assert tables.follow(writer.manifest) == 0


@pytest.mark.slow
def test_merged_and_expired_files_are_swapped_in_one_snapshot(store: Store, where: Path):
    writer, tables = Writer(store), IcebergTables.open(store, "", {})
    for number in range(10):
        commit(writer, [finding(id=f"f{number}")], read=number + 1)
        tables.follow(writer.manifest)
    assert Merger(store, writer, Days()).turn()
    assert len(writer.manifest.files) == 1
    snapshots = len(_snapshots(where))
    tables.follow(writer.manifest)
    assert len(_snapshots(where)) == snapshots + 1
    assert ids(where) == [f"f{number}" for number in range(10)]
    assert _files(where) == {file.path for file in writer.manifest.files}
    writer.replace(writer.manifest.files, [])
    tables.follow(writer.manifest)
    assert ids(where) == []


def _table(where: Path) -> Any:
    return load_catalog("paceline", uri=f"sqlite:///{where}/iceberg/catalog.db").load_table(("paceline", "finding"))


def _snapshots(where: Path) -> list[Any]:
    return list(_table(where).snapshots())


def _files(where: Path) -> set[str]:
    table = _table(where)
    return {task.file.file_path.split("/archive/")[1] for task in table.scan().plan_files()}


@pytest.mark.long
def test_killed_between_both_commits_it_is_brought_up_to_date_at_the_next_start(store: Store, where: Path):
    writer, tables = Writer(store), IcebergTables.open(store, "", {})
    commit(writer, [finding()])
    tables.follow(writer.manifest)
    commit(writer, [finding(id="f2")], read=2)  # Killed here, and once more after a merge.
    Merger(store, writer, Days()).turn()
    assert ids(where) == ["f1"]
    again = Writer(store)
    again.tidy()
    assert IcebergTables.open(store, "", {}).follow(again.manifest) == 1
    assert ids(where) == ["f1", "f2"]
    assert IcebergTables.open(store, "", {}).follow(again.manifest) == 0


@pytest.mark.long
def test_who_follows_rarely_sees_the_archive_as_it_is_then(store: Store, where: Path):
    """Files that came and went in between were never Iceberg's."""
    writer, tables = Writer(store), IcebergTables.open(store, "", {})
    for number in range(10):
        commit(writer, [finding(id=f"f{number}")], read=number + 1)
    Merger(store, writer, Days()).turn()
    tables.follow(writer.manifest)
    assert ids(where) == [f"f{number}" for number in range(10)]
    assert len(_snapshots(where)) == 1


@pytest.mark.long
def test_columns_are_added_by_this_version_and_by_a_later_one(
    store: Store, where: Path, monkeypatch: pytest.MonkeyPatch
):
    writer = Writer(store)
    commit(writer, [finding()])
    known = icebergs.schema(FINDING)
    with monkeypatch.context() as older:
        older.setattr(icebergs, "schema", lambda table: pa.schema([field for field in known if field.name != "cause"]))
        tables = IcebergTables.open(store, "", {})
        tables._table(FINDING)
    IcebergTables.open(store, "", {}).follow(writer.manifest)
    assert read(where).column("cause").to_pylist() == ["worker_compute"]
    rows = pa.Table.from_pylist([{"cluster": "c", "id": "f2", "revision": 1, "time_s": 5.0, "job": "j", "later": 7.5}])
    put = writer.put(Place("finding", "2026-11-25", "c"), FINDING, rows)
    writer.replace([], [put])
    IcebergTables.open(store, "", {}).follow(writer.manifest)
    assert sorted(map(str, read(where).column("later").to_pylist())) == ["7.5", "None"]
    assert ids(where) == ["f1", "f2"]


@pytest.mark.long
def test_a_catalog_that_is_away_holds_nobody_up_and_is_caught_up_with(
    store: Store, where: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    folder = tmp_path / "catalogs"
    follower = IcebergFollower(store, f"sqlite:///{folder}/catalog.db", {})
    writer = Writer(store)
    commit(writer, [finding()])
    follower.follow(writer.manifest)
    commit(writer, [finding(id="f2")], read=2)
    follower.follow(writer.manifest)
    assert follower.version == 0
    [record] = [record for record in caplog.records if record.levelname == "WARNING"]
    assert "check --iceberg" in record.getMessage()
    folder.mkdir()
    commit(writer, [finding(id="f3")], read=3)
    follower.follow(writer.manifest)
    assert (follower.version, follower.failure) == (3, "")
    catalog = load_catalog("paceline", uri=f"sqlite:///{folder}/catalog.db")
    assert catalog.load_table(("paceline", "finding")).scan().to_arrow().num_rows == 3


@pytest.mark.long
def test_a_table_that_somebody_else_dropped_is_made_again(store: Store, where: Path):
    follower, writer = IcebergFollower(store, "", {}), Writer(store)
    commit(writer, [finding()])
    follower.follow(writer.manifest)
    load_catalog("paceline", uri=f"sqlite:///{where}/iceberg/catalog.db").drop_table(("paceline", "finding"))
    with pytest.raises(NoSuchTableError):
        read(where)
    for number in (2, 3):
        commit(writer, [finding(id=f"f{number}")], read=number)
        follower.follow(writer.manifest)
    assert ids(where) == ["f1", "f2", "f3"]


@pytest.mark.slow
def test_of_old_snapshots_nothing_is_left(store: Store, where: Path):
    writer, tables = Writer(store), IcebergTables.open(store, "", {})
    for number in range(12):
        commit(writer, [finding(id=f"f{number}")], read=number + 1)
        tables.follow(writer.manifest)
    assert tables.tidy(time.time()) == 0
    assert tables.tidy(time.time() + GRACE_S + 1.0) > 0
    assert len(_snapshots(where)) == 1
    assert ids(where) == sorted(f"f{number}" for number in range(12))
    written = [path for path in (where / "iceberg").rglob("*.avro") if path.is_file()]
    snapshot = _snapshots(where)[0]
    assert len(written) == 1 + len(snapshot.manifests(_table(where).io))
    assert len(list((where / "iceberg").rglob("*.metadata.json"))) <= icebergs._DESCRIPTIONS + 1


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("postgresql+psycopg://me:secret@db/catalog", "PGPASSWORD"),
        ("thrift://hive:9083", "allowed"),
        ("file:///etc", "allowed"),
        ("sqlite", "allowed"),
        ("http://[", "no address"),
    ],
)
def test_addresses_that_are_none_or_hold_a_secret_are_refused(store: Store, uri: str, said: str):
    with pytest.raises(StoreError, match=said) as caught:
        IcebergFollower(store, uri, {})
    assert "secret" not in str(caught.value)


@pytest.mark.slow
def test_an_archive_in_a_bucket_has_a_catalog_elsewhere(
    s3_address: str,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    for name, value in LOGIN.items():
        monkeypatch.setenv(name, value)
    environ = {"AWS_ENDPOINT_URL": s3_address}
    store = open_store(f"s3://archive/{tmp_path.name}", environ)
    with pytest.raises(StoreError, match="CATALOG-URI"):
        IcebergFollower(store, "", environ)
    writer = Writer(store)
    commit(writer, [finding()])
    uri = f"sqlite:///{tmp_path}/catalog.db"
    assert IcebergTables.open(store, uri, environ).follow(writer.manifest) == 1
    other = load_catalog("paceline", uri=uri, **{"s3.endpoint": s3_address})
    assert other.load_table(("paceline", "finding")).scan().to_arrow().column("id").to_pylist() == ["f1"]


@pytest.mark.bus
def test_the_archiver_brings_them_along(broker: BrokerSettings, store: Store, where: Path, until: Until):
    cluster = f"iceberg-{time.time_ns()}"
    stop = threading.Event()
    follower = IcebergFollower(store, "", {})
    running = Archiver(broker, store, [topics.FINDING], Days(), 0.2, stop, iceberg=follower)
    running.thread.start()
    try:
        with contextlib.closing(clients.producer(broker, "test")) as client:
            for number in range(20):
                client.send(topics.FINDING.name, wire.encode(finding(id=f"f{number}", cluster=cluster)), key=b"k")
            client.flush()
            until(lambda: running.totals().get("rows", 0) >= 20 and running.behind == 0)
    finally:
        assert running.thread.stop(PATIENCE_S)
    assert running.behind == 0
    assert read(where).column("cluster").to_pylist().count(cluster) == 20


def _heeds(pid: int, number: signal.Signals) -> bool:
    """Whether the process handles the signal itself by now."""
    caught = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("SigCgt"))
    return bool(int(caught.split()[1], 16) & 1 << (number - 1))


@pytest.mark.exactly_once
@pytest.mark.bus
@pytest.mark.e2e
def test_a_killed_program_and_its_tables_agree_again(tmp_path: Path, until: Until):
    folder = tmp_path / "archive"
    with embedded.start() as broker:
        settings = BrokerSettings().with_brokers(broker.address)
        ensure_topics(settings)
        with contextlib.closing(clients.producer(settings, "test")) as client:
            for kill in range(2):
                for number in range(200):
                    client.send(topics.FINDING.name, wire.encode(finding(id=f"{kill}-{number}")), key=b"k")
                client.flush()
                with archive(broker.address, folder, "--iceberg") as running:
                    # As soon as the archive has them, which is before Iceberg does.
                    until(lambda: told(folder, "SELECT count(*) FROM finding")[0][0] == 200 * (kill + 1))  # noqa: B023
                    running.send_signal(signal.SIGKILL)
            with archive(broker.address, folder, "--iceberg") as running:
                # They may have agreed before the second kill: then this one has only begun to start.
                until(lambda: _rows(folder) == 400 and _heeds(running.pid, signal.SIGTERM))
                running.send_signal(signal.SIGTERM)
                assert running.wait(PATIENCE_S) == 0
    assert len(set(ids(folder))) == 400


def _rows(folder: Path) -> int:
    with contextlib.suppress(Exception):  # There is none yet, or it is being written.
        return int(read(folder).num_rows)
    return 0
