"""The link: what a balancer reports goes to the sidecar that understands it, and plans come back; nothing waits."""

import json
import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from paceline.sidecar.rank_messages import decode, encode_hears, encode_proposed, encode_settled
from paceline.training import activation
from paceline.training.balance_link import MOST_PLANS, BalanceLink, connected
from paceline.training.balance_messages import (
    MOST_BYTES,
    BalanceObserved,
    BalancePlan,
    BalanceWord,
    ProposedPlan,
    decode_told,
    encode,
)
from paceline.training.messages import SOCKET_VARIABLE, Hello, Place, Settled
from paceline.training.probe import Probe
from paceline.training.session import Session
from tests.patience import PATIENCE_S

OBSERVED = BalanceObserved(
    version=3, batch=41, shares=[3, 5], ready_s=[0.25, 0.5], source="kafka", mode="adaptive", most=[None, 6]
)
PLAN = BalancePlan(version=3, first_batch=40, shares=[3, 5], reason="rank 0 turned slow", predicted_s=0.5)


@pytest.fixture
def link() -> BalanceLink:
    """A link whose sidecar understands it."""
    made = BalanceLink()
    made.hear(encode_hears())
    return made


def due(link: BalanceLink, now_s: float) -> list[BalanceWord]:
    """What goes out, as the sidecar reads it."""
    return [decode(data) for data in link.due(now_s)]


def test_a_sidecar_of_an_earlier_version_is_told_nothing() -> None:
    """It would take such a message for garbage and hang up."""
    link = BalanceLink()
    link.report(OBSERVED)
    link.adopted(PLAN)
    link.proposed()
    for told in (b"", b"{}", b"[]", b"\xff", b'{"hears":["something"]}', b'{"hears":5}', b"[" * 100_000):
        link.hear(told)
    assert link.due(0.0) == []
    link.hear(encode_hears())
    assert due(link, 1.0) == [BalanceWord(awaits=True), BalanceWord(plan=PLAN), BalanceWord(observed=OBSERVED)]


def test_the_newest_of_a_second_is_told(link: BalanceLink) -> None:
    """And nothing twice."""
    told = []
    for tenth in range(35):
        link.report(replace(OBSERVED, batch=tenth))
        told += [word.observed.batch for word in due(link, tenth / 10) if word.observed]
    assert told == [0, 10, 20, 30]
    assert due(link, 100.0)[0].observed.batch == 34
    assert due(link, 200.0) == []


def test_every_plan_is_told_once_and_of_a_flood_the_newest(link: BalanceLink) -> None:
    """A sidecar that is away for long hears of the last ones."""
    for version in range(3):
        link.adopted(replace(PLAN, version=version))
    assert [word.plan.version for word in due(link, 0.0)] == [0, 1, 2]
    for version in range(1000):
        link.adopted(replace(PLAN, version=version))
    assert [word.plan.version for word in due(link, 0.0)] == list(range(1000 - MOST_PLANS, 1000))


def test_another_sidecar_is_told_again_what_still_holds(link: BalanceLink) -> None:
    """Which plan is followed, and that plans are waited for; once it understands that."""
    link.proposed()
    link.adopted(replace(PLAN, version=1))
    link.adopted(PLAN)
    due(link, 0.0)
    link.connect()
    assert link.due(5.0) == []
    link.hear(encode_hears())
    assert due(link, 5.0) == [BalanceWord(awaits=True), BalanceWord(plan=PLAN)]


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), -float("inf"), -0.5, 2e9, None], ids=str)
def test_what_is_no_time_is_not_measured(link: BalanceLink, odd: "float | None") -> None:
    """JSON knows no NaN, and a message that holds one would cost the connection."""
    link.report(replace(OBSERVED, ready_s=[odd, 0.0]))
    link.adopted(replace(PLAN, predicted_s=odd, measured_s=odd))
    plan, observed = due(link, 0.0)
    assert observed.observed.ready_s == [None, 0.0]
    assert (plan.plan.predicted_s, plan.plan.measured_s) == (None, None)


@pytest.mark.long
def test_eight_thousand_ranks_fit_and_more_than_fit_are_counted(link: BalanceLink) -> None:
    """What is too large for the socket is left out, and the next word goes out."""
    wide = replace(OBSERVED, shares=[65_536] * 8192, ready_s=[123.456789] * 8192, most=[])
    link.report(wide)
    (data,) = link.due(0.0)
    assert len(data) <= MOST_BYTES
    assert decode(data).observed.ready_s[-1] == 123.456789
    link.report(replace(wide, shares=[65_536] * 16_384, ready_s=[123.456789] * 16_384))
    assert (link.due(5.0), link.unsent) == ([], 1)
    link.report(OBSERVED)
    assert due(link, 10.0) == [BalanceWord(observed=OBSERVED)]


def test_the_plan_that_came_last_is_kept(link: BalanceLink) -> None:
    """Also after one of a higher version: whether it may be followed is not decided here."""
    assert link.proposed() is None
    for version, shares in ((2, (4, 4)), (2**53, (3, 5)), (4, (1, 7))):
        link.hear(encode_proposed(ProposedPlan(version, shares, 9)))
    assert link.proposed() == ProposedPlan(4, (1, 7), 9)


def test_a_balancer_that_starts_again_in_the_process_forgets_the_run_before(link: BalanceLink) -> None:
    """What it sends names its own run."""
    link.begin(1)
    link.report(OBSERVED)
    link.adopted(PLAN)
    link.hear(encode_proposed(ProposedPlan(4, (1, 7), 1)))
    assert link.proposed() is not None
    due(link, 0.0)
    link.adopted(PLAN)
    link.begin(2)
    assert due(link, 5.0) == []
    assert link.proposed() is None
    link.adopted(PLAN)
    link.report(OBSERVED)
    assert due(link, 10.0) == [
        BalanceWord(awaits=True, run=2), BalanceWord(plan=PLAN, run=2), BalanceWord(observed=OBSERVED, run=2)
    ]  # fmt: skip


