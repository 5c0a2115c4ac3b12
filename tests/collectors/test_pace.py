"""How often a collector samples: wishes hold for a while, the shortest wins, and what changes is seen."""

import itertools
import random
import threading
from typing import Any

import pytest

from collectors.actions import actions
from collectors.change import Change
from collectors.pace import MOST_LEASES, Pace, TooManyError
from collectors.sampler import Sampler
from paceline.command_rules import RefusedError
from paceline.events import Sample
from tests.patience import PATIENCE_S


def ask(pace: Pace, lease: str = "a", interval_s: float = 0.2, seconds: float = 60.0, **more: Any) -> None:
    pace.ask(lease, interval_s, seconds, adaptive=more.get("adaptive", False), now_s=more.get("now_s", 0.0))


def test_a_wish_never_makes_sampling_slower() -> None:
    pace = Pace(1.0)
    ask(pace, interval_s=30.0)
    assert pace.interval_s(1.0) == 1.0


def test_a_wish_is_renewed_and_ended_by_its_name() -> None:
    pace = Pace(1.0)
    ask(pace, seconds=10.0)
    ask(pace, seconds=10.0, now_s=8.0)
    assert pace.interval_s(15.0) == 0.2
    ask(pace, seconds=0.0, now_s=16.0)
    assert pace.interval_s(16.0) == 1.0


def test_there_is_a_limit_that_ends_with_the_wishes() -> None:
    pace = Pace(1.0)
    for number in range(MOST_LEASES):
        ask(pace, str(number), seconds=10.0)
    with pytest.raises(TooManyError):
        ask(pace, "one more")
    ask(pace, "0", seconds=20.0)
    ask(pace, "one more", now_s=11.0)


def test_an_adaptive_wish_waits_for_a_change() -> None:
    pace, noise = Pace(1.0), random.Random(7)
    ask(pace, adaptive=True, seconds=3600.0)
    for second in range(60):
        pace.observe("gpu", 0.5 + noise.gauss(0, 0.01), float(second))
        assert pace.interval_s(float(second)) == 1.0
    pace.observe("gpu", 0.9, 60.0)
    assert pace.interval_s(60.0) == 0.2
    for second in range(61, 120):
        pace.observe("gpu", 0.9 + noise.gauss(0, 0.01), float(second))
    assert pace.interval_s(120.0) == 1.0


def test_what_is_not_measured_is_no_change() -> None:
    pace = Pace(1.0)
    ask(pace, adaptive=True)
    for value in (None, float("nan"), float("inf"), None, 0.0, 0.0):
        pace.observe("gpu", value, 1.0)
    assert pace.interval_s(1.0) == 1.0


def test_noise_alone_is_hardly_ever_a_change() -> None:
    noise, change = random.Random(1), Change()
    fired = sum(change.update(100.0 + noise.gauss(0, 5.0)) for _ in range(3600))
    assert fired <= 36


def test_the_answer_says_what_holds_now() -> None:
    pace = Pace(1.0)
    action = actions(pace, lambda: 0.0, floor_s=5.0)["sample"]
    said = action.obey("node:n", Sample(lease="a", interval_s=0.2, seconds=60.0))
    assert "every 0.2 s" in said
    assert "GPUs every 5 s" in said
    for number in range(MOST_LEASES - 1):
        ask(pace, str(number))
    with pytest.raises(RefusedError):
        action.obey("node:n", Sample(lease="late", interval_s=0.2, seconds=60.0))


def test_a_sampler_that_is_told_another_interval_follows_at_once() -> None:
    """From hours to milliseconds, with no sample in the middle of the old interval lost."""
    seen = threading.Semaphore(0)
    sampler = Sampler("test", 3600.0, seen.release)
    sampler.start()
    assert seen.acquire(timeout=PATIENCE_S)
    sampler.change(0.01)
    for _ in range(5):
        assert seen.acquire(timeout=PATIENCE_S)
    sampler.change(3600.0)
    assert sampler.stop(PATIENCE_S)


@pytest.mark.parametrize("lost_s", [0.01, 5.0, 4000.0])
def test_a_sampler_on_a_busy_machine_begins_at_once(lost_s: float) -> None:
    """Its thread may lose any time between two looks at the clock: the first sample is not missed for that."""
    seen, lost = threading.Semaphore(0), itertools.count()
    sampler = Sampler("test", 3600.0, seen.release, clock=lambda: next(lost) * lost_s)
    sampler.start()
    assert seen.acquire(timeout=PATIENCE_S)
    sampler.change(7200.0)
    assert sampler.stop(PATIENCE_S)
