"""Hello: a rank says who it is, and says so again once it knows more of itself."""

import os
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from paceline.settings import TOTAL_STEPS
from paceline.sidecar.rank_messages import decode, encode_settled
from paceline.training import marks, shipping
from paceline.training.attempt_note import Word
from paceline.training.messages import (
    MOST_HELLOS,
    SOCKET_VARIABLE,
    Hello,
    Marks,
    Place,
    RankMessage,
    Settled,
)
from paceline.training.probe import Probe
from paceline.training.session import Session
from paceline.training.shipping import MOST_REFUSED
from tests.paceline.training.fake_cuda import FakeCuda
from tests.patience import PATIENCE_S


class Rank:
    """A rank whose device is a fake one, and the sidecar's end of its connection."""

    def __init__(self, path: Path, distributed: Any = None) -> None:
        self.cuda, self.probe = FakeCuda(), Probe()
        distributed = distributed or SimpleNamespace(is_available=lambda: False)
        torch = SimpleNamespace(cuda=self.cuda, distributed=distributed, __version__="2.15")
        self.session = Session(self.probe, torch)
        self.session._exit_registered = True
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(str(path))
        self._listener.listen(1)
        self._listener.settimeout(PATIENCE_S)
        self.session.begin()
        self.accept()

    def accept(self) -> None:
        self.connection, _ = self._listener.accept()
        self.connection.settimeout(PATIENCE_S)

    def next(self) -> RankMessage:
        shipped = self.session._shipping
        if shipped is not None:
            shipped.wake()
        return decode(self.connection.recv(1 << 20))

    def hello(self) -> Hello:
        """The next one."""
        while not isinstance(message := self.next(), Hello):
            pass
        return message

    def turns(self, count: int) -> list[RankMessage]:
        """What comes in so many more turns, of which each sends marks."""
        found: list[RankMessage] = []
        while sum(isinstance(message, Marks) for message in found) < count:
            found.append(self.next())
        return found

    def find_device(self) -> None:
        """The first backward, which shows where the model is."""
        self.cuda.call()
        self.probe.device = SimpleNamespace(type="cuda", index=0)
        self.probe.device_found()

    def close(self) -> None:
        self.session.end()
        self.connection.close()
        self._listener.close()


def joined(rank: int, **more: Any) -> Any:
    """``torch.distributed`` in a process that is ``rank`` of four."""
    said = {"is_initialized": True, "get_rank": rank, "get_world_size": 4, "get_backend": "nccl", "is_available": True}
    return SimpleNamespace(**{name: lambda value=v: value for name, v in said.items()}, **more)


@pytest.fixture
def new_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Rank]]:
    """Makes a rank; it waits no longer than the first turn for its device."""
    monkeypatch.setattr(shipping, "HELLO_AFTER_S", 0.0)
    monkeypatch.setenv(SOCKET_VARIABLE, str(tmp_path / "ranks.sock"))
    made: list[Rank] = []

    def make(distributed: Any = None) -> Rank:
        made.append(Rank(tmp_path / "ranks.sock", distributed))
        return made[0]

    yield make
    for rank in made:
        rank.close()


@pytest.mark.long
def test_a_device_that_is_found_late_is_told(new_rank: Callable[[], Rank]) -> None:
    """Without it the rank would have no conditions of its GPU for the whole run."""
    rank = new_rank()
    first = rank.hello()
    assert first.device == "cpu"
    rank.find_device()
    rank.probe.wrapper = "fsdp"
    second = rank.hello()
    assert second.device.startswith("GPU-")
    assert second == replace(first, device=second.device, framework=second.framework)
    assert not any(isinstance(message, Hello) for message in rank.turns(5))


@pytest.mark.long
def test_nothing_is_asked_of_a_device_while_it_captures(new_rank: Callable[[], Rank]) -> None:
    """It is told once the capture has ended."""
    rank = new_rank()
    rank.hello()
    graph: Any = rank.cuda.CUDAGraph()
    rank.probe.captures.begins(graph)
    rank.find_device()
    assert not any(isinstance(message, Hello) for message in rank.turns(3))
    rank.probe.captures.ended(graph)
    assert rank.hello().device.startswith("GPU-")


@pytest.mark.long
def test_what_changes_all_the_time_is_told_a_few_times(new_rank: Callable[[], Rank]) -> None:
    rank, hellos = new_rank(), []
    for number in range(3 * MOST_HELLOS):
        rank.probe.batch_size = number
        hellos += [message for message in rank.turns(2) if isinstance(message, Hello)]
    assert len(hellos) == MOST_HELLOS


@pytest.mark.long
def test_the_successor_of_a_sidecar_hears_what_is_known_by_then(new_rank: Callable[[], Rank]) -> None:
    """With the place where its marks go on."""
    rank = new_rank()
    rank.hello()
    rank.find_device()
    second = rank.hello()
    place = Place(step=3, start_ns=0, explicit=False, compiled=False, exchanges=False)
    rank.connection.send(encode_settled(Settled(marks=0, place=place)))
    rank.turns(2)
    rank.connection.close()
    rank.session._shipping.wake()  # type: ignore[union-attr]
    rank.accept()
    assert rank.hello() == replace(second, place=place)


