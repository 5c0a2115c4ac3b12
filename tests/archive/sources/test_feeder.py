"""A source on its schedule: one addition at a time, committed before the next, and a failure that is told once."""

import threading
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pyarrow as pa
import pytest

from archive.addition import Addition, SourceError
from archive.buffers import Place
from archive.column_buffers import schema
from archive.sources.feeder import Feeder
from archive.writer import Writer
from paceline.history.store import Store, StoreError
from paceline.history.tables import SLURM_JOB
from tests.patience import PATIENCE_S

Until = Callable[..., Any]
Ask = Callable[..., list[tuple[Any, ...]]]


class Numbers:
    """Tells a job for each number that the archive does not have, up to three; ``away`` keeps it from it."""

    name, every_s = "numbers", 0.01

    def __init__(self, ask: Ask, store: Store) -> None:
        self._ask, self._store = ask, store
        self.away = ""

    def turns(self, now_s: float) -> Generator[Addition, None, None]:
        for number in range(3):
            if self.away:
                raise SourceError(self.away)
            there = self._store.newest() is not None and self._ask("SELECT 1 FROM slurm_job WHERE job = ?", str(number))
            if not there:
                rows = pa.Table.from_pylist([{"job": str(number), "time_s": now_s}], schema=schema(SLURM_JOB))
                yield Addition([(Place(SLURM_JOB.name, "2026-11-25", "c"), SLURM_JOB, rows)])


def served(feeder: Feeder, writer: Writer) -> bool:
    """Commit what waits, if anything does; always False, so that ``until`` goes on to what it waits for."""
    feeder.serve(writer)
    return False


@pytest.fixture
def feeder(ask: Ask, store: Store) -> Iterator[Feeder]:
    """Started, and stopped at the end."""
    made = Feeder(Numbers(ask, store), threading.Event())
    made.thread.start()
    yield made
    assert made.thread.stop(PATIENCE_S)


@pytest.mark.slow
def test_each_piece_is_committed_before_the_next_and_nothing_is_told_twice(
    feeder: Feeder, store: Store, ask: Ask, until: Until
):
    writer = Writer(store)
    until(lambda: feeder.serve(writer))
    assert ask("SELECT job FROM slurm_job") == [("0",)]
    until(lambda: served(feeder, writer) or feeder.rounds >= 3)
    assert ask("SELECT count(*), count(DISTINCT job) FROM slurm_job") == [(3, 3)]
    assert feeder.rows == 3


@pytest.mark.slow
def test_what_could_not_be_committed_is_asked_for_again(
    feeder: Feeder, store: Store, ask: Ask, until: Until, monkeypatch: pytest.MonkeyPatch
):
    writer = Writer(store)

    def broken(addition: Addition) -> bool:
        raise StoreError("no space")

    with monkeypatch.context() as patched:
        patched.setattr(writer, "add", broken)
        with pytest.raises(StoreError):
            until(lambda: feeder.serve(writer))
    until(lambda: feeder.failure)
    assert "the archive did not accept the rows" in feeder.failure
    until(lambda: served(feeder, Writer(store)) or feeder.rounds)
    assert ask("SELECT count(*), count(DISTINCT job) FROM slurm_job") == [(3, 3)]


def test_what_stands_for_files_that_are_gone_is_not_taken(store: Store):
    writer = Writer(store)
    rows = pa.Table.from_pylist([{"job": "1", "time_s": 1.0}], schema=schema(SLURM_JOB))
    place = Place(SLURM_JOB.name, "2026-11-25", "c")
    assert writer.add(Addition([(place, SLURM_JOB, rows)]))
    [old] = writer.manifest.files
    assert writer.add(Addition([], [old]))
    version = writer.manifest.version
    assert not writer.add(Addition([(place, SLURM_JOB, rows)], [old]))
    assert writer.manifest.version == version


@pytest.mark.slow
def test_a_source_that_is_away_is_logged_once_and_asked_again(
    feeder: Feeder, store: Store, until: Until, caplog: pytest.LogCaptureFixture
):
    writer = Writer(store)
    source = feeder.source
    assert isinstance(source, Numbers)
    source.away = "numbers are away"
    until(lambda: served(feeder, writer) or feeder.failures >= 3)
    assert [record.message for record in caplog.records].count("numbers are away") == 1
    source.away = ""
    until(lambda: served(feeder, writer) or feeder.rounds)
    assert feeder.failure == ""
