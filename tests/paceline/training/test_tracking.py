"""Rank 0's thread: it tells which runs are open, logs where only this process can, and fails nobody."""

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from paceline.tracking.rank_words import decode_runs
from paceline.training.tracking import Callback, Tracking, tracking_of
from paceline.training.tracking_words import TRACKING_VARIABLE, OpenRun, Told, encode_told
from tests.patience import PATIENCE_S


class Run:
    """A run of W&B's: what it was asked for. ``broken`` raises, as a run that was closed does."""

    id, tags, broken = "x", ("theirs",), False

    def __init__(self) -> None:
        self.defined: list[str] = []
        self.rows: list[tuple[dict[str, float], dict[str, Any]]] = []
        self.summary: dict[str, str] = {}

    def define_metric(self, name: str, **_: Any) -> None:
        self.defined.append(name)

    def log(self, values: dict[str, float], **how: Any) -> None:
        if self.broken:
            raise RuntimeError("the run was finished")
        self.rows.append((values, how))


class Outside:
    """The tracking process's end."""

    def __init__(self, path: Path) -> None:
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(str(path))
        self._listener.listen(1)
        self._listener.settimeout(PATIENCE_S)

    def accept(self) -> socket.socket:
        connection, _ = self._listener.accept()
        connection.settimeout(PATIENCE_S)
        return connection

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Outside]:
    made = Outside(tmp_path / "tracking")
    yield made
    made.close()


@pytest.fixture
def track(tmp_path: Path) -> Iterator[Callable[..., Tracking]]:
    made: list[Tracking] = []

    def start(modules: dict[str, Any]) -> Tracking:
        made.append(Tracking(str(tmp_path / "tracking"), modules))
        made[-1].start()
        return made[-1]

    yield start
    for one in made:
        one.finish()
        one._thread.join()


@pytest.mark.long
def test_it_tells_what_is_open_whenever_that_changes(outside: Outside, track: Callable[..., Tracking]) -> None:
    wandb = SimpleNamespace(run=None)
    tracking = track({"wandb": wandb})
    connection = outside.accept()
    assert decode_runs(connection.recv(65_536)) == []
    wandb.run = Run()
    assert decode_runs(connection.recv(65_536)) == [OpenRun("wandb", "x")]
    wandb.run = None
    tracking.finish()
    assert decode_runs(connection.recv(65_536)) == []
    assert connection.recv(65_536) == b""


def test_what_it_is_told_joins_the_scripts_next_row(
    outside: Outside, track: Callable[..., Tracking], until: Callable[..., Any]
) -> None:
    """A row is never ended: that would move the script's own step axis."""
    run = Run()
    track({"wandb": SimpleNamespace(run=run)})
    connection = outside.accept()
    connection.send(b"no word of ours")
    tags = ["paceline:straggler", "x" * 65]
    connection.send(encode_told(Told({"paceline/step": 3}, {"paceline/finding": "rank 1"}, tags)))
    connection.send(encode_told(Told({"paceline/step": 4}, {}, [])))
    until(lambda: len(run.rows) == 2)
    assert run.rows == [({"paceline/step": 3}, {"commit": False}), ({"paceline/step": 4}, {"commit": False})]
    assert run.defined == ["paceline/step", "paceline/*"]
    assert run.summary == {"paceline/finding": "rank 1"}
    assert run.tags == ("theirs", "paceline:straggler")


@pytest.mark.long
def test_a_run_that_cannot_be_logged_to_is_told_once_and_fails_nobody(
    outside: Outside, track: Callable[..., Tracking], until: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run()
    run.broken = True
    tracking = track({"wandb": SimpleNamespace(run=run)})
    connection = outside.accept()
    for step in (3, 4):
        connection.send(encode_told(Told({"paceline/step": step}, {}, [])))
    until(lambda: tracking._failed)
    assert decode_runs(connection.recv(65_536)) == [OpenRun("wandb", "x")]
    tracking.finish()
    told = capsys.readouterr().err
    assert told == "paceline: nothing more goes to W&B: RuntimeError: the run was finished; training goes on\n"


@pytest.mark.long
def test_a_tracking_process_that_comes_back_is_told_again(outside: Outside, track: Callable[..., Tracking]) -> None:
    track({"wandb": SimpleNamespace(run=Run())})
    for _ in range(2):
        connection = outside.accept()
        assert decode_runs(connection.recv(65_536)) == [OpenRun("wandb", "x")]
        connection.close()


def test_one_that_never_was_there_fails_nobody(track: Callable[..., Tracking]) -> None:
    tracking = track({"wandb": SimpleNamespace(run=Run())})
    tracking.finish()
    assert not tracking._thread.is_alive()


def test_rank_0_alone_tracks_and_only_where_it_was_asked_for(tmp_path: Path) -> None:
    environ = {TRACKING_VARIABLE: str(tmp_path / "tracking")}
    assert tracking_of(0, environ) is not None
    assert tracking_of(1, environ) is None
    assert tracking_of(0, {}) is None
    assert tracking_of(0, {TRACKING_VARIABLE: "relative"}) is None


def test_a_callback_takes_the_newest_of_each_name() -> None:
    callback = Callback()
    assert callback.take() is None
    callback.waiting.append(Told({"a": 1.0, "b": 1.0}, {}, []))
    callback.waiting.append(Told({"a": 2.0}, {"c": "text"}, ["tag"]))
    assert callback.take() == Told({"a": 2.0, "b": 1.0}, {"c": "text"}, ["tag"])
    assert callback.take() is None
