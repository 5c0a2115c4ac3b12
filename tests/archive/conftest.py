"""An archive in a folder, and messages put into it as the archiver puts them."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from archive.buffers import Buffers
from archive.messages import rows_of
from archive.writer import Position, Writer
from paceline.history.query import Answer, History
from paceline.history.store import Store, open_store
from paceline.history.views import Scope

#: All that a clock can say.
EVER = Scope(0.0, 1e11)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty archive."""
    return open_store(str(tmp_path / "archive"), {})


def buffered(events: Iterable[Any], published_s: float = 1.7e9) -> Buffers:
    """``events`` as they wait for a commit, message by message at offsets from 0."""
    buffers = Buffers()
    for offset, event in enumerate(events):
        for rows in rows_of(event, published_s):
            buffers.add(rows, 0, offset, published_s)
    return buffers


def commit(writer: Writer, events: Iterable[Any], read: int = 1, published_s: float = 1.7e9) -> None:
    """Commit ``events``, with all read up to ``read``."""
    writer.commit(buffered(events, published_s), Position({("paceline.window.v1", 0): read}, {}))


@pytest.fixture
def ask(store: Store) -> Callable[..., list[tuple[Any, ...]]]:
    """Asks the archive in SQL."""

    def asked(sql: str, *values: Any, scope: Scope = EVER) -> list[tuple[Any, ...]]:
        manifest = store.newest()
        assert manifest is not None
        with History(store, manifest).connect(scope) as connection:
            answer: Answer = connection.ask(sql, values)
            return answer.rows

    return asked
