"""Whether a pipeline is cut anew: where it pays, by more than noise, within the steps that are left."""

import math

import pytest

from paceline.balance.recut import Measurement, Terms, bubble, even, pipeline_step_s, recut, slowness
from paceline.balance.split import SplitError

#: Four layers of which the first is long, on two devices alike: [1, 3] is best, 15 s a step and not 18.
SEEN = Measurement([3.0, 1.0, 1.0, 1.0], [0.0] * 4, [1.0, 1.0], [0.0, 0.0], 18.0)
TERMS = Terms(4, [1000] * 4, steps_left=100, restart_s=30.0, bytes_per_s=1e9)


def test_a_long_layer_gets_a_stage_of_its_own() -> None:
    """It costs the restart and 16 bytes a parameter that moves, and saves 3 s a step."""
    made = recut(SEEN, [2, 2], TERMS)
    assert (made.before, made.best, made.after, made.pays) == ([2, 2], [1, 3], [1, 3], True)
    assert made.step_s == (18.0, 15.0)
    assert made.gain == pytest.approx(0.2)
    assert (made.move.parameters, made.move.break_even_steps) == (1000, pytest.approx(10.0, rel=1e-3))


def test_a_slow_device_is_told_apart_from_long_layers() -> None:
    """The same times, once of the layers and once of the device: it gets fewer layers only where it is slow."""
    slow = Measurement([1.0, 1.0, 1.0, 3.0, 3.0, 3.0], [0.0] * 6, [0.5, 1.5], [0.0] * 2, 45.0)
    terms = TERMS._replace(parameters=[1] * 6, restart_s=0.0)
    assert recut(slow, [3, 3], terms).after in ([4, 2], [5, 1])
    assert recut(slow._replace(references_s=[0.5, 0.5]), [3, 3], terms).after == [4, 2]
    assert max(recut(slow, [3, 3], terms).step_s) == 45.0
    even_layers = recut(slow, [3, 3], terms)
    assert even_layers.step_s[1] < 45.0


def test_it_stays_where_too_few_steps_are_left() -> None:
    assert recut(SEEN, [2, 2], TERMS._replace(steps_left=11)).pays
    made = recut(SEEN, [2, 2], TERMS._replace(steps_left=10))
    assert not made.pays
    assert "it pays after 10 steps, and 10 are left" in made.why


def test_it_stays_where_noise_explains_the_gain() -> None:
    """The gain is 20 %; the long layer's error of half a second makes it unsure by 12 %."""
    made = recut(SEEN._replace(layer_errors_s=[0.5, 0.0, 0.0, 0.0]), [2, 2], TERMS)
    assert (made.after, made.best) == ([2, 2], [1, 3])
    threshold = 0.03 + 2 * made.noise
    assert f"a gain of 20.0% is below the threshold of {threshold:.1%}: 3% plus twice the noise" in made.why


def test_an_unsure_device_counts_where_a_layer_would_move_to_it() -> None:
    """Its error is of no matter to the stage as it is, for that was measured where it stands."""
    seen = Measurement([1.0] * 4, [0.0] * 4, [1.0, 1.0], [0.0, 0.5], 19.0)
    made = recut(seen, [3, 1], TERMS)
    assert made.best == [2, 2]
    assert made.noise == pytest.approx(4 * 0.5 / 19.0)
    assert not made.pays
    assert "twice the noise" in made.why


def test_the_best_cut_stays() -> None:
    made = recut(SEEN, [1, 3], TERMS)
    assert (made.pays, made.why) == (False, "the cut stays: no other is faster")


@pytest.mark.parametrize(
    "wrong",
    [
        {"layers_s": [math.nan, 1.0, 1.0, 1.0]},
        {"layers_s": [-1.0, 1.0, 1.0, 1.0]},
        {"layers_s": [1.0, 1.0]},
        {"references_s": [0.0, 1.0]},
        {"references_s": [math.nan, 1.0]},
        {"step_s": math.nan},
        {"step_s": 0.0},
        {"layer_errors_s": [math.nan] * 4},
    ],
)
def test_what_is_no_measurement_changes_nothing(wrong: dict[str, object]) -> None:
    """A training run is not ended by it: the cut stays, and it is said why."""
    made = recut(SEEN._replace(**wrong), [2, 2], TERMS)  # type: ignore[arg-type]
    assert made.after == [2, 2]
    assert made.why.startswith("the cut stays: ")


def test_what_a_step_spends_besides_is_not_won_back() -> None:
    """Of a step of 28 s, 10 are no stage's: 3 s less is what the cut brings."""
    assert recut(SEEN._replace(step_s=28.0), [2, 2], TERMS).step_s == (28.0, 25.0)


def test_a_step_of_stages_alike_takes_microbatches_and_stages_less_one() -> None:
    assert pipeline_step_s([2.0] * 4, 8) == 2.0 * (8 + 4 - 1)
    assert bubble([2.0] * 4, 8, 22.0) == pytest.approx(3 / 11)


def test_an_even_cut_fills_the_first_stages_first() -> None:
    assert even(10, 4) == [3, 3, 2, 2]
    with pytest.raises(SplitError, match="3 layers cannot fill 4 stages: use fewer ranks"):
        even(3, 4)


def test_slowness_is_that_of_the_fastest() -> None:
    assert slowness([3.0, 1.5]) == [2.0, 1.0]
    with pytest.raises(SplitError, match="the reference took nan s"):
        slowness([1.0, math.nan])
