"""One look at all ranks as one look at units: told by the middle of their ranks, compared with equal work."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from streams.jobs.cohorts import Cohorts
from streams.jobs.units import Units


def placed(*nodes: list[int]) -> Units:
    """Units of these ranks, named a, b, …"""
    units = Units()
    for name, ranks in zip("abcdefgh", nodes, strict=False):
        units.place(ranks, name)
    return units


def test_a_unit_is_as_slow_as_its_middle_rank(make_tick: Callable[..., Any]) -> None:
    """Of four the second fastest: it takes three to make it slow."""
    units = placed([0, 1, 2, 3], [4, 5, 6, 7])
    two = make_tick(0, forward=[1.0, 1.0, 9.0, 9.0, 1.0, 1.0, 1.0, 1.0])
    assert units.of_tick(two, Cohorts()).own.tolist() == [1.0, 1.0]
    three = make_tick(0, forward=[1.0, 9.0, 9.0, 9.0, 1.0, 1.0, 1.0, 1.0])
    look = units.of_tick(three, Cohorts())
    assert look.own.tolist() == [9.0, 1.0]
    assert look.peers.tolist() == [1.0, 9.0]


def test_a_rank_that_was_not_heard_counts_for_nothing(make_tick: Callable[..., Any]) -> None:
    """And a unit of which nobody was heard is not known."""
    units = placed([0, 1], [2, 3], [4, 5])
    tick = make_tick(0, forward=[2.0, np.nan, 1.0, 1.0, np.nan, np.nan])
    look = units.of_tick(tick, Cohorts())
    assert look.own[:2].tolist() == [2.0, 1.0]
    assert np.isnan(look.own[2])


def test_only_equal_work_is_compared(make_tick: Callable[..., Any]) -> None:
    """Each unit holds both stages, of which one takes three times as long."""
    cohorts = Cohorts()
    cohorts.place(range(8), [0, 0, 1, 1, 0, 0, 1, 1], [-1] * 8)
    units = placed([0, 1, 2, 3], [4, 5, 6, 7])
    look = units.of_tick(make_tick(0, cohorts, forward=[1.0, 1.0, 3.0, 3.0, 1.0, 1.0, 3.0, 3.0]), cohorts)
    assert look.excess.tolist() == [0.0, 0.0]
    slow = units.of_tick(make_tick(1, cohorts, forward=[2.0, 2.0, 6.0, 6.0, 1.0, 1.0, 3.0, 3.0]), cohorts)
    assert slow.excess[0] > 0.1 > slow.excess[1]


@pytest.mark.parametrize(("nodes", "there"), [([[0, 1]], False), ([[0], [1]], False), ([[0, 1], [2]], True)])
def test_units_compare_where_there_are_two_and_one_has_two_ranks(nodes: list[list[int]], there: bool) -> None:
    """Else ranks say all that there is."""
    assert placed(*nodes).comparable is there


def test_ranks_without_a_unit_are_in_none(make_tick: Callable[..., Any]) -> None:
    """A switch that nobody named; ranks may be numbered with gaps."""
    units = placed([0, 1], [4, 5])
    units.place([2, 3], "")
    look = units.of_tick(make_tick(0, forward=[1.0, 1.0, 7.0, 7.0, 2.0, 2.0]), Cohorts())
    assert look.own.tolist() == [1.0, 2.0]
    assert units.unit_of(2) == units.unit_of(99) == -1


def test_a_rank_that_moves_is_in_its_new_unit(make_tick: Callable[..., Any]) -> None:
    """What a node says last of its ranks holds."""
    units = placed([0, 1], [2, 3])
    units.of_tick(make_tick(0, forward=[1.0] * 4), Cohorts())
    units.place([1], "b")
    assert units.ranks(0).tolist() == [0]
    assert units.of_tick(make_tick(1, forward=[1.0, 5.0, 5.0, 5.0]), Cohorts()).own.tolist() == [1.0, 5.0]


def test_restored_it_goes_on(make_tick: Callable[..., Any]) -> None:
    """With the past of stages that live in one unit."""
    cohorts = Cohorts()
    cohorts.place(range(4), [0, 0, 1, 1], [-1] * 4)
    units = placed([0, 1], [2, 3])
    for number in range(25):
        units.of_tick(make_tick(number, cohorts, forward=[1.0, 1.0, 2.0, 2.0]), cohorts)
    again = Units()
    again.load(units.state())
    slow = make_tick(30, cohorts, forward=[1.0, 1.0, 3.0, 3.0])
    looks = [one.of_tick(slow, cohorts) for one in (units, again)]
    assert looks[0].excess.tolist() == looks[1].excess.tolist()
    assert looks[0].excess[1] > 0.3
