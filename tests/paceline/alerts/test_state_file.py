"""What was told outlives the command: whole, for its owner's eyes, one process at a time."""

from pathlib import Path

import pytest

from paceline.alerts.state_file import StateFile, StateFileError, default_path


def test_what_was_written_is_read_by_the_next(tmp_path: Path) -> None:
    file = StateFile(tmp_path / "a" / "b" / "state.json")
    assert file.read() == {}
    file.write({"told": {"ü": [1, 2.5]}})
    file.close()
    again = StateFile(tmp_path / "a" / "b" / "state.json")
    assert again.read() == {"told": {"ü": [1, 2.5]}}
    assert again.path.stat().st_mode & 0o077 == 0
    again.close()


def test_two_do_not_share_one(tmp_path: Path) -> None:
    first = StateFile(tmp_path / "state.json")
    with pytest.raises(StateFileError, match="another `paceline alerts` uses it"):
        StateFile(tmp_path / "state.json")
    first.close()
    StateFile(tmp_path / "state.json").close()


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff", b"[" * 100_000])
def test_a_damaged_one_is_put_aside(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "state.json").write_bytes(data)
    file = StateFile(tmp_path / "state.json")
    with pytest.raises(StateFileError, match="open findings are sent again"):
        file.read()
    assert (tmp_path / "state.json.damaged").read_bytes() == data
    assert file.read() == {}
    file.close()


def test_a_place_that_cannot_be_written_is_told_with_the_mend(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateFileError, match="--state"):
        StateFile(tmp_path / "file" / "state.json")


def test_it_lies_where_state_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    assert default_path({"XDG_STATE_HOME": "/var/state"}) == Path("/var/state/paceline/alerts.json")
    assert default_path({"XDG_STATE_HOME": "relative"}).is_absolute()
