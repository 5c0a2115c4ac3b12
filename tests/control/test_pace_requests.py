"""Collectors are asked to sample as often as a session wants, for no longer than it lasts."""

from collections.abc import Callable

import pytest

from control.recorder.pace import AT_ONCE, EXPIRES_S, RENEW_S, PaceRequests
from control.recorder.progress import Progress
from control.sessions.manifest import Definition, Manifest
from control.sessions.store import state_of
from paceline.events import Command


@pytest.fixture
def sent() -> list[Command]:
    return []


@pytest.fixture
def wished(define: Callable[..., Definition], sent: list[Command]) -> tuple[PaceRequests, Progress]:
    definition = define(interval_s=0.2)
    progress = Progress(definition, Manifest(state=state_of(definition)))
    return PaceRequests(definition, "a test", lambda topic, command: sent.append(command)), progress


def test_a_node_is_asked_when_it_is_heard_and_again_before_the_wish_expires(
    wished: tuple[PaceRequests, Progress], sent: list[Command]
) -> None:
    requests, progress = wished
    requests.turn(progress, 1000.0)
    assert sent == []
    progress.heard.add(("c", "n1"))
    for second in range(120):
        requests.turn(progress, 1000.0 + second)
    assert [command.target for command in sent] == ["node:n1"] * 2
    assert all(float(str(command.arguments["seconds"])) > RENEW_S for command in sent)


def test_each_node_is_asked_in_its_own_cluster(wished: tuple[PaceRequests, Progress], sent: list[Command]) -> None:
    """A session of everything may hold several, and nodes of one name in two of them."""
    requests, progress = wished
    progress.heard.update({("east", "n1"), ("west", "n1")})
    requests.turn(progress, 1000.0)
    requests.end()
    assert [(command.cluster, command.target) for command in sent[:2]] == [("east", "node:n1"), ("west", "node:n1")]
    assert {command.cluster for command in sent[2:]} == {"east", "west"}


def test_the_wish_ends_with_the_session(wished: tuple[PaceRequests, Progress], sent: list[Command]) -> None:
    requests, progress = wished
    progress.heard.add(("c", "n1"))
    requests.turn(progress, 1000.0)
    requests.end()
    assert [command.arguments["seconds"] for command in sent] == [120.0, 0.0]


def test_a_large_cluster_is_asked_bit_by_bit(wished: tuple[PaceRequests, Progress], sent: list[Command]) -> None:
    requests, progress = wished
    progress.heard.update(("c", f"n{number}") for number in range(3 * AT_ONCE))
    requests.turn(progress, 1000.0)
    assert len(sent) == AT_ONCE
    requests.turn(progress, 1000.5)
    requests.turn(progress, 1001.0)
    assert {command.target for command in sent} == {f"node:n{number}" for number in range(3 * AT_ONCE)}


def test_a_session_without_an_interval_asks_nobody(define: Callable[..., Definition], sent: list[Command]) -> None:
    definition = define()
    progress = Progress(definition, Manifest(state=state_of(definition)))
    progress.heard.add(("c", "n1"))
    PaceRequests(definition, "a test", lambda topic, command: sent.append(command)).turn(progress, 1000.0)
    assert sent == []


def test_a_wall_clock_that_is_set_back_silences_no_wish(define: Callable[..., Definition], sent: list[Command]) -> None:
    """Wishes are renewed by the recorder's own clock, and expire by the one that collectors read."""
    definition = define(interval_s=0.2)
    progress = Progress(definition, Manifest(state=state_of(definition)))
    progress.heard.add(("c", "n1"))
    wall_s = [50_000.0]
    requests = PaceRequests(definition, "a test", lambda topic, command: sent.append(command), lambda: wall_s[0])
    requests.turn(progress, 1000.0)
    wall_s[0] -= 8 * 3600.0
    requests.turn(progress, 1000.0 + RENEW_S)
    assert [command.expires_s for command in sent] == [50_000.0 + EXPIRES_S, 50_000.0 - 8 * 3600.0 + EXPIRES_S]
