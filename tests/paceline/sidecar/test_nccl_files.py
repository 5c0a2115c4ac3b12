"""Files of NCCL Inspector are followed as they grow, and nothing in their folder does harm."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from paceline.nccl_inspector.calls import Call
from paceline.sidecar import nccl_files
from paceline.sidecar.nccl_files import CHUNK_BYTES, LONGEST_LINE, LOOK_BYTES, LOOK_LINES, MOST_FILES, NcclFiles
from tests.paceline.sidecar import plugin as writer

Follow = Callable[..., NcclFiles]
Write = Callable[..., "writer.Plugin"]


@pytest.fixture
def follow(tmp_path: Path) -> Iterator[Follow]:
    """Follow the files of ``n1`` in ``tmp_path``."""
    made: list[NcclFiles] = []

    def start(*, ours: bool = True) -> NcclFiles:
        made.append(NcclFiles(tmp_path, "n1", ours=ours))
        return made[-1]

    yield start
    for files in made:
        files.close()


@pytest.fixture
def plugin(tmp_path: Path) -> Iterator[Write]:
    """Write as the process ``pid`` of ``n1``."""
    made: list[writer.Plugin] = []

    def start(pid: int = 7, version: str = "v4.3", host: str = "n1", folder: Path = tmp_path) -> "writer.Plugin":
        made.append(writer.Plugin(folder, pid, version, host))
        return made[-1]

    yield start
    for written in made:
        written.close()


def dump(written: "writer.Plugin", *numbers: int) -> None:
    written.dump([writer.performed(number, 100.0 + number, 0.001) for number in numbers], 200.0, rank=0, ranks=2)


def seqs(calls: list[Call]) -> list[int]:
    return [call.seq for call in calls]


def everything(files: NcclFiles, *pids: int) -> list[Call]:
    """What further looks bring, until several bring nothing."""
    found: list[Call] = []
    idle = 0
    while idle < 6:
        more = files.look(pids)
        found, idle = found + more, 0 if more else idle + 1
    return found


@pytest.mark.parametrize("version", ["v4.0", "v4.1", "v4.2", "v4.3"])
def test_a_file_is_followed_as_it_grows(follow: Follow, version: str, plugin: Write) -> None:
    """It may come late, and each call is told once."""
    files = follow()
    assert files.look([7]) == []
    written = plugin(version=version)
    assert files.look([7]) == []
    dump(written, 1)
    assert seqs(files.look([7])) == [1]
    assert files.look([7]) == []
    dump(written, 2)
    dump(written, 3)
    assert seqs(files.look([7])) == [2, 3]
    assert files.dropped() == {}


def test_half_a_line_waits_for_the_rest(follow: Follow, plugin: Write) -> None:
    """However it is cut, within a letter, too."""
    files, written = follow(), plugin(version="v4.2")
    dump(written, 1)
    text = written.path.read_bytes()
    dump(written, 2)
    second = written.path.read_bytes()[len(text) :]
    os.truncate(written.path, 0)
    found: list[int] = []
    for piece in (text[:1], text[1:200], text[200:-1], text[-1:] + second[:50], second[50:]):
        with written.path.open("ab") as file:
            file.write(piece)
        found += seqs(files.look([7]))
    assert found == [1, 2]
    assert files.dropped() == {}


@pytest.mark.slow
def test_files_of_others_are_not_read(tmp_path: Path, follow: Follow, plugin: Write) -> None:
    """Those of processes that are no rank's, of other nodes in a shared folder, and ten thousand of anything."""
    files = follow()
    for number in range(10_000):
        (tmp_path / f"n1-pid{10_000 + number}.log").touch()
    dump(plugin(pid=8), 1)
    dump(plugin(host="n2"), 2)
    dump(plugin(pid=7), 3)
    assert seqs(files.look([7])) == [3]