@pytest.mark.parametrize(
    "told",
    [
        {"version": 3}, {"shares": [1]}, {"version": "3", "shares": [1]}, {"version": 3, "shares": []},
        {"version": 3, "shares": [1], "run": -1}, {"version": 3, "shares": [1], "run": 2**60},
        {"version": 3, "shares": [1], "run": "1"},
        {"version": 3, "shares": [1, 0]}, {"version": 3, "shares": [1, -2]}, {"version": 3, "shares": [1.5]},
        {"version": 3, "shares": [True]}, {"version": 0, "shares": [1]}, {"version": 2**60, "shares": [1]},
        {"version": 3, "shares": [2**70]}, {"version": 3, "shares": "11"}, [], None, 7,
    ],
    ids=str,
)  # fmt: skip
def test_what_cannot_be_a_plan_is_passed_over(told: object) -> None:
    """Whatever arrives on the socket, training goes on."""
    assert decode_told(json.dumps({"proposed": told}).encode()) == (False, None)


def test_ranks_tell_by_a_number_that_they_hold_the_same_plan() -> None:
    """Another version or other shares give another, and a double holds it exactly."""
    plans = [ProposedPlan(3, (4, 4)), ProposedPlan(4, (4, 4)), ProposedPlan(3, (4, 4, 1)), ProposedPlan(3, (44,))]
    digests = [plan.digest for plan in plans]
    assert len(set(digests)) == len(plans)
    assert all(float(digest) == digest < 2**48 for digest in digests)
    assert ProposedPlan(3, (4, 4)).digest == digests[0]


def test_half_a_character_in_a_reason_is_no_reason_to_stop() -> None:
    """It becomes a question mark, or stays a whole one."""
    data = encode(BalanceWord(plan=replace(PLAN, reason="caf\udce9 ä")))
    assert data is not None
    assert decode(data).plan.reason


def test_there_is_a_link_where_a_sidecar_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without ``paceline run`` around it there is none; with it, always the same."""
    monkeypatch.setattr(activation._state, "session", None)
    monkeypatch.delenv(SOCKET_VARIABLE, raising=False)
    assert connected() is None
    monkeypatch.setenv(SOCKET_VARIABLE, "/nowhere")
    assert connected() is None
    monkeypatch.setattr(activation._state, "session", SimpleNamespace(balance=BalanceLink()))
    assert connected() is connected() is not None
    monkeypatch.delenv(SOCKET_VARIABLE)
    assert connected() is None


class Rank:
    """A rank that ships, and the sidecar's end of its connection."""

    def __init__(self, path: Path) -> None:
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(str(path))
        self._listener.listen(1)
        self._listener.settimeout(PATIENCE_S)
        torch = SimpleNamespace(distributed=SimpleNamespace(is_available=lambda: False), __version__="2.15")
        self.session = Session(Probe(), torch)
        self.session._exit_registered = True
        self.session.probe.device = SimpleNamespace(type="cpu")
        self.session.begin()
        self.accept()

    def accept(self) -> None:
        self.connection, _ = self._listener.accept()
        self.connection.settimeout(PATIENCE_S)

    def words(self, count: int) -> list[BalanceWord]:
        """The next so many of its balancer."""
        found: list[BalanceWord] = []
        while len(found) < count:
            message = decode(self.connection.recv(1 << 20))
            found += [message] if isinstance(message, BalanceWord) else []
        return found

    def close(self) -> None:
        self.session.end()
        self.connection.close()
        self._listener.close()


@pytest.fixture
def rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rank]:
    monkeypatch.setenv(SOCKET_VARIABLE, str(tmp_path / "ranks"))
    made = Rank(tmp_path / "ranks")
    yield made
    made.close()


@pytest.mark.long
def test_it_goes_and_comes_on_the_connection_that_ships_marks(rank: Rank, until: Callable[..., object]) -> None:
    """Both ways, and beside what is told of marks; a successor of the sidecar hears it again."""
    assert isinstance(decode(rank.connection.recv(1 << 20)), Hello)
    link = rank.session.balance
    link.report(OBSERVED)
    assert link.proposed() is None
    place = Place(step=0, start_ns=0, explicit=True, compiled=False, exchanges=False)
    rank.connection.send(encode_settled(Settled(marks=0, place=place)))
    rank.connection.send(encode_hears())
    assert rank.words(2) == [BalanceWord(awaits=True), BalanceWord(observed=OBSERVED)]
    wide = ProposedPlan(7, (65_536,) * 8192)
    rank.connection.send(encode_proposed(wide))
    until(lambda: link.proposed() == wide)
    link.adopted(PLAN)
    assert rank.words(1) == [BalanceWord(plan=PLAN)]
    rank.connection.close()
    rank.accept()
    rank.connection.send(encode_hears())
    assert rank.words(2) == [BalanceWord(awaits=True), BalanceWord(plan=PLAN)]


@pytest.mark.slow
def test_a_forked_child_says_nothing_of_it(rank: Rank) -> None:
    """A loader worker is no rank: its copy of the link has nobody to ship it."""
    pid = os.fork()
    if pid == 0:
        rank.session.balance.report(OBSERVED)
        os._exit(0 if rank.session._shipping is None else 1)
    assert os.waitpid(pid, 0)[1] == 0
