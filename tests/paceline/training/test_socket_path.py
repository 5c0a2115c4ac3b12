"""A socket at a path of any length: what its address has no room for is reached through the folder."""

import errno
import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from paceline.commands import own_folder as own_folder_module
from paceline.commands.own_folder import own_folder
from paceline.sidecar.rank_socket import listen
from paceline.tracking.rank_socket import listen as listen_for_rank
from paceline.training.socket_path import MOST, short_path


def of_length(folder: Path, length: int) -> Path:
    """A path below ``folder`` of so many bytes, in a folder that is there."""
    names, left = [], length - len(os.fsencode(folder)) - len("/x")
    while left > 0:
        names.append("d" * min(left - 1, 200))
        left -= len(names[-1]) + 1
    path = folder.joinpath(*names) / "x"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="p") as name:
        yield Path(name)


@pytest.mark.parametrize("length", [MOST - 1, MOST, MOST + 1, 200, 1000])
@pytest.mark.parametrize("where", [listen, listen_for_rank])
def test_ranks_reach_a_socket_whatever_its_length(folder: Path, length: int, where: object) -> None:
    """Sidecar and tracking process listen, a rank connects, and no descriptor is left."""
    path = of_length(folder, length)
    assert len(os.fsencode(path)) == length
    listener = where(path)  # type: ignore[operator]
    before = os.listdir("/proc/self/fd")
    with listener, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as rank:
        with short_path(str(path)) as short:
            assert (short == str(path)) == (length <= MOST)
            rank.connect(short)
        rank.send(b"hello")
        listener.setblocking(True)
        with listener.accept()[0] as accepted:
            assert accepted.recv(10) == b"hello"
    assert len(os.listdir("/proc/self/fd")) <= len(before)


def test_where_nothing_helps_the_length_is_named(folder: Path) -> None:
    """No /proc is mounted."""
    path = of_length(folder, 200)
    with (
        pytest.raises(OSError, match=f"has 200 bytes, and a socket takes {MOST}: set TMPDIR") as refused,
        short_path(str(path), str(folder / "none")),
    ):
        pytest.fail("there is no such name")
    assert refused.value.errno == errno.ENAMETOOLONG


def test_a_folder_that_has_gone_is_an_absent_sidecar(folder: Path) -> None:
    """As it is with a short path: the rank looks again."""
    with pytest.raises(FileNotFoundError), short_path(str(folder / ("d" * 200) / "x")):
        pytest.fail("there is no such folder")


def test_a_folder_of_ours_is_where_one_can_be(folder: Path) -> None:
    """Whatever TMPDIR says; of ours alone."""
    made = Path(own_folder({"TMPDIR": str(folder)}))
    assert (made.parent, made.stat().st_mode & 0o777) == (folder, 0o700)
    for wrong in (str(folder / "none"), "/dev/null", "/proc", ""):
        elsewhere = Path(own_folder({"TMPDIR": wrong}))
        elsewhere.rmdir()
        assert elsewhere.parent == Path("/tmp")


class NoSocket(socket.socket):
    """Of a file system that takes folders and no sockets; /tmp takes them."""

    number = errno.EPERM

    def bind(self, address: object) -> None:
        if not os.path.realpath(os.path.dirname(str(address))).startswith("/tmp/paceline-"):
            raise OSError(self.number, os.strerror(self.number))
        super().bind(address)  # type: ignore[arg-type]


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP, errno.EINVAL, errno.ENXIO])
@pytest.mark.parametrize("depth", [20, 200])
def test_a_place_that_takes_no_socket_is_none(
    folder: Path, monkeypatch: pytest.MonkeyPatch, number: int, depth: int
) -> None:
    """FAT, some network and FUSE file systems: the next place, and nothing is left in the first."""
    place = of_length(folder, len(os.fsencode(folder)) + depth).parent
    monkeypatch.setattr(NoSocket, "number", number)
    monkeypatch.setattr(own_folder_module.socket, "socket", NoSocket)
    made = Path(own_folder({"TMPDIR": str(place)}))
    assert (made.parent, list(made.iterdir()), list(place.iterdir())) == (Path("/tmp"), [], [])
    made.rmdir()


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_place_that_takes_no_lock_is_none(folder: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Lustre without `-o flock`, NFS without its lock daemon."""

    def flock(lock: int, _: int) -> None:
        if os.readlink(f"/proc/self/fd/{lock}").startswith(str(folder)):
            raise OSError(number, os.strerror(number))

    monkeypatch.setattr(own_folder_module.fcntl, "flock", flock)
    made = Path(own_folder({"TMPDIR": str(folder)}))
    assert (made.parent, list(folder.iterdir())) == (Path("/tmp"), [])
    made.rmdir()


def test_a_long_place_without_a_short_name_is_none(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no /proc is mounted, a shorter place is taken."""
    place = of_length(folder, 200).parent
    monkeypatch.setattr(own_folder_module, "short_path", lambda path: short_path(path, "/none"))
    made = Path(own_folder({"TMPDIR": str(place)}))
    assert (made.parent, list(place.iterdir())) == (Path("/tmp"), [])
    made.rmdir()


def test_where_no_place_takes_a_folder_the_first_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All are tried."""
    tried: list[str] = []

    def mkdtemp(prefix: str, dir: str) -> str:  # noqa: A002 - tempfile's name
        tried.append(dir)
        raise OSError(errno.EROFS, "Read-only file system", dir)

    monkeypatch.setattr(tempfile, "mkdtemp", mkdtemp)
    with pytest.raises(OSError, match="Read-only") as refused:
        own_folder({"TMPDIR": str(folder), "XDG_RUNTIME_DIR": "/run/user/1"})
    assert tried == [str(folder), "/tmp", "/var/tmp", "/run/user/1", "/dev/shm"]
    assert refused.value.filename == str(folder)
