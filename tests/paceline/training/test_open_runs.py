"""Which runs of trackers a process has open, by the insides of what it has imported, of several versions."""

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from paceline.training.open_runs import open_runs
from paceline.training.tracking_words import OpenRun


def run(name: str, start_time: int) -> SimpleNamespace:
    return SimpleNamespace(info=SimpleNamespace(run_id=name, start_time=start_time))


def mlflow(held: Any, uri: str = "http://host:5000") -> dict[str, Any]:
    """MLflow as it is imported, with what it holds as its open runs."""
    fluent = SimpleNamespace(_active_run_stack=held)
    return {"mlflow": SimpleNamespace(get_tracking_uri=lambda: uri), "mlflow.tracking.fluent": fluent}


def by_thread(*stacks: list[Any]) -> SimpleNamespace:
    return SimpleNamespace(get_all_thread_values=lambda: dict(enumerate(stacks)))


@pytest.mark.parametrize("modules", [{}, {"mlflow": SimpleNamespace()}, {"wandb": SimpleNamespace(run=None)}])
def test_nothing_is_open_where_nothing_was_opened(modules: dict[str, Any]) -> None:
    assert open_runs(modules) == []


@pytest.mark.parametrize("held", [[], by_thread(), by_thread([], [])])
def test_mlflow_without_a_run_is_none(held: Any) -> None:
    assert open_runs(mlflow(held)) == []


@pytest.mark.parametrize("held", [[run("a", 1), run("b", 2)], by_thread([run("a", 1), run("b", 2)])])
def test_of_nested_runs_it_is_the_inner_one(held: Any) -> None:
    """Of versions that hold a list, and of those that hold one a thread."""
    assert open_runs(mlflow(held)) == [OpenRun("mlflow", "b", "http://host:5000")]


def test_of_several_threads_runs_it_is_the_newest() -> None:
    held = by_thread([run("a", 1), run("b", 5)], [], [run("c", 7)], [run("d", 3)])
    assert open_runs(mlflow(held))[0].run == "c"


def test_an_address_that_counts_from_our_folder_is_told_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (told,) = open_runs(mlflow([run("a", 1)], "sqlite:///mlflow.db"))
    assert told.place == f"sqlite:///{tmp_path}/mlflow.db"
    (told,) = open_runs(mlflow([run("a", 1)], "mlruns"))
    assert told.place == f"{tmp_path}/mlruns"


@pytest.mark.parametrize("broken", [run("a", 1).info, None, SimpleNamespace(info=None)])
def test_another_versions_insides_hide_no_other_tracker(broken: Any) -> None:
    modules = mlflow([broken]) | {"wandb": SimpleNamespace(run=SimpleNamespace(id="x"))}
    assert open_runs(modules) == [OpenRun("wandb", "x")]


@pytest.mark.parametrize(("changed", "told"), [({}, 1), ({"_is_finished": True}, 0), ({"disabled": True}, 0)])
def test_a_finished_run_of_wandb_is_none(changed: dict[str, bool], told: int) -> None:
    assert len(open_runs({"wandb": SimpleNamespace(run=SimpleNamespace(id="x", **changed))})) == told


@pytest.fixture
def writers() -> Iterator[type]:
    """The class of the threads of TensorBoard's writers, as far as we look into it."""
    ended = threading.Event()

    class Writer(threading.Thread):
        def __init__(self, filename: bytes) -> None:
            super().__init__(target=ended.wait)
            self._record_writer = SimpleNamespace(_writer=SimpleNamespace(filename=filename))
            self.start()

    yield Writer
    ended.set()
    for thread in threading.enumerate():
        if isinstance(thread, Writer):
            thread.join()


def test_the_folder_of_the_writer_that_is_open_longest_is_told(writers: type) -> None:
    modules: Any = {"tensorboard.summary.writer.event_file_writer": SimpleNamespace(_AsyncWriterThread=writers)}
    assert open_runs(modules) == []
    for name in (b"/runs/a/events.out.tfevents.1", b"/runs/b/events.out.tfevents.2"):
        writers(name)
    assert open_runs(modules) == [OpenRun("tensorboard", place="/runs/a")]


def test_a_writer_to_an_object_store_is_none(writers: type) -> None:
    modules: Any = {"tensorboard.summary.writer.event_file_writer": SimpleNamespace(_AsyncWriterThread=writers)}
    writers(b"s3://bucket/a/events.out.tfevents.1")
    assert open_runs(modules) == []
