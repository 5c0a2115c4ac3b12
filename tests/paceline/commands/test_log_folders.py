"""Logs of `up` and `demo`: beside what is kept of stacks, the last five starts, and none that is still written to."""

import fcntl
import os
import stat
from pathlib import Path

import pytest

from paceline.commands import log_folders
from paceline.commands.log_folders import KEPT, hold, new_folder

START_S = 1_800_000_000.25


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if each folder were a process's that has ended: its lock is gone with it."""
    monkeypatch.setattr(log_folders, "hold", lambda folder: None)


def started(state: Path, times: int, since_s: float = START_S) -> list[Path]:
    return [new_folder({"XDG_STATE_HOME": str(state)}, since_s + number) for number in range(times)]


def left(state: Path) -> set[Path]:
    return set((state / "paceline" / "logs").iterdir())


def test_a_start_has_a_folder_of_its_owner_alone_beside_the_stacks(tmp_path: Path) -> None:
    """Not among the temporary files; two starts in one moment have two."""
    one, other = started(tmp_path, 1) + started(tmp_path, 1, START_S + 1e-3)
    assert one.parent == other.parent == tmp_path / "paceline" / "logs"
    assert one != other
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in (one, one.parent)] == [0o700, 0o700]


@pytest.mark.usefixtures("ended")
def test_the_last_five_starts_remain(tmp_path: Path) -> None:
    """With all that is in them; what is not a start's folder is left alone, and so is what a link points to."""
    first = started(tmp_path, 1)[0]
    (first / "spool").mkdir()
    (first / "spool" / "one").write_text("x")
    mine = first.parent / "notes"
    mine.mkdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    link = first.parent / "20200101T000000-000000-1"
    link.symlink_to(elsewhere)
    newer = started(tmp_path, KEPT + 2, START_S + 10)
    assert left(tmp_path) == {*newer[-KEPT:], mine, link}
    assert elsewhere.exists()


def test_a_folder_that_is_written_to_remains(tmp_path: Path) -> None:
    """A stack that runs for weeks keeps its logs, however often the demo is started."""
    starts = started(tmp_path, KEPT + 3)
    assert left(tmp_path) == set(starts)


@pytest.mark.usefixtures("ended")
def test_what_a_second_process_holds_remains_when_the_first_has_ended(tmp_path: Path) -> None:
    """`up --detach` makes the folder, and what it has started writes into it."""
    first = started(tmp_path, 1)[0]
    hold(first)
    starts = started(tmp_path, KEPT + 1, START_S + 10)
    assert first.exists()
    assert not starts[0].exists()


@pytest.mark.usefixtures("ended")
def test_a_clock_that_was_set_back_costs_the_new_folder_nothing(tmp_path: Path) -> None:
    """The one that was just made is the oldest by its name, and remains."""
    started(tmp_path, KEPT)
    new = started(tmp_path, 1, START_S - 1e6)[0]
    assert new.exists()
    assert len(left(tmp_path)) == KEPT


@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_a_place_that_is_open_to_others_is_not_used(tmp_path: Path, mode: int) -> None:
    """Nor is one that cannot be made; the logs are then among the temporary files."""
    place = tmp_path / "paceline" / "logs"
    place.mkdir(parents=True)
    place.chmod(mode)
    folder = started(tmp_path, 1)[0]
    assert folder.parent != place
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.rmdir()


def test_without_a_home_they_are_among_the_temporary_files(tmp_path: Path) -> None:
    """A file where the folder should be is no reason not to start."""
    (tmp_path / "paceline").write_text("")
    folder = started(tmp_path, 1)[0]
    assert folder.is_dir()
    folder.rmdir()


def test_a_disk_without_locks_is_no_reason_not_to_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There nothing is removed, for nobody can tell whether it is in use."""

    def refused(*_: object) -> None:
        raise OSError(38, os.strerror(38))

    monkeypatch.setattr(fcntl, "flock", refused)
    assert set(started(tmp_path, KEPT + 2)) == left(tmp_path)
