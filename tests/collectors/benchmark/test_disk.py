import os

import pytest

from collectors.benchmark import disk
from collectors.benchmark.target import UnmeasuredError


@pytest.fixture
def plain(monkeypatch):
    """A folder whose kind of file system is a disk's, whatever the test machine has at its temporary folder."""
    monkeypatch.setattr(disk, "filesystem", lambda _folder: "ext4")


@pytest.mark.long
def test_a_disk_is_written_and_read_and_nothing_is_left(tmp_path, plain):
    """Both speeds with enough samples, how they were measured, and an empty folder, during and after."""
    seen, found = [], {}
    for name, samples, how in disk.measure(tmp_path, 0.2):
        found[name] = (samples, how)
        seen += os.listdir(tmp_path)

    assert list(found) == ["disk_write", "disk_read"]
    assert all(len(samples) >= 6 and min(samples) > 0 for samples, _ in found.values())
    assert "O_DIRECT" in found["disk_write"][1] or "posix_fadvise" in found["disk_write"][1]
    assert seen == os.listdir(tmp_path) == []


@pytest.mark.long
def test_an_end_in_the_middle_leaves_nothing(tmp_path, plain):
    """Ctrl-C between two results, or within one."""
    running = disk.measure(tmp_path, 0.2)
    next(running)
    with pytest.raises(KeyboardInterrupt):
        running.throw(KeyboardInterrupt())

    assert os.listdir(tmp_path) == []


def test_too_little_room_is_told(tmp_path, plain, monkeypatch):
    """Most of the free room stays free."""
    monkeypatch.setattr(disk.shutil, "disk_usage", lambda _folder: _Room(8 * 2**20))

    with pytest.raises(UnmeasuredError, match="too little room; it needs 60 MiB free"):
        next(disk.measure(tmp_path, 0.2))


class _Room:
    def __init__(self, free):
        self.free = free


def test_memory_is_no_disk(tmp_path, monkeypatch):
    """A temporary folder in memory would be told as a very fast disk."""
    monkeypatch.setattr(disk, "filesystem", lambda _folder: "tmpfs")

    with pytest.raises(UnmeasuredError, match="memory, no disk"):
        next(disk.measure(tmp_path, 0.2))


def test_the_innermost_mount_says_what_a_folder_is_on(tmp_path):
    """Mount points are nested; their blanks are written in octal."""
    mounts = tmp_path / "mounts"
    (tmp_path / "a b" / "c").mkdir(parents=True)
    inner = str(tmp_path / "a b").replace(" ", "\\040")
    mounts.write_text(f"/dev/a / ext4 rw 0 0\n{inner} {inner} xfs rw 0 0\nbroken\n")

    assert disk.filesystem(tmp_path / "a b" / "c", mounts) == "xfs"
    assert disk.filesystem(tmp_path, mounts) == "ext4"
    assert disk.filesystem(tmp_path, tmp_path / "none") == "unknown"


@pytest.mark.long
def test_a_file_system_without_nameless_files_leaves_nothing_either(tmp_path, plain, monkeypatch):
    """NFS and overlays have no O_TMPFILE: the name is taken away at once."""
    monkeypatch.setattr(disk.os, "O_TMPFILE", os.O_DIRECTORY | os.O_WRONLY)
    running = disk.measure(tmp_path, 0.2)
    next(running)

    assert os.listdir(tmp_path) == []
    running.close()
