"""The spool: a bounded queue on disk that survives its process and any damage to its files."""

import errno
import fcntl
import os
import resource
import stat
from pathlib import Path

import pytest

from paceline.delivery.outbox import Message
from paceline.delivery.spool import Spool, SpoolError

LIMIT = 40_000


def message(number: int, topic: str = "t") -> Message:
    return Message(topic, None, str(number).encode().rjust(1000), number)


def fill(spool: Spool, numbers: range) -> None:
    for number in numbers:
        spool.append(message(number))


def drain(spool: Spool) -> list[int]:
    got: list[int] = []
    while batch := spool.read(7):
        got += [each.timestamp_ms for each in batch]
        spool.done(len(batch))
    return got


def test_messages_come_out_in_the_order_they_went_in(tmp_path: Path):
    """First in, first out, over several segments; and then the folder is empty."""
    spool = Spool(tmp_path / "spool", LIMIT)
    fill(spool, range(30))
    assert (drain(spool), len(spool), spool.size) == (list(range(30)), 0, 0)
    assert not list((tmp_path / "spool").glob("*.spool"))


def test_the_next_process_finds_what_is_left(tmp_path: Path):
    """Nothing but the files is needed to go on."""
    first = Spool(tmp_path, LIMIT)
    fill(first, range(20))
    first.close()
    second = Spool(tmp_path, LIMIT)
    fill(second, range(20, 25))
    assert drain(second) == list(range(25))


def test_what_is_not_marked_done_is_read_again(tmp_path: Path):
    """Reading alone forgets nothing: neither in this process nor in the next."""
    spool = Spool(tmp_path, LIMIT)
    fill(spool, range(5))
    spool.read()
    spool.read()
    spool.close()
    assert drain(Spool(tmp_path, LIMIT)) == list(range(5))


def test_the_oldest_segments_go_when_the_spool_is_full(tmp_path: Path):
    """The disk limit holds, the newest stay, and what went is counted exactly."""
    spool = Spool(tmp_path, LIMIT)
    fill(spool, range(100))
    on_disk = sum(path.stat().st_size for path in tmp_path.glob("*.spool"))
    kept = drain(spool)
    assert on_disk <= LIMIT
    assert kept == list(range(100 - len(kept), 100))
    assert (spool.shed["t"], len(kept) > 20) == (100 - len(kept), True)


def test_a_message_larger_than_the_spool_is_shed_alone(tmp_path: Path):
    """It does not push out the others for nothing."""
    spool = Spool(tmp_path, LIMIT)
    fill(spool, range(3))
    spool.append(Message("big", None, b"x" * LIMIT, 0))
    assert (dict(spool.shed), drain(spool)) == ({"big": 1}, [0, 1, 2])


def test_files_are_for_their_owner_alone(tmp_path: Path):
    """Folder 0700, files 0600."""
    spool = Spool(tmp_path / "spool", LIMIT)
    fill(spool, range(1))
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "spool").iterdir()}
    assert (stat.S_IMODE((tmp_path / "spool").stat().st_mode), modes) == (0o700, {0o600})


def test_a_damaged_record_is_skipped_and_counted(tmp_path: Path):
    """One bad byte on disk costs one message."""
    spool = Spool(tmp_path, LIMIT)
    fill(spool, range(5))
    spool.close()
    path = next(tmp_path.glob("*.spool"))
    data = bytearray(path.read_bytes())
    data[2500] ^= 1
    path.write_bytes(data)
    again = Spool(tmp_path, LIMIT)
    assert (len(drain(again)), again.corrupt) == (4, 1)


def test_a_segment_that_vanishes_is_counted(tmp_path: Path):
    """Somebody cleans the folder while we run: the count says how many went, and the spool works on."""
    spool = Spool(tmp_path, LIMIT)
    fill(spool, range(5))
    next(tmp_path.glob("*.spool")).unlink()
    assert (drain(spool), spool.corrupt, len(spool)) == ([], 5, 0)
    fill(spool, range(5, 7))
    assert drain(spool) == [5, 6]


