"""A session whose brokers are gone, and a control that runs on others: it is not gone on with there."""

import threading
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from control.recorder import recording
from control.recorder.recording import OTHER_BROKERS, Recording
from control.sessions.folder import SessionFolder, StopRequest
from control.sessions.manifest import Manifest, read_manifest
from control.sessions.store import SessionStore
from paceline.events import SessionState
from paceline.kafka.follow import Jump
from paceline.kafka.settings import BrokerSettings
from paceline.topics import HOST

Record = Callable[..., Manifest]


class Brokers:
    """In place of a follower: of the cluster that comes next in ``clusters`` at each poll, then stopped."""

    state, cause = "connected", ""

    def __init__(self, clusters: list[str], stop: threading.Event, **options: Any) -> None:
        self._clusters, self._stop, self._options = clusters, stop, options
        self.cluster = ""

    def __enter__(self) -> "Brokers":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def poll(self) -> list[Any]:
        self.cluster = self._clusters.pop(0)
        if self._options["places"]:
            self._options["on_jump"](Jump(HOST, 0, 7, 0, 3))
        if not self._clusters:
            self._stop.set()
        return []

    def places(self) -> dict[tuple[str, int], int]:
        return {(HOST.name, 0): 7}

    def topic_ids(self) -> dict[str, str]:
        return {}

    def ends(self) -> dict[tuple[str, int], int]:
        return {(HOST.name, 0): 9}


@pytest.fixture
def record(begun: Callable[..., SessionFolder], monkeypatch: pytest.MonkeyPatch) -> Record:
    """Record the one session from these clusters, one a poll; what the manifest says then."""
    folder = begun()

    def recorded(*clusters: str, finish: bool = False) -> Manifest:
        stop, told = threading.Event(), list[SessionState]()
        monkeypatch.setattr(recording, "Follower", lambda *_, **options: _brokers([*clusters], stop, options))
        Recording(folder, BrokerSettings(), told.append, stop, finish=finish, free_bytes=lambda: 2**40).run()
        return read_manifest(folder.manifest)

    return recorded


def _brokers(clusters: list[str], stop: threading.Event, options: dict[str, Any]) -> Brokers:
    return Brokers(clusters, stop, **{name: options[name] for name in ("places", "on_jump")})


def test_on_other_brokers_it_is_interrupted_and_says_what_to_type(record: Record) -> None:
    """Nothing of theirs is in it, and no place of its own brokers is lost."""
    before = record("old")
    assert (before.kafka, before.places[0].offset) == ("old", 7)
    after = record("new", "new")
    assert (after.state.state, after.kafka, after.gaps, after.places) == ("interrupted", "old", [], before.places)
    assert after.state.reason.startswith(OTHER_BROKERS)
    assert "`paceline session recover s` ends it with what is on disk" in after.state.reason


def test_on_its_own_brokers_it_goes_on_even_after_others(record: Record) -> None:
    record("old")
    record("new", "new")
    again = record("old", "old")
    assert "was stopped" in again.state.reason
    assert len(again.gaps) == 2, "each poll of these brokers has a jump, and they are its own"


def test_recovered_on_other_brokers_it_ends_with_what_is_on_disk(record: Record) -> None:
    record("old")
    ended = record("new", "new", finish=True)
    assert (ended.state.state, ended.gaps) == ("stopped", [])
    assert "it holds what was on disk" in ended.state.reason


@pytest.mark.parametrize("clusters", [("", ""), ("old", ""), ("", "old"), ("", "", "old")])
def test_brokers_that_do_not_tell_which_they_are_are_gone_on_with(record: Record, clusters: tuple[str, ...]) -> None:
    """No id is no other id; one that is known stays known."""
    for cluster in clusters:
        assert "was stopped" in record(cluster, cluster).state.reason
    assert record("").kafka == ("old" if "old" in clusters else "")


def test_brokers_that_change_while_it_records_end_it(record: Record) -> None:
    """A recorder outlives the `paceline up` that was killed, and finds the next one at the same address."""
    told = record("old", "new", "new")
    assert (told.kafka, told.state.state, told.gaps) == ("old", "interrupted", [])
    assert told.state.reason.startswith(OTHER_BROKERS)


def test_brokers_that_change_while_the_rest_is_read_end_it(record: Record, store: SessionStore) -> None:
    record("old")
    store.folder("s").ask_to_stop(StopRequest())
    told = record("old", "new", "new")
    assert (told.state.state, told.state.reason.startswith(OTHER_BROKERS)) == ("interrupted", True)


def test_a_manifest_of_an_earlier_version_knows_no_cluster(record: Record) -> None:
    content = msgspec.to_builtins(record("old"))
    del content["kafka"]
    assert msgspec.convert(content, Manifest).kafka == ""
