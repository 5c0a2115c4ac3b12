"""What the service makes before its first commit."""

import threading
from pathlib import Path

import pytest

from archive.database.address import address, in_folder
from archive.database.engine import engine
from archive.service import _mirror
from paceline.history.store import open_store
from paceline.kafka.settings import BrokerSettings
from paceline.settings import DATABASE


def mirror(where: Path) -> object:
    return _mirror(BrokerSettings(), open_store(str(where), {}), threading.Event())


def test_the_database_of_a_new_archive_does_not_wait_for_the_first_commit(tmp_path: Path) -> None:
    where = tmp_path / "a" / "history"
    assert mirror(where)
    with engine(address(in_folder(where))).connect() as connection:
        assert connection.exec_driver_sql("SELECT 1").scalar() == 1
    assert where.stat().st_mode & 0o007 == 0


def test_a_database_named_elsewhere_makes_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is not mounted is not written beside."""
    monkeypatch.setenv(DATABASE.name, f"sqlite:///{tmp_path}/disk/database.sqlite")
    assert mirror(tmp_path / "history")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_does_not_stop_the_service(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert mirror(tmp_path / "file" / "history")
