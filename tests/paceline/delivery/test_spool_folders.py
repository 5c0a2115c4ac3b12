"""Where a sidecar spools: on this node, for this user alone, and the same place when it is started again."""

import os
import stat
from pathlib import Path

import pytest

from paceline.delivery import spool_folders
from paceline.delivery.spool import Spool, SpoolError
from paceline.delivery.spool_folders import own_folder, remove_empty, spool_root

SOCKET = Path("/run/x/ranks")


def test_by_default_it_is_a_folder_of_this_user_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made with mode 700; asked again, the same."""
    monkeypatch.setattr(spool_folders, "DEFAULT_ROOT", str(tmp_path))
    root = spool_root({})
    assert root is not None
    assert (root.parent, stat.S_IMODE(root.stat().st_mode)) == (tmp_path, 0o700)
    assert spool_root({}) == root


@pytest.mark.parametrize("planted", ["open", "link", "foreign"])
def test_what_somebody_else_may_have_planted_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, planted: str
) -> None:
    """The default's name can be guessed, in a folder that all may write to."""
    monkeypatch.setattr(spool_folders, "DEFAULT_ROOT", str(tmp_path / "all"))
    (tmp_path / "all").mkdir()
    (tmp_path / "theirs").mkdir(mode=0o700)
    # Whoever runs the tests owns what they make: to a user of another number that is somebody else's.
    uid = os.getuid() + (planted == "foreign")
    monkeypatch.setattr(spool_folders.os, "getuid", lambda: uid)
    root = tmp_path / "all" / f"paceline-{uid}"
    root.symlink_to(tmp_path / "theirs") if planted == "link" else root.mkdir(0o755 if planted == "open" else 0o700)
    with pytest.raises(SpoolError, match=r"must be a folder of yours alone"):
        spool_root({})


def test_a_setting_names_another_or_none(tmp_path: Path) -> None:
    """A folder that cannot be made is told with its reason."""
    assert spool_root({"PACELINE_SPOOL_DIR": str(tmp_path / "a" / "b")}) == tmp_path / "a" / "b"
    assert spool_root({"PACELINE_SPOOL_DIR": "none"}) is None
    (tmp_path / "file").write_text("")
    with pytest.raises(SpoolError, match=r"file/b: Not a directory"):
        spool_root({"PACELINE_SPOOL_DIR": str(tmp_path / "file" / "b")})


def test_a_sidecar_started_again_finds_the_same_folder(tmp_path: Path) -> None:
    """Other sockets and other nodes have others; one that somebody empties just now is left to them."""
    folder = own_folder(tmp_path, "n1", SOCKET)
    assert own_folder(tmp_path, "n1", SOCKET) == folder
    assert len({folder, own_folder(tmp_path, "n2", SOCKET), own_folder(tmp_path, "n1", SOCKET.parent)}) == 3
    held = Spool(folder, 10_000)
    other = own_folder(tmp_path, "n1", SOCKET)
    assert (other != folder, other.parent) == (True, tmp_path)
    remove_empty(folder)
    assert folder.exists()
    held.close()
    assert own_folder(tmp_path, "n1", SOCKET) == folder
    remove_empty(folder)
    assert not folder.exists()
