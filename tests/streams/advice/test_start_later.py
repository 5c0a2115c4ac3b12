"""When a job should start: what a forecast of free GPUs says, an hour and a day ahead, and what becomes of it."""

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec
import pytest

from paceline.events import Backtest, Forecast
from streams.advice.advice import Advice
from streams.advice.config import AdviceConfig

#: 12:00 UTC.
NOW_S = 1_800_014_400.0
LEVELS = [0.1, 0.2, 0.5, 0.8, 0.9]


def scored(loss: float | None, moments: int = 8) -> Backtest:
    """A back-test in which the naive forecast lost 3 GPUs."""
    return Backtest(moments=moments, steps=96, loss=loss, naive_loss=None if loss is None else 3.0)


def forecast(
    sure: Sequence[float], *, free: float | None = 0.0, now_s: float = NOW_S, minutes: int = 15, **changes: object
) -> Forecast:
    """Free GPUs of which ``sure`` are there with 90 %, a number a step of so many minutes."""
    plain = Forecast(
        cluster="c",
        series="c/cluster/free_gpus" if minutes == 1 else "c/cluster/free_gpus_15min",
        unit="GPUs",
        time_s=now_s,
        interval_s=60.0 * minutes,
        model="ensemble",
        levels=LEVELS,
        values=[[one, one + 1.0, one + 2.0, one + 4.0, one + 6.0] for one in sure],
        history=2000,
        backtest=scored(2.0),
        recent_values=[free],
        maximum=64.0,
    )
    return msgspec.structs.replace(plain, **changes)


def evening(steps: int = 96, begins: int = 40, free: float = 16.0) -> list[float]:
    """Nothing is free for ``begins`` quarter hours, then so much for the rest of the day."""
    return [0.0] * begins + [free] * (steps - begins)


def at(quarters: int) -> str:
    return f"{datetime.fromtimestamp(NOW_S + 900 * quarters, UTC):%H:%M} UTC"


@pytest.fixture
def heard(told):
    return told()


def test_gpus_that_come_free_tonight(heard):
    (one,) = heard.tell(forecast(evening()))
    assert (one.action, one.target, one.state, one.severity) == ("start_later", "cluster:c", "new", "info")
    assert one.title == f"Start what waits for GPUs at {at(41)}: 16 are free then"
    assert one.reason.startswith(f"No GPU is free now; from {at(41)} on there are 16 or more with 80% probability")
    assert one.expires_s == NOW_S + 41 * 900
    assert f"@{NOW_S + 41 * 900:.0f} " in one.steps[0]


