"""A recorder whose brokers do not come back, by a clock in hand."""

import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from control.changes import SessionChanges, Teller
from control.recorder import recording
from control.recorder.away import AWAY_S, SELDOM_S, SYNC_S, Away, next_manifest_s
from control.recorder.recording import BROKERS_AWAY, Recording
from control.sessions.folder import SessionFolder
from control.sessions.manifest import read_manifest
from control.sessions.store import SessionStore
from paceline.kafka.settings import BrokerSettings


class Brokers:
    """In place of a follower: each poll takes ``poll_s``, and the state is that of ``answers`` then."""

    cluster = ""

    def __init__(self, answers: Callable[[float], str], poll_s: float) -> None:
        self._answers, self._poll_s = answers, poll_s
        self.now_s, self.cause, self.polls = 0.0, "connection refused", 0
        #: When each manifest was begun.
        self.manifests_s: list[float] = []

    def __enter__(self) -> "Brokers":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def poll(self) -> list[Any]:
        self.now_s += self._poll_s
        self.polls += 1
        return []

    @property
    def state(self) -> str:
        return self._answers(self.now_s)

    def places(self) -> dict[Any, int]:
        return {}

    def topic_ids(self) -> dict[str, str]:
        return {}


@pytest.fixture
def recorded(begun: Callable[..., SessionFolder], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Brokers]:
    """Records a session to its end, from brokers that answer so, where writing a manifest takes ``writing_s``."""

    def record(
        answers: Callable[[float], str], until_s: float = 1e9, poll_s: float = 30.0, writing_s: float = 0.0
    ) -> Brokers:
        brokers, stop, folder = Brokers(answers, poll_s), threading.Event(), begun()
        replace = folder.replace

        def write(path: Path, content: bytes) -> None:
            assert path == folder.manifest
            brokers.manifests_s.append(brokers.now_s)
            brokers.now_s += writing_s
            replace(path, content)

        monkeypatch.setattr(folder, "replace", write)
        monkeypatch.setattr(recording, "Follower", lambda *_, **__: brokers)

        def clock() -> float:
            if brokers.now_s >= until_s:
                stop.set()
            return brokers.now_s

        one = Recording(folder, BrokerSettings(), lambda state: None, stop, free_bytes=lambda: 2**40, clock=clock)
        one.run()
        return brokers

    return record


@pytest.mark.parametrize("state", ["connecting", "lost"])
def test_brokers_that_never_come_end_it(recorded: Callable[..., Brokers], store: SessionStore, state: str) -> None:
    """After the stated time, with a reason, as what can be gone on with."""
    brokers = recorded(lambda now_s: state)
    assert AWAY_S <= brokers.now_s <= AWAY_S + 60
    told = read_manifest(store.folder("s").manifest).state
    assert (told.state, told.stopped_s) == ("interrupted", None)
    assert told.reason.startswith(f"{BROKERS_AWAY} 10 min (connection refused)")


@pytest.mark.long
def test_brokers_that_come_back_in_time_end_nothing(recorded: Callable[..., Brokers], store: SessionStore) -> None:
    """Again and again half a minute before the end; nor do those that refuse one topic and give the others."""
    recorded(lambda now_s: "connected" if now_s % AWAY_S == 0 else "lost", until_s=5 * AWAY_S)
    assert "was stopped" in read_manifest(store.folder("s").manifest).state.reason


@pytest.mark.long
def test_a_refused_topic_is_no_outage(recorded: Callable[..., Brokers], store: SessionStore) -> None:
    recorded(lambda now_s: "refused", until_s=3 * AWAY_S)
    assert "was stopped" in read_manifest(store.folder("s").manifest).state.reason


def test_control_goes_on_with_it_when_they_answer(recorded: Callable[..., Brokers], store: SessionStore) -> None:
    """And with no session whose recorder ended for another reason."""
    recorded(lambda now_s: "lost")
    started: list[str] = []

    class Launcher:
        def start(self, folder: SessionFolder, *, finish: bool = False) -> None:
            started.append(folder.name)

    teller = Teller(lambda name, state: None, lambda *_: None, lambda: None)
    changes = SessionChanges(store, Launcher(), None, teller)  # type: ignore[arg-type]
    assert changes.go_on("another reason").started == []
    assert changes.go_on(BROKERS_AWAY).started == started == ["s"]


def test_a_manifest_takes_a_twentieth_of_the_time() -> None:
    """One of a hundred thousand producers takes a second, and is not written every five."""
    assert next_manifest_s(0.0) == SYNC_S
    assert next_manifest_s(1.0) == 20.0
    assert next_manifest_s(1e9) == SELDOM_S


@pytest.mark.long
@pytest.mark.parametrize(("writing_s", "every_s"), [(0.0, SYNC_S), (1.0, 20.0), (9.0, SELDOM_S)])
def test_a_recorder_writes_its_next_manifest_the_later_the_longer_it_takes(
    recorded: Callable[..., Brokers], writing_s: float, every_s: float
) -> None:
    """While nothing else is to be told: the first tells that it begins and that it records, the last that it ends."""
    _, *written_s, _ = recorded(lambda _: "connected", until_s=300.0, poll_s=1.0, writing_s=writing_s).manifests_s
    assert {later - before for before, later in pairwise(written_s)} == {every_s}


def test_a_clock_that_stands_still_is_no_outage() -> None:
    away = Away()
    assert [away.update(False, 5.0) for _ in range(3)] == [0.0, 0.0, 0.0]