def test_a_file_that_tells_of_another_process_is_left_out(follow: Follow, plugin: Write) -> None:
    """Its name says one number, its lines another."""
    files, written = follow(), plugin()
    written.pid = 8
    dump(written, 1)
    assert files.look([7]) == []
    assert files.dropped() == {"collectives of another process than the file's": 1}


def test_what_is_no_regular_file_is_refused(tmp_path: Path, follow: Follow) -> None:
    """A link may lead anywhere, a pipe or a folder has no end; none of them holds us up."""
    files = follow()
    (tmp_path / "secret").write_text("{}\n")
    (tmp_path / "n1-pid7.log").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "n1-pid8.log")
    (tmp_path / "n1-pid9.log").mkdir()
    assert files.look([7, 8, 9]) == []
    assert {name: files.refused[name] for name in ("n1-pid7.log", "n1-pid8.log")} == {
        "n1-pid7.log": "a link",
        "n1-pid8.log": "no regular file",
    }
    assert "n1-pid9.log" in files.refused


def test_a_file_of_another_user_is_refused(follow: Follow, monkeypatch: pytest.MonkeyPatch, plugin: Write) -> None:
    """In a folder where anybody may write."""
    files = follow(ours=False)
    dump(plugin(), 1)
    monkeypatch.setattr(nccl_files.os, "geteuid", lambda: os.getuid() + 1)
    assert files.look([7]) == []
    assert files.refused == {"n1-pid7.log": "another user's"}


def test_a_file_that_is_cut_begins_again(follow: Follow, plugin: Write) -> None:
    """As it does when a process of the same number opens it."""
    files, written = follow(ours=False), plugin()
    dump(written, 1, 2)
    assert seqs(files.look([7])) == [1, 2]
    written.close()
    dump(plugin(), 3)
    assert seqs(files.look([7])) == [3]


def test_a_file_cut_under_its_writer_goes_on(follow: Follow, plugin: Write) -> None:
    """The plugin goes on where it was, and what is before that reads as zeros."""
    files, written = follow(ours=False), plugin()
    dump(written, 1)
    files.look([7])
    os.truncate(written.path, 0)
    files.look([7])
    dump(written, 2)
    assert seqs(files.look([7])) == [2]
    assert files.dropped() == {}


def test_a_file_that_is_replaced_is_read_to_its_end_first(tmp_path: Path, follow: Follow, plugin: Write) -> None:
    """A rotation renames it; the process goes on to write into the old one until it opens a new one."""
    files, written = follow(), plugin()
    dump(written, 1)
    files.look([7])
    written.path.rename(tmp_path / "n1-pid7.log.1")
    dump(written, 2)
    again = plugin()
    dump(again, 3)
    assert seqs(everything(files, 7)) == [2, 3]


def test_a_huge_line_is_passed_over(follow: Follow, plugin: Write) -> None:
    """It is not kept, and what follows it is read."""
    files, written = follow(), plugin(version="v4.2")
    written.write('{"coll":"' + "x" * (5 * LONGEST_LINE))
    written.write("x" * (5 * LONGEST_LINE) + '"}\n')
    dump(written, 1)
    assert seqs(everything(files, 7)) == [1]
    assert files.dropped() == {"lines longer than any of NCCL Inspector's": 1}


@pytest.mark.long
def test_garbage_is_counted_and_costs_no_more_than_a_look(follow: Follow, plugin: Write) -> None:
    """Short lines without end are taken so many at a time."""
    files, written = follow(), plugin(version="v4.2")
    lines = LOOK_LINES + 100
    written.write("x\n" * lines)
    dump(written, 1)
    assert files.look([7]) == []
    assert sum(files.dropped().values()) == LOOK_LINES
    assert seqs(everything(files, 7)) == [1]
    assert sum(files.dropped().values()) == lines


