"""Layers to stages: no other cut in this order is better; what a move costs, and when it has paid."""

import itertools
import math
import random

import pytest

from paceline.balance.split import SplitError
from paceline.balance.stages import move, stages, stages_s


@pytest.mark.long
def test_it_is_as_good_as_the_best_of_all_cuts() -> None:
    """Also where a slow stage must hold a layer, so that the ones before it must leave it a small one."""
    chance = random.Random(5)
    for _ in range(500):
        layers_s = [chance.choice([1.0, chance.random(), 4.0, 0.0]) for _ in range(chance.randint(1, 9))]
        slowness = [
            chance.choice([1.0, 2.0, chance.uniform(0.5, 8.0)]) for _ in range(chance.randint(1, len(layers_s)))
        ]
        cuts = itertools.combinations(range(1, len(layers_s)), len(slowness) - 1)
        every = [[end - begin for begin, end in itertools.pairwise((0, *cut, len(layers_s)))] for cut in cuts]
        found = stages(layers_s, slowness)
        assert found in every
        assert max(stages_s(layers_s, slowness, found)) == min(max(stages_s(layers_s, slowness, cut)) for cut in every)


def test_126_layers_on_16_stages_of_which_one_is_twice_slower() -> None:
    """0.89 of what divisible layers could do, against 0.51 where they stay as they were cut for equal stages."""
    layers_s, slowness = [1.0] * 126, [1.0] * 5 + [2.0] + [1.0] * 10
    ideal = 126 / sum(1 / slow for slow in slowness)
    equal = stages(layers_s, [1.0] * 16)
    assert ideal / max(stages_s(layers_s, slowness, equal)) == pytest.approx(0.51, abs=0.01)
    cut = stages(layers_s, slowness)
    assert sum(cut) == 126
    assert cut[5] == 4
    assert ideal / max(stages_s(layers_s, slowness, cut)) >= 0.89


def test_one_stage_holds_all() -> None:
    assert stages([1.0, 2.0], [3.0]) == [2]


def test_layers_that_take_no_time_have_a_stage() -> None:
    assert sum(stages([0.0] * 4, [1.0, 1.0])) == 4


def test_fewer_layers_than_stages_are_refused() -> None:
    for layers in (0, 2):
        with pytest.raises(SplitError, match=f"{layers} layers cannot fill 3 stages"):
            stages([1.0] * layers, [1.0] * 3)
    with pytest.raises(SplitError, match="cannot fill 0 stages"):
        stages([1.0], [])


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -1.0, 1e300])
def test_what_is_no_number_is_refused(wrong: float) -> None:
    with pytest.raises(SplitError, match="a layer takes"):
        stages([1.0, wrong], [1.0])
    with pytest.raises(SplitError, match="slowness is"):
        stages([1.0, 1.0], [1.0, wrong])


@pytest.mark.parametrize("none", [0.0, 5e-324])
def test_a_stage_of_no_slowness_is_refused(none: float) -> None:
    with pytest.raises(SplitError, match=f"slowness is {none}: 1 is a device like the others"):
        stages([1.0], [none])


def test_of_the_best_cuts_an_even_one_is_taken() -> None:
    """All stages wait for the one large layer; what is left is shared out, as memory is."""
    assert stages([4.0] + [1.0] * 9, [1.0] * 4) == [1, 3, 3, 3]


def test_moving_costs_what_moves_and_a_restart_and_pays_in_time() -> None:
    """Two of six layers of a million parameters change their stage, at 16 bytes each."""
    found = move([10**6] * 6, [2, 2, 2], [3, 2, 1], step_s=(1.0, 0.75), bytes_per_s=16e6, restart_s=58.0)
    assert found == (2 * 10**6, 60.0, 240.0)


def test_what_is_no_faster_never_pays() -> None:
    found = move([5], [1, 0], [0, 1], step_s=(1.0, 1.0), bytes_per_s=1.0, restart_s=0.0, parameter_bytes=18)
    assert (found.cost_s, found.break_even_steps) == (90.0, math.inf)


def test_the_same_cut_costs_nothing() -> None:
    assert move([5, 5], [1, 1], [1, 1], step_s=(2.0, 1.0), bytes_per_s=1.0, restart_s=9.0) == (0, 0.0, 0.0)
