"""The door to rank 0: what goes to a rank names the trackers that it is for."""

import contextlib
import selectors
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from paceline.tracking.rank_socket import RankSocket, listen
from paceline.training.tracking import Tracking, callback
from paceline.training.tracking_words import Told, decode_told
from tests.patience import PATIENCE_S

POINT = Told({"paceline/step": 7}, {"paceline/finding": "Rank 2"}, ["paceline:straggler"])


class Run:
    """A run of W&B's, and what it was given."""

    id: str = "w1"

    def __init__(self) -> None:
        self.tags: tuple[str, ...] = ()
        self.summary: dict[str, str] = {}
        self.rows: list[dict[str, float]] = []

    def define_metric(self, name: str, **_: Any) -> None:
        pass

    def log(self, values: dict[str, float], **_: Any) -> None:
        self.rows.append(values)


@pytest.fixture
def ranks(tmp_path: Path) -> Iterator[tuple[RankSocket, selectors.BaseSelector, str]]:
    path = tmp_path / "tracking"
    with selectors.DefaultSelector() as selector, contextlib.closing(listen(path)) as listener:
        yield RankSocket(listener, selector), selector, str(path)


@pytest.mark.parametrize(
    ("trackers", "rows", "waiting"),
    [({"callback"}, 0, 1), ({"callback", "wandb"}, 1, 1), ({"wandb"}, 1, 0), (set(), 0, 0)],
    ids=["callback", "both", "W&B", "neither"],
)
def test_a_rank_logs_to_the_trackers_that_are_named_alone(
    ranks: tuple[RankSocket, selectors.BaseSelector, str],
    monkeypatch: pytest.MonkeyPatch,
    trackers: set[str],
    rows: int,
    waiting: int,
) -> None:
    """A W&B run that the script has open beside a framework's callback stays as it is where W&B was not asked for."""
    door, selector, path = ranks
    monkeypatch.setattr(callback, "wanted", True)
    callback.waiting.clear()
    run = Run()
    rank = Tracking(path, {"wandb": SimpleNamespace(run=run)})
    rank._turn()
    while len(door.runs) < 2:
        for key, _ in selector.select(PATIENCE_S):
            key.data()
    door.tell(POINT, trackers)
    rank._turn()
    rank._disconnect()
    assert (len(run.rows), len(callback.waiting)) == (rows, waiting)
    assert (run.tags, run.summary) == (tuple(POINT.tags) * rows, POINT.texts if rows else {})
    callback.waiting.clear()


def test_a_tracking_process_of_an_earlier_version_means_all() -> None:
    """It names no trackers."""
    found = decode_told(b'{"values":{"paceline/step":7},"texts":{},"tags":[]}')
    assert found is not None
    assert set(found.trackers) == {"wandb", "callback"}
