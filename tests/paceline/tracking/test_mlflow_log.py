"""The door to MLflow where its client cannot be loaded: that costs entries, with the reason, and ends nothing."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from paceline.tracking.mlflow_log import CLIENT, Entry, MlflowLog
from paceline.training.tracking_words import OpenRun


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], MlflowLog]:
    """A log whose client has this source."""

    def made(source: str) -> MlflowLog:
        (tmp_path / "mlflow.py").write_text(source)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "mlflow", raising=False)
        for name, value in CLIENT.items():
            monkeypatch.setenv(name, value)
        return MlflowLog({}, print)

    return made


def test_a_client_that_fails_on_import_is_the_reason(
    client: Callable[[str], MlflowLog], until: Callable[..., object]
) -> None:
    """Whatever it raises, as that of another protobuf does; the next run of the script changes nothing in that."""
    log = client("raise TypeError('Descriptors cannot be created directly')")
    log.start()
    log.add(Entry(OpenRun("mlflow", "a1", "http://host"), 1.0, 1, {"x": 1.0}))
    until(lambda: "Descriptors" in log.told())
    log.start()
    log.close(0.0)
    assert log.told() == "MLflow: 1 of 1 entries were not logged: TypeError: Descriptors cannot be created directly"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_client_that_ends_its_thread_ends_nothing_else(client: Callable[[str], MlflowLog]) -> None:
    """The next run of the script finds the thread ended, and begins none."""
    log = client("raise SystemExit")
    log.start()
    log._thread.join()
    log.add(Entry(OpenRun("mlflow", "a1", "http://host"), 1.0, 1, {"x": 1.0}))
    log.start()
    log.close(0.0)
    assert log.told() == "MLflow: 1 of 1 entries were not logged: no time"