@pytest.mark.parametrize(
    ("why", "event"),
    [
        ("enough are free", forecast(evening(), free=8.0)),
        ("none come free", forecast([4.0] * 96)),
        ("too soon to wait for", forecast([16.0] + [0.0] * 59, minutes=1)),
        ("not for an hour", forecast([0.0] * 40 + [16.0] * 3 + [0.0] * 53)),
        ("no better than the naive one", forecast(evening(), backtest=scored(3.0))),
        ("no back-test", forecast(evening(), backtest=scored(None))),
        ("too few moments", forecast(evening(), backtest=scored(2.0, moments=2))),
        ("another series", forecast(evening(), series="c/cluster/gpu_busy_ratio")),
        ("a node's", forecast(evening(), series="c/node/n/free_gpus")),
        ("another cluster's", forecast(evening(), series="d/cluster/free_gpus")),
        ("no such level", forecast(evening(), levels=[0.5, 0.6, 0.7, 0.8, 0.9])),
        ("rows that do not fit", forecast(evening(), levels=[0.2, 0.5])),
        ("no steps", forecast([])),
        ("no newest value and no steps", forecast([], recent_values=[])),
        ("next year", forecast([0.0] * 40 + [16.0] * 20, interval_s=1e9)),
        ("no interval", forecast(evening(), interval_s=0.0)),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_nothing_is_said_where(heard, why, event):
    assert heard.tell(event) == []


def test_of_a_small_cluster_all_gpus(heard):
    (one,) = heard.tell(forecast(evening(free=4.0), maximum=4.0))
    assert one.title.endswith(": 4 are free then")


def test_those_that_are_free_already_do_not_count(heard):
    assert heard.tell(forecast(evening(free=9.0), free=3.0)) == []
    (one,) = heard.tell(forecast(evening(free=11.0), free=3.0, now_s=NOW_S + 900))
    assert one.reason.startswith("3 GPUs are free now;")


def test_one_is_one(heard):
    (one,) = heard.tell(forecast(evening(), free=1.0))
    assert one.reason.startswith("1 GPU is free now;")


def test_of_a_cluster_of_one_gpu_that_one(heard):
    (one,) = heard.tell(forecast(evening(free=1.0), maximum=1.0))
    assert one.title.endswith(": 1 is free then")
    assert "on there is 1 or more with 80% probability" in one.reason


def test_without_a_newest_value_the_first_step_counts(heard):
    assert heard.tell(forecast([7.0] * 40 + [20.0] * 56, recent_values=[None])) == []
    (one,) = heard.tell(forecast(evening(), recent_values=[]))
    assert one.evidence[0].value == 2.0


def test_the_threshold_can_be_set(told):
    assert told(Advice(AdviceConfig(free_gpus=32.0))).tell(forecast(evening())) == []
    (one,) = told(Advice(AdviceConfig(free_gpus=2.0))).tell(forecast(evening(free=2.0)))
    assert one.title.endswith(": 2 are free then")


def test_it_is_told_again_once_the_moment_has_moved(heard):
    """A quarter hour later the same moment is nearer, and nothing new; an hour's difference is."""
    heard.tell(forecast(evening(begins=8)))
    assert heard.tell(forecast(evening(begins=7), now_s=NOW_S + 900)) == []
    (later,) = heard.tell(forecast(evening(begins=10), now_s=NOW_S + 1800))
    assert (later.state, later.revision) == ("new", 2)
    assert later.title == f"Start what waits for GPUs at {at(13)}: 16 are free then"
    assert later.expires_s == NOW_S + 13 * 900


def test_the_moment_passes(heard):
    heard.tell(forecast(evening(begins=4)))
    for minute in range(80):
        heard.tell(forecast([0.0] * 60, minutes=1, now_s=NOW_S + 60 * minute))
    assert heard.states() == [("start_later", "new"), ("start_later", "expired")]


def test_another_moment_is_told_soon_after_one_has_passed(heard):
    """That nobody followed it in time says nothing of the next one, as a dismissal would."""
    heard.tell(forecast(evening(begins=4)))
    for minute in range(80):
        heard.tell(forecast([0.0] * 60, minutes=1, now_s=NOW_S + 60 * minute))
    (again,) = heard.tell(forecast(evening(), now_s=NOW_S + 5400))
    assert (again.action, again.state, again.revision) == ("start_later", "new", 1)
    heard.command(again, "dismiss")
    assert heard.tell(forecast(evening(begins=20), now_s=NOW_S + 9000)) == []


def test_the_sooner_of_two_moments_is_told(heard):
    """Within the hour by the minute, tonight by the quarter hour: one suggestion, whose words are of the sooner."""
    heard.tell(forecast(evening()))
    (one,) = heard.tell(forecast([0.0] * 30 + [16.0] * 30, minutes=1))
    assert one.title == "Start what waits for GPUs at 12:31 UTC: 16 are free then"
    assert one.expires_s == NOW_S + 31 * 60
    assert heard.tell(forecast([0.0] * 60, minutes=1, now_s=NOW_S + 60)) == []
    (back,) = heard.tell(forecast(evening(begins=39), now_s=NOW_S + 900))
    assert back.title == f"Start what waits for GPUs at {at(41)}: 16 are free then"
    assert len(heard.last()) == 1


@pytest.mark.parametrize(
    ("why", "event"),
    [
        ("twice as many are free", forecast(evening(), free=16.0)),
        ("all of a small cluster", forecast(evening(free=9.0), free=9.0, maximum=9.0)),
        ("none come free", forecast([0.0] * 96)),
        ("not believed any more", forecast(evening(), backtest=scored(3.0))),
        ("nothing is forecast", forecast([])),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_it_is_withdrawn_where(heard, why, event):
    heard.tell(forecast(evening()))
    (gone,) = heard.tell(msgspec.structs.replace(event, time_s=NOW_S + 900))
    assert gone.state == "withdrawn"


@pytest.mark.parametrize(
    ("why", "event"),
    [
        ("a few are free for a while", forecast(evening(), free=15.0)),
        ("a few less will come free", forecast(evening(free=8.0), free=5.0)),
        ("the hour ahead knows of none", forecast([0.0] * 60, minutes=1)),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_it_stays_where(heard, why, event):
    """What changes from minute to minute is no news."""
    heard.tell(forecast(evening()))
    assert heard.tell(msgspec.structs.replace(event, time_s=NOW_S + 900)) == []
    assert heard.open() == ["start_later"]


def test_what_is_no_forecast_of_free_gpus_withdraws_nothing(heard):
    heard.tell(forecast(evening()))
    for series in ("c/cluster/gpu_busy_ratio", "c/node/n/free_gpus", "c/device/n/GPU-1/power_w"):
        assert heard.tell(forecast([0.0] * 96, series=series, now_s=NOW_S + 900)) == []


@pytest.mark.parametrize("damage", [1e-300, 1e300, -1e300])
def test_absurd_numbers_are_no_error(heard, damage):
    heard.tell(forecast([damage] * 96, free=damage, time_s=95_617_584_000.0))
    heard.tell(forecast(evening(), interval_s=abs(damage) or 1.0, time_s=95_617_584_000.0))
