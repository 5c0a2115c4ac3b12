"""A scope that names nodes: rows of these alone, and no file is read that can hold none of them."""

from pathlib import Path

import pytest

from archive.writer import Writer
from paceline.history.query import History
from paceline.history.store import open_store
from paceline.history.tables import DEVICE_WINDOW
from paceline.history.views import Scope
from tests.archive.conftest import commit
from tests.forecaster.test_archive import device_window


@pytest.mark.long
def test_only_named_nodes_are_seen_and_files_of_others_are_not_read(tmp_path: Path):
    store = open_store(str(tmp_path), {})
    writer = Writer(store)
    for read, names in enumerate((("a", "b"), ("c", "d'e"), ("x", "y")), 1):
        commit(writer, [device_window(name, 0, 0) for name in names], read=read, published_s=1.9e9)
    history = History(store, writer.manifest)
    scope = Scope(0.0, 1e11, nodes=("d'e", "b"))
    with history.connect(scope) as connection:
        assert connection.ask("SELECT node FROM device_window ORDER BY node").rows == [("b",), ("d'e",)]
        assert connection.ask("SELECT count(*) FROM findings").rows == [(0,)]
    assert [file.high for file in history.files(DEVICE_WINDOW, scope)] == ["b", "d'e"]
    assert [file.high for file in history.files(DEVICE_WINDOW, Scope(0.0, 1e11, node="x"))] == ["y"]