@pytest.mark.long
def test_a_rank_whose_words_are_always_refused_comes_no_more(
    new_rank: Callable[[], Rank],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    until: Callable[..., object],
) -> None:
    """It is reported once. A sidecar that took something of it before it ended has refused nothing."""
    monkeypatch.setattr(shipping, "REFUSED_S", PATIENCE_S)
    rank = new_rank()
    place = Place(step=3, start_ns=0, explicit=False, compiled=False, exchanges=False)
    for refused in range(MOST_REFUSED):
        rank.hello()
        if refused == 1:
            rank.connection.send(encode_settled(Settled(marks=0, place=place)))
            rank.turns(2)
        rank.connection.close()
        rank.session._shipping.wake()  # type: ignore[union-attr]
        rank.accept()
    assert not rank.probe.stopped
    for refused in range(2):
        rank.hello()
        rank.connection.close()
        rank.session._shipping.wake()  # type: ignore[union-attr]
        if refused == 0:
            rank.accept()
    until(lambda: rank.probe.stopped)
    assert capsys.readouterr().err.count("hung up 5 times on what this rank sends") == 1


@pytest.mark.long
def test_a_process_that_has_joined_others_since_is_still_the_rank_that_it_said(new_rank: Callable[[], Rank]) -> None:
    """Rank and world are not learned: a sidecar takes a connection for one rank."""
    rank = new_rank()
    first = rank.hello()
    rank.session._torch.distributed = joined(3)
    rank.probe.batch_size = 8
    assert rank.hello() == replace(first, batch_size=8)
    assert os.getpid() == first.pid


@pytest.mark.long
def test_marks_that_a_device_gets_to_at_once_fit_the_socket(new_rank: Callable[[], Rank]) -> None:
    """A host that was seconds ahead has written thousands: they come out in one turn, in messages as ever."""
    rank, heard = new_rank(), []
    rank.hello()
    rank.find_device()
    rank.cuda.default.launch(100.0)
    for _ in range(10 * shipping.MOST):
        rank.probe.mark(marks.FORWARD)
    while len(rank.probe.ring) >= shipping.MOST:  # until they wait for the device, not for the thread that sends them
        rank.session._shipping.wake()
        os.sched_yield()
    rank.cuda.advance(1000.0)
    while sum(len(message.marks) for message in heard) < 10 * shipping.MOST:
        heard += [message for message in rank.turns(1) if isinstance(message, Marks)]
    assert max(len(message.marks) for message in heard) <= shipping.MOST
    assert not rank.probe.stopped


@pytest.mark.long
def test_a_number_of_steps_given_once_the_rank_is_there_is_said_again(
    new_rank: Callable[[], Rank], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script joins its group first and knows its steps later: ``watch(total_steps=…)``; they are said once."""
    rank = new_rank()
    assert "total_steps" not in rank.hello().labels
    monkeypatch.setenv(TOTAL_STEPS.name, "5000")
    assert rank.hello().labels["total_steps"] == "5000"
    assert not [message for message in rank.turns(3) if isinstance(message, Hello)]


class Store:
    """A store whose rank 0 renews its word each time that somebody looks, once it is ``there``."""

    def __init__(self, attempt: int) -> None:
        self.attempt, self.there, self.turns = attempt, threading.Event(), 0

    def check(self, keys: list[str]) -> bool:
        return self.there.is_set()

    def get(self, key: str) -> bytes:
        self.turns += 1
        return Word(self.attempt, "rank-0", self.turns).text().encode()


@pytest.mark.long
def test_the_hello_has_the_attempt_that_the_ranks_agree_on(
    new_rank: Callable[..., Rank], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its agent has counted none; what is marked until the attempt is known comes after the hello."""
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "0")
    store = Store(attempt=5)
    rank = new_rank(joined(3, distributed_c10d=SimpleNamespace(_get_default_store=lambda: store)))
    rank.probe.mark(marks.FORWARD)
    rank.probe.mark(marks.STEP)
    store.there.set()
    first = rank.next()
    assert isinstance(first, Hello)
    assert (first.rank, first.attempt) == (3, 5)
    kinds: list[int] = []
    while marks.STEP not in kinds:
        kinds += [kind for message in rank.turns(1) if isinstance(message, Marks) for _, kind, _ in message.marks]
    assert kinds.index(marks.FORWARD) < kinds.index(marks.STEP)


@pytest.mark.long
def test_a_rank_that_ends_before_it_knows_says_what_it_counts_itself(
    new_rank: Callable[..., Rank], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end waits for nobody's word."""
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "2")
    store = Store(attempt=5)
    rank = new_rank(joined(3, distributed_c10d=SimpleNamespace(_get_default_store=lambda: store)))
    rank.session.end()
    assert rank.hello().attempt == 2
    store.there.set()
    assert rank.session._attempt_number() == 2
