"""The sidecar's door, in this process: whom it takes, what it keeps open for them, and when it waits for no rank."""

import errno
import fcntl
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from paceline.sidecar import rank_socket, server
from paceline.sidecar.batch import Batcher, Origin
from paceline.sidecar.server import FIRST_RANK_S, FULL_REST_S, LAST_RANK_S, Sidecar
from paceline.training.messages import Bye
from paceline.training.socket_path import short_path
from tests.paceline.training import rank


class Listener(socket.socket):
    """A sidecar's listener; without ``room`` there is no descriptor for a rank."""

    room = True
    asked = 0

    def accept(self) -> tuple[socket.socket, Any]:
        self.asked += 1
        if not self.room:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return super().accept()


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[Listener]:
    with Listener(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK) as made:
        with short_path(str(tmp_path / "ranks")) as short:
            made.bind(short)
        made.listen(8)
        yield made


class Clock:
    """The sidecar's."""

    now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s

    def time(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(server, "time", made)
    return made


@pytest.fixture
def sidecar(listener: Listener, clock: Clock) -> Sidecar:
    return Sidecar(listener, Batcher(Origin("c", "n1", "p")), [], until_empty=True)


def turns(sidecar: Sidecar, count: int = 4) -> None:
    for _ in range(count):
        sidecar._turn(0.0)


def test_a_process_that_joins_again_and_again_is_held_once(sidecar: Sidecar, tmp_path: Path) -> None:
    """A search over trials does, below one sidecar: there is a limit to its descriptors."""
    opened = []
    for _ in range(50):
        speaker = rank.Speaker(str(tmp_path / "ranks"))
        speaker.say(rank.hello())
        speaker.say(Bye(ended_s=0.0))
        speaker.close()
        turns(sidecar)
        opened.append(len(os.listdir("/proc/self/fd")))
    assert opened[-1] == opened[0]


def test_a_rank_for_which_there_is_no_descriptor_is_taken_once_there_is(
    sidecar: Sidecar,
    listener: Listener,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    clock: Clock,
) -> None:
    """Until then the sidecar asks seldom, and reports it once."""
    listener.room = False
    speaker = rank.Speaker(str(tmp_path / "ranks"))
    speaker.say(rank.hello())
    turns(sidecar, 20)
    assert listener.asked == 1
    clock.now_s += FULL_REST_S
    turns(sidecar, 20)
    assert listener.asked == 2
    assert capsys.readouterr().err.count("Too many open files") == 1
    listener.room = True
    clock.now_s += FULL_REST_S
    turns(sidecar)
    assert [known.rank for known in sidecar._ranks.values()] == [0]
    speaker.close()


@pytest.fixture
def starter(sidecar: Sidecar) -> Iterator[Callable[[], None]]:
    """Ends whoever has started the sidecar."""
    followed, held = os.pipe()
    sidecar.follow_starter(followed)
    ends = [held]

    def end() -> None:
        os.close(ends.pop())

    yield end
    os.close(followed)
    for fd in ends:
        os.close(fd)


def test_a_sidecar_waits_for_no_first_rank_once_its_starter_has_gone(
    sidecar: Sidecar, starter: Callable[[], None], clock: Clock
) -> None:
    """A script that fails before its first step; whoever reads what it prints would wait as long."""
    clock.now_s += FIRST_RANK_S / 2
    turns(sidecar)
    assert not sidecar._deserted()
    starter()
    turns(sidecar)
    clock.now_s += 2 * LAST_RANK_S
    assert sidecar._deserted()


def test_a_sidecar_stays_with_the_ranks_of_a_starter_that_has_gone(
    sidecar: Sidecar, starter: Callable[[], None], tmp_path: Path, clock: Clock
) -> None:
    """It may have started them, and gone."""
    speaker = rank.Speaker(str(tmp_path / "ranks"))
    speaker.say(rank.hello())
    turns(sidecar)
    starter()
    turns(sidecar)
    clock.now_s += 2 * FIRST_RANK_S
    assert not sidecar._deserted()
    speaker.close()
    turns(sidecar)
    clock.now_s += 2 * LAST_RANK_S
    assert sidecar._deserted()


def test_a_lock_that_was_removed_meanwhile_is_taken_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sidecar before removes it when it ends: who had opened it by then would hold nothing."""
    path, lock = tmp_path / "ranks.lock", fcntl.flock
    removed: list[Path] = []

    def late(fd: int, operation: int) -> None:
        if not removed:
            removed.append(path)
            path.unlink()
        lock(fd, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    assert rank_socket._locked(path)
    assert not rank_socket._locked(path)