def test_what_is_being_delivered_is_not_dropped_to_make_room(tmp_path: Path):
    """Writer and reader share a full spool: what was read stays until it is done, and all is accounted for."""
    spool = Spool(tmp_path, LIMIT)
    fill(spool, range(30))
    read = [message.timestamp_ms for message in spool.read(5)]
    fill(spool, range(30, 100))
    spool.done(len(read))
    rest = drain(spool)
    assert (read, rest[-1], rest == sorted(rest)) == (list(range(5)), 99, True)
    assert len(read) + len(rest) + spool.shed["t"] == 100


def test_only_an_empty_folder_is_taken_away(tmp_path: Path):
    """What waits in it stays for the next owner."""
    first = Spool(tmp_path / "spool", LIMIT)
    fill(first, range(2))
    first.remove()
    second = Spool(tmp_path / "spool", LIMIT)
    assert drain(second) == [0, 1]
    second.remove()
    assert not (tmp_path / "spool").exists()


def test_the_lock_of_a_folder_taken_away_owns_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Between opening the lock and holding it, its owner may have removed it: the next attempt makes another."""
    real = fcntl.flock

    def removed_before(lock: int, how: int) -> None:
        (tmp_path / "spool" / "lock").unlink()
        real(lock, how)

    monkeypatch.setattr(fcntl, "flock", removed_before)
    with pytest.raises(SpoolError, match="removed"):
        Spool(tmp_path / "spool", LIMIT)
    monkeypatch.undo()
    fill(Spool(tmp_path / "spool", LIMIT), range(1))


def test_foreign_files_are_left_alone(tmp_path: Path):
    """A file that is not ours is neither read nor removed; nor is a link followed."""
    (tmp_path / "notes.spool").write_text("mine")
    (tmp_path / "000000000001.spool").symlink_to(tmp_path / "notes.spool")
    spool = Spool(tmp_path, LIMIT)
    fill(spool, range(2, 4))
    assert drain(spool) == [2, 3]
    assert (tmp_path / "notes.spool").read_text() == "mine"


def test_one_process_at_a_time(tmp_path: Path):
    """Two that would mix their records are kept apart by a lock, which ends with its owner."""
    first = Spool(tmp_path, LIMIT)
    with pytest.raises(SpoolError, match="in use by another process"):
        Spool(tmp_path, LIMIT)
    first.close()
    Spool(tmp_path, LIMIT).close()


def test_a_folder_that_cannot_be_made_says_why(tmp_path: Path):
    """The line names the folder and the reason."""
    (tmp_path / "file").write_text("")
    with pytest.raises(SpoolError, match=r"file/spool: Not a directory"):
        Spool(tmp_path / "file" / "spool", LIMIT)


def test_a_full_disk_loses_nothing_and_is_survived(tmp_path: Path):
    """A write that does not fit raises, leaves the spool as it was, and later writes work."""
    spool = Spool(tmp_path, LIMIT)
    fill(spool, range(3))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3500, hard))
    try:
        with pytest.raises(SpoolError):
            spool.append(message(99))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    fill(spool, range(3, 5))
    assert (drain(spool), spool.corrupt) == ([0, 1, 2, 3, 4], 0)


def test_a_full_disk_that_cannot_even_be_cut_back_is_survived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The torn record stays in the file, is skipped on reading, and a new segment goes on after it."""

    def no(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    spool = Spool(tmp_path, LIMIT)
    fill(spool, range(3))
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[:500]))
    monkeypatch.setattr(os, "ftruncate", no)
    with pytest.raises(SpoolError):
        spool.append(message(99))
    monkeypatch.undo()
    fill(spool, range(3, 5))
    assert (drain(spool), spool.corrupt) == ([0, 1, 2, 3, 4], 0)
