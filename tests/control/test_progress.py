"""Who is silent while a session is recorded: marked after 30 s, with the time, in state and manifest."""

import itertools
from collections.abc import Callable

import msgspec
import pytest

from control.recorder.progress import Progress
from control.sessions.clients import Clients
from control.sessions.folder import SessionFolder
from control.sessions.manifest import read_definition, read_manifest
from paceline import wire
from paceline.topics import HOST
from tests.control.conftest import host_samples

T0 = 1_000.0


@pytest.fixture
def progress(begun: Callable[..., SessionFolder]) -> Callable[..., Progress]:
    """How far the session of these nodes, or of everything, has come; again: after its recorder was killed."""
    folders: dict[tuple[str, ...], SessionFolder] = {}

    def progress(*nodes: str) -> Progress:
        folder = folders.get(nodes) or folders.setdefault(nodes, begun("-".join(nodes) or "all", nodes=[*nodes]))
        return Progress(read_definition(folder.definition), read_manifest(folder.manifest))

    return progress


class Heard:
    """Says something of a node, with the numbers of one collector."""

    def __init__(self, progress: Progress) -> None:
        self._progress, self._number = progress, 0

    def __call__(self, node: str, now_s: float) -> None:
        value = wire.encode(host_samples(node, f"collect-{node}", self._number))
        self._progress.came(HOST, node, value, (HOST.name, 0), self._number, now_s)
        self._number += 1


def silent(progress: Progress, now_s: float) -> list[str]:
    progress.tick(now_s)
    return list(progress.manifest("recording", "", now_s, 0, None).state.silent)


def silences(progress: Progress) -> list[tuple[str, float, float | None]]:
    told = progress.manifest("stopped", "", 0.0, 0, None).silences
    return [(one.client, one.from_s, one.to_s) for one in told]


def test_who_says_nothing_for_half_a_minute_is_silent_until_it_speaks(progress: Callable[..., Progress]) -> None:
    one = progress()
    heard = Heard(one)
    heard("n1", T0)
    heard("n2", T0)
    heard("n1", T0 + 20.0)
    assert silent(one, T0 + 29.9) == []
    assert silent(one, T0 + 30.0) == ["n2"]
    heard("n2", T0 + 45.0)
    assert silent(one, T0 + 46.0) == []
    assert silences(one) == [("n2", T0, T0 + 45.0)]


def test_who_was_named_and_never_speaks_is_silent_from_the_start(progress: Callable[..., Progress]) -> None:
    """A name with a slip in it is found by that."""
    one = progress("n1", "n2")
    assert silent(one, T0) == []
    Heard(one)("n1", T0 + 10.0)
    assert silent(one, T0 + 31.0) == ["n2"]
    assert silences(one) == [("n2", T0, None)]


def test_a_node_that_stopped_while_no_recorder_ran_is_silent(
    begun: Callable[..., SessionFolder], progress: Callable[..., Progress]
) -> None:
    """It is awaited from the first tick of the next recorder on; one that was silent before stays so from then."""
    one = progress()
    before = Heard(one)
    before("n0", T0 - 40.0)
    before("n1", T0)
    before("n2", T0)
    one.tick(T0)
    folder = begun("again")
    folder.replace(folder.manifest, msgspec.json.encode(one.manifest("recording", "", T0, 0, None)))
    again = Progress(read_definition(folder.definition), read_manifest(folder.manifest))
    assert silent(again, T0 + 100.0) == ["n0"]
    Heard(again)("n1", T0 + 110.0)
    assert silent(again, T0 + 131.0) == ["n0", "n2"]
    assert silences(again) == [("n0", T0 - 40.0, None), ("n2", T0 + 100.0, None)]


def test_nodes_that_are_awaited_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their names come from outside."""
    monkeypatch.setattr("control.sessions.clients.MOST_CLIENTS", 2)
    clients = Clients()
    for node in ("n1", "n2", "n3"):
        clients.awaited(node, T0)
    clients.tick(T0 + 30.0)
    assert clients.silent == ["n1", "n2"]


def test_brokers_that_are_away_make_nobody_silent(progress: Callable[..., Progress]) -> None:
    """Nobody could have been heard."""
    one = progress("n1")
    Heard(one)("n1", T0)
    assert silent(one, T0 + 5.0) == []
    one.deaf(600.0)
    assert silent(one, T0 + 620.0) == []
    assert silent(one, T0 + 631.0) == ["n1"]


def test_a_clock_that_goes_back_makes_nobody_silent(progress: Callable[..., Progress]) -> None:
    one = progress()
    heard = Heard(one)
    heard("n1", T0)
    assert silent(one, T0 - 3_600.0) == []
    heard("n1", T0 - 3_600.0)
    assert silent(one, T0 - 3_590.0) == []


def test_numbers_that_are_made_up_leave_a_manifest_that_can_be_read(
    begun: Callable[..., SessionFolder], progress: Callable[..., Progress]
) -> None:
    """Two producers lack more messages than a manifest may tell of."""
    one = progress()
    for offset, (name, sequence) in enumerate(itertools.product(("a", "b"), (0, 2**53))):
        value = wire.encode(host_samples("n1", name, sequence))
        one.came(HOST, "n1", value, (HOST.name, 0), offset, T0)
    folder = begun("written")
    folder.replace(folder.manifest, msgspec.json.encode(one.manifest("recording", "", T0, 0, None)))
    assert read_manifest(folder.manifest).state.missing == 2**53