@pytest.mark.long
def test_one_process_that_writes_much_leaves_the_others_their_turn(follow: Follow, plugin: Write) -> None:
    """No look takes more than its share, and they take turns in being first."""
    files = follow()
    line = " " * 100_000 + "\n"
    for pid in range(10):
        busy = plugin(pid=pid)
        busy.write(line * (3 * CHUNK_BYTES // len(line)))
    quiet = plugin(pid=99)
    dump(quiet, 1)
    looks = 0
    while not (found := files.look([*range(10), 99])):
        looks += 1
        assert looks <= 11 * CHUNK_BYTES // LOOK_BYTES + 11
    assert seqs(found) == [1]


def test_of_too_much_the_last_is_read(follow: Follow, monkeypatch: pytest.MonkeyPatch, plugin: Write) -> None:
    """What is passed over is counted, a cut line is not taken for one, nor one whose owner was passed over."""
    monkeypatch.setattr(nccl_files, "MOST_BEHIND_BYTES", 4 * CHUNK_BYTES)
    files, written = follow(), plugin()
    dump(written, 1)
    written.write("y" * (5 * CHUNK_BYTES))
    written.write(("\n" + " " * 1000) * 512 + "\n")
    dump(written, 2)
    assert seqs(everything(files, 7)) == [2]
    assert files.bytes_skipped > 4 * CHUNK_BYTES
    assert files.dropped() == {}


@pytest.mark.long
def test_what_was_read_is_given_back_to_the_disk(follow: Follow, plugin: Write) -> None:
    """In a folder of our own: a run of a week would fill it. Whoever follows after us tells nothing of it again."""
    files, written = follow(), plugin()
    for first in range(0, 6000, 100):
        dump(written, *range(first, first + 100))
    assert seqs(everything(files, 7)) == list(range(6000))
    size = written.path.stat().st_size
    assert size > 3 * CHUNK_BYTES
    if not files.keeps_read:  # A file system of the few that cannot.
        assert written.path.stat().st_blocks * 512 < CHUNK_BYTES + (64 << 10)
        dump(written, 6000)
        assert written.path.stat().st_size > size
        assert seqs(everything(follow(), 7))[-1] == 6000
        assert len(everything(follow(), 7)) < 3000
    assert seqs(everything(files, 7)) == ([] if files.keeps_read else [6000])


@pytest.mark.long
def test_a_folder_of_the_users_is_left_as_it_is(follow: Follow, plugin: Write) -> None:
    """Read, and nothing else; what was in its files before is of another run, and told by nobody here."""
    before = plugin()
    dump(before, *range(3000))
    held = before.path.read_bytes()
    files = follow(ours=False)
    assert everything(files, 7) == []
    dump(before, 3000)
    assert seqs(everything(files, 7)) == [3000]
    assert before.path.read_bytes()[: len(held)] == held
    before.close()
    dump(plugin(pid=8), 1)
    assert seqs(everything(files, 8)) == [1]


@pytest.mark.long
def test_so_many_files_are_followed_and_no_more(follow: Follow, plugin: Write) -> None:
    """Those of the processes that came last; the others are let go."""
    files = follow()
    pids = list(range(1, MOST_FILES + 11))
    for pid in pids:
        dump(plugin(pid=pid), pid)
    opened = len(os.listdir("/proc/self/fd"))
    assert sorted(seqs(everything(files, *pids))) == pids[10:]
    assert len(os.listdir("/proc/self/fd")) - opened == MOST_FILES
    assert sorted(seqs(everything(files, *pids[:10]))) == pids[:10]
    assert len(os.listdir("/proc/self/fd")) - opened == 10


def test_a_folder_that_is_not_there_is_waited_for(tmp_path: Path, plugin: Write) -> None:
    """The plugin makes it."""
    files = NcclFiles(tmp_path / "later", "n1", ours=False)
    assert files.look([7]) == []
    (tmp_path / "later").mkdir()
    dump(plugin(folder=tmp_path / "later"), 1)
    assert seqs(files.look([7])) == [1]
    files.close()
