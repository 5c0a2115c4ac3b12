"""How long clients may take, by a clock in hand."""

from typing import NamedTuple

import pytest

from paceline.http_limits import Limits, Patience, Phase, weakest

LIMITS = Limits(head_s=10.0, body_s=30.0, body_bytes=1000, reader_s=20.0, reader_bytes=1000)


@pytest.mark.parametrize("every_s", [0.1, 1.0, 9.0])
def test_a_letter_now_and_then_is_no_request(every_s: float) -> None:
    """Only a whole head counts."""
    patience, now_s = Patience(LIMITS, 0.0), 0.0
    while not patience.observe(0, "head", int(now_s / every_s), True, now_s):
        now_s += every_s
    assert 10.0 < now_s <= 10.0 + every_s


def test_a_client_that_asks_again_and_again_is_not_cut() -> None:
    """However it is looked at only between its requests: each is a new one."""
    patience = Patience(LIMITS, 0.0)
    assert not any(patience.observe(turn, "head", 0, True, float(turn)) for turn in range(1000))


def test_a_body_may_take_as_long_as_it_is_large() -> None:
    """A body that comes at 1,000 bytes a second is read, however long; one that drips is not."""
    steady, dripping = Patience(LIMITS, 0.0), Patience(LIMITS, 0.0)
    said = [steady.observe(1, "body", 1000 * second, True, float(second)) for second in range(5000)]
    assert not any(said)
    cut = [second for second in range(100) if dripping.observe(1, "body", second, True, float(second))]
    assert cut[0] == 31


def test_only_the_reader_s_own_time_counts() -> None:
    """An answer that takes us an hour is no fault of the client's."""
    patience = Patience(LIMITS, 0.0)
    assert not any(patience.observe(1, "answer", 0, False, float(second)) for second in range(3600))
    cut = [second for second in range(3600, 3700) if patience.observe(1, "answer", 0, True, float(second))]
    assert cut[0] == 3621


def test_a_reader_that_takes_a_little_is_cut_too() -> None:
    """A tenth of the least rate; a slow but steady one is not."""
    steady, slow = Patience(LIMITS, 0.0), Patience(LIMITS, 0.0)
    assert not any(steady.observe(1, "answer", 1000 * second, True, float(second)) for second in range(5000))
    cut = [second for second in range(100) if slow.observe(1, "answer", 100 * second, True, float(second))]
    assert cut[0] == 23


def test_a_clock_that_stands_still_cuts_nobody() -> None:
    """Or goes back, which a monotonic clock does not."""
    patience = Patience(LIMITS, 100.0)
    assert not any(patience.observe(1, "answer", 0, True, now_s) for now_s in (100.0, 100.0, 50.0, 60.0))


class One(NamedTuple):
    phase: Phase
    since_s: float


def test_who_has_sent_no_request_makes_room() -> None:
    """The one that has had longest; then one whose body is not there; never one that waits for us."""
    head, later, body, answer = One("head", 5.0), One("head", 7.0), One("body", 1.0), One("answer", 0.0)
    assert weakest([answer, body, later, head]) == head
    assert weakest([answer, body]) == body
    assert weakest(iter([answer, body])) == body  # as the servers ask: all but the newcomer
    assert weakest([answer]) is None
