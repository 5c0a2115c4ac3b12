"""A round of the publisher: what comes first, when it ends, and that every series has its turn."""

from dataclasses import replace
from typing import Any

import pytest

from forecaster.context import ForecastContext
from forecaster.history import SeriesSubject
from forecaster.memory import Memory
from forecaster.models.registry import Registry
from forecaster.publisher import ROUND_S, ForecastPublisher
from forecaster.series import Array
from paceline.events import JobProfile
from paceline.kafka.settings import BrokerSettings
from paceline.topics import PROFILE
from paceline.wire import decode
from tests.forecaster.one_job import BEGAN_S, described, window


class _Client:
    """A producer that keeps the keys of what it was sent."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    def send(self, topic: str, value: bytes, key: bytes) -> None:
        """Keep the key."""
        assert value
        assert topic
        self.sent.append(key.decode())

    def flush(self, timeout: float) -> None:
        """Nothing waits."""


class _Clock:
    """Every look at it takes some seconds."""

    def __init__(self, each_s: float) -> None:
        self._now_s, self._each_s = 0.0, each_s

    def __call__(self) -> float:
        self._now_s += self._each_s
        return self._now_s


KEYS = (
    "c/cluster/free_gpus",
    "c/job/j/steps_per_s",
    "c/device/n/0/sm_active_ratio",
    "c/device/n/1/utilization_ratio",
    "c/device/n/0/power_w",
    "c/device/n/1/fb_used_bytes",
)


@pytest.fixture
def memory() -> Memory:
    """One that has heard nothing of other tests."""
    return Memory()


def measured(memory: Memory, minutes: int) -> None:
    """All series have so many minutes."""
    for key in KEYS:
        subject = SeriesSubject(key, "", 60.0, "c")
        memory.put(subject, [60.0 * at for at in range(minutes)], [float(at % 5) for at in range(minutes)])


def publisher(memory: Memory, models: Registry, clock: _Clock) -> Any:
    """One that has no thread and never rests."""
    return ForecastPublisher(
        BrokerSettings.from_environ({}, "nowhere:1"), memory, models, share=lambda: 1.0, clock=clock
    )


@pytest.mark.long
def test_the_whole_comes_before_its_parts_and_use_before_the_rest(memory: Memory, models: Registry) -> None:
    """With time for all of them."""
    measured(memory, 30)
    client = _Client()
    assert publisher(memory, models, _Clock(0.0))._round(client)
    assert client.sent == list(KEYS)


@pytest.mark.long
def test_a_round_that_lasts_too_long_ends_and_the_next_goes_on(
    memory: Memory, models: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The most important series that have grown come first again; the others follow where the round ended."""
    monkeypatch.setattr("forecaster.publisher.TOGETHER", 2)
    measured(memory, 30)
    one, client = publisher(memory, models, _Clock(ROUND_S / 6.0)), _Client()
    assert not one._round(client)
    first = list(client.sent)
    assert 0 < len(first) < len(KEYS)
    assert first == list(KEYS[: len(first)])
    client.sent.clear()
    one._round(client)
    assert client.sent[0] == KEYS[len(first)]
    client.sent.clear()
    measured(memory, 31)
    one._round(client)
    assert client.sent[0] == KEYS[0]


@pytest.mark.long
def test_every_series_is_forecast_in_the_end(memory: Memory, models: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of equals the one that was forecast longest ago is next, however short the rounds are."""
    monkeypatch.setattr("forecaster.publisher.TOGETHER", 1)
    one, client = publisher(memory, models, _Clock(ROUND_S / 3.0)), _Client()
    for gpu in range(5):
        subject = SeriesSubject(f"c/device/n/{gpu}/sm_active_ratio", "", 60.0, "c")
        memory.put(subject, [60.0 * at for at in range(30)], [float(at % 5) for at in range(30)])
    for minute in range(30, 40):
        one._round(client)
        for gpu in range(5):
            subject = SeriesSubject(f"c/device/n/{gpu}/sm_active_ratio", "", 60.0, "c")
            memory.put(subject, [60.0 * minute], [1.0])
    counts = [client.sent.count(f"c/device/n/{gpu}/sm_active_ratio") for gpu in range(5)]
    assert max(counts) - min(counts) <= 1
    assert min(counts) > 0


@pytest.mark.long
def test_a_series_that_breaks_its_forecast_costs_none_of_those_beside_it(memory: Memory, models: Registry) -> None:
    """It is counted; the others are published in the same round."""

    def broken(context: ForecastContext) -> Array:
        if context.series.high == 2.0:
            raise RuntimeError("no such thing")
        return models.members["naive"](context)

    measured(memory, 30)
    memory.put(SeriesSubject(KEYS[2], "", 60.0, "c", high=2.0), [60.0 * at for at in range(30)], [1.0] * 30)
    one = publisher(memory, replace(models, members={**models.members, "naive": broken}), _Clock(0.0))
    client = _Client()
    assert one._round(client)
    assert sorted(client.sent) == sorted(set(KEYS) - {KEYS[2]})
    assert memory.counts.failed == 1
    assert memory.counts.published == len(KEYS) - 1


@pytest.mark.parametrize("share", [0.25, 1.0])
def test_a_share_of_a_processor_is_kept(memory: Memory, models: Registry, share: float) -> None:
    """It rests for the other part of the time that it worked."""
    rests: list[float] = []
    one: Any = ForecastPublisher(
        BrokerSettings.from_environ({}, "nowhere:1"), memory, models, share=lambda: share, clock=_Clock(1.0)
    )
    one._stop.wait = rests.append
    one._rest(1.0 - 0.5)
    assert rests == [pytest.approx(0.5 * (1.0 - share) / share)]


def test_the_last_profile_of_a_job_says_that_it_has_ended(memory: Memory, models: Registry) -> None:
    """Once, with no end to come: whoever reads the compacted topic does not wait for it."""
    sent: list[JobProfile] = []

    class Kept(_Client):
        def send(self, topic: str, value: bytes, key: bytes) -> None:
            if topic == PROFILE.name:
                sent.append(decode(PROFILE, value))

    one, client = publisher(memory, models, _Clock(0.0)), Kept()
    memory.update(described(None))
    for second in range(100):
        memory.update(window(second))
    one._round(client)
    memory.update(described(BEGAN_S + 100.0))
    for _ in range(3):
        one._round(client)
    assert [profile.end_s is None for profile in sent] == [False, True]
    assert sent[-1].notes[0].startswith("it ended at")
