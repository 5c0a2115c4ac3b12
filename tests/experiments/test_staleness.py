"""How the benchmark of bounded staleness compares its ways: in steps, for as many samples, and for as much time."""

import pytest

pytest.importorskip("torch")

from experiments.balancing import staleness

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("pytorch")]


def curves(speed: float, least: float) -> list[staleness.Curve]:
    """Two seeds whose loss falls by even steps to ``least``, in 4 s / ``speed``."""
    at_s = [at / speed for at in (1.0, 2.0, 3.0, 4.0)]
    return [staleness.Curve(at_s, [least + 3, least + 2, least + 1, least])] * 2


def test_each_way_is_beside_synchronous_training() -> None:
    """Twice as fast and a tenth worse for as many samples: at the end of the faster it is ahead."""
    told = staleness._compared({"synchronous": curves(1.0, 1.0), "staleness 1": curves(2.0, 1.1)})
    assert told["synchronous"]["speed"] == told["synchronous"]["loss_same_time_over_synchronous"] == [1.0, 0.0]
    found = told["staleness 1"]
    assert (found["speed"], found["loss_same_samples"], found["loss_same_time"]) == ([2.0, 0.0], [1.1, 0.0], [1.1, 0.0])
    assert found["loss_same_time_over_synchronous"] == [round(1.1 / 3, 4), 0.0]


def test_what_is_measured_adds_no_average() -> None:
    """Weights are read where every way averages them anyway, else a long stretch is cut short."""
    stretches = [way.get("staleness", 0) + 1 for way in staleness.WAYS.values()]
    assert [staleness.EVALUATED_EVERY % stretch for stretch in stretches] == [0] * len(stretches)
    assert staleness.STEPS % staleness.EVALUATED_EVERY == 0


@pytest.mark.parametrize(("varies", "straggler", "met"), [(1.3, 1.0, [True] * 3), (1.1, 1.6, [False] * 3)])
def test_what_the_page_says_is_held_to(varies: float, straggler: float, met: list[bool]) -> None:
    speeds = dict(zip(staleness.CONDITIONS, (1.1, varies, straggler), strict=True))
    found = {
        condition: {"staleness 7": {"speed": [speed, 0.0]}, "adaptive": {"speed": [1.5, 0.0]}}
        for condition, speed in speeds.items()
    }
    assert [aim.met for aim in staleness.aims(found)] == met
