"""Cycles are looked for seldom, and still found."""

import gc
import weakref

import pytest

from streams.garbage import THRESHOLDS, collect_seldom


@pytest.fixture
def before():
    """Python's thresholds, as they were."""
    thresholds = gc.get_threshold()
    yield thresholds
    gc.set_threshold(*thresholds)


class Cycle:
    """An object that holds itself."""

    def __init__(self):
        self.own = self


def test_a_cycle_is_freed_within_as_many_new_objects_as_the_threshold_says(before):
    """A worker that runs for months keeps none for long."""
    collect_seldom()
    assert gc.get_threshold() == THRESHOLDS
    assert min(now >= then for now, then in zip(THRESHOLDS, before, strict=True))
    lost = weakref.ref(Cycle())
    held = [[] for _ in range(2 * THRESHOLDS[0])]
    assert lost() is None
    assert len(held) == 2 * THRESHOLDS[0]
