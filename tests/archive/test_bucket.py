"""An archive in a bucket: written, merged, swept and asked as one in a folder is."""

from pathlib import Path

import pytest

from archive.merger import Merger
from archive.merging import Days
from archive.writer import GRACE_S, Writer
from paceline.history.query import History, QueryError
from paceline.history.store import StoreError, open_store
from paceline.history.tables import JOB_WINDOW
from paceline.history.views import Scope
from tests.archive.conftest import EVER, commit
from tests.derived_events import finding, job_window
from tests.s3_server import LOGIN
from tests.s3_server import s3_address as s3_address


@pytest.mark.slow
def test_it_is_written_merged_and_asked(s3_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name, value in LOGIN.items():
        monkeypatch.setenv(name, value)
    url, environ, now_s = f"s3://archive/{tmp_path.name}", {"AWS_ENDPOINT_URL": s3_address}, [1.7e9]
    with pytest.raises(StoreError, match=f"no archive at s3://archive/{tmp_path.name}; fix: paceline archive --to s3"):
        History.open(url, environ)
    store = open_store(url, environ)
    writer = Writer(store, lambda: now_s[0])
    for number in range(9):
        commit(writer, [finding(id=f"f{number}"), job_window(start_s=1.7e9 + number, cluster="a/b *")], number)
    assert len(store.data_paths()) == 18
    assert Merger(store, writer, Days(), lambda: now_s[0]).turn()
    now_s[0] += GRACE_S
    assert writer.sweep() == 9
    with History.open(url, environ).connect(EVER) as connection:
        assert connection.ask("SELECT count(*), count(DISTINCT id) FROM findings").rows == [(9, 9)]
        assert connection.ask("SELECT steps FROM jobs").rows == [(10,)]
        for forbidden in (
            "SELECT * FROM read_text('/etc/passwd')",
            f"SELECT * FROM read_text('s3://archive/{tmp_path.name}/manifest/*')",
        ):
            with pytest.raises(QueryError, match="disabled by configuration"):
                connection.ask(forbidden)


@pytest.mark.long
def test_what_vanishes_while_it_is_asked_is_told(s3_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name, value in LOGIN.items():
        monkeypatch.setenv(name, value)
    store = open_store(f"s3://archive/{tmp_path.name}", {"AWS_ENDPOINT_URL": s3_address})
    writer = Writer(store)
    commit(writer, [finding()])
    store.remove(writer.manifest.files[0].path)
    with (
        pytest.raises(QueryError, match=f"s3://archive/{tmp_path.name}"),
        History(store, writer.manifest).connect(EVER) as one,
    ):
        one.ask("SELECT * FROM finding")


def test_a_scope_reads_only_files_that_can_hold_it(s3_address: str, tmp_path: Path):
    """A job or a time that a file cannot have is not asked for there."""
    store = open_store(str(tmp_path), {})
    writer = Writer(store)
    commit(writer, [job_window(start_s=1.7e9, job="a")], 1)
    commit(writer, [job_window(start_s=1.7e9 + 5e5, job="b"), job_window(start_s=1.7e9, job="b", cluster="other")], 2)
    history = History(store, writer.manifest)

    def files(**words: str) -> int:
        return len(history.files(JOB_WINDOW, Scope(0.0, 1e11, **words)))

    assert (files(), files(job="a"), files(job="b"), files(job="c"), files(cluster="other")) == (3, 1, 2, 0, 1)
    assert len(history.files(JOB_WINDOW, Scope(1.7e9 + 1, 1e11))) == 1
