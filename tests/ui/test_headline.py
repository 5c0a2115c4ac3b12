import dataclasses

import msgspec
import numpy as np
import pytest

from ui.headline import headline


@pytest.fixture
def view(played):
    return played.view("default", "demo")


def test_the_window_is_the_source_while_it_is_current(view):
    """What the processor says comes first."""
    found = headline(view)
    assert (found.source, found.worst_rank) == ("10 s window", 2)
    assert found.factor == pytest.approx(1.83)


def test_of_two_ranks_the_slow_one_is_compared_with_the_other(view):
    """The median of both holds half of what makes it slow; with and without windows."""
    two = msgspec.structs.replace(view.window, ranks=2, own_median_s=0.073, own_worst_s=0.094)
    assert headline(dataclasses.replace(view, window=two)).factor == pytest.approx(0.094 / 0.052)
    steps = dataclasses.replace(view, window=None, step_s=view.step_s[1:3], waiting_s=view.waiting_s[1:3])
    found = headline(steps)
    assert (found.worst_rank, found.pair) == (1, True)
    assert found.others_s < found.own_s < found.worst_s


def test_without_windows_the_last_steps_are(view):
    """The page names the slow rank by itself when nobody makes windows."""
    found = headline(dataclasses.replace(view, window=None))
    assert (found.source, found.worst_rank) == ("last 50 steps", 2)
    assert found.own_s < found.worst_s < found.step_s


def test_an_outdated_window_is_not_shown(view):
    """Steps that went on long after the last window speak for themselves."""
    old = msgspec.structs.replace(view.window, start_s=0.0)
    assert headline(dataclasses.replace(view, window=old)).source == "last 50 steps"


def test_unmeasured_waiting_is_not_zero(view):
    """A job whose waiting nobody measured has no share of waiting."""
    found = headline(dataclasses.replace(view, window=None, waiting_s=np.full_like(view.waiting_s, np.nan)))
    assert found.wait_ratio is None


def test_before_the_first_step_nothing_is_measured(view):
    """No step, no number."""
    empty = np.empty((0, 0), np.float32)
    found = headline(dataclasses.replace(view, window=None, step_s=empty, waiting_s=empty))
    assert (found.step_s, found.worst_rank) == (None, None)
