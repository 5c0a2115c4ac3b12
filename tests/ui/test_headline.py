import dataclasses

import msgspec
import numpy as np
import pytest

from ui.headline import headline, reporting, works_longer


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


def test_ranks_that_left_long_ago_do_not_report(view):
    """Their early steps are still on the heatmap; the last ones are of the others."""
    step_s = np.ones((4, 3_000), np.float32)
    step_s[2:, 500:] = np.nan
    assert (reporting(view), reporting(dataclasses.replace(view, step_s=step_s))) == (4, 2)


def test_before_the_first_step_nothing_is_measured(view):
    """No step, no number."""
    empty = np.empty((0, 0), np.float32)
    found = headline(dataclasses.replace(view, window=None, step_s=empty, waiting_s=empty))
    assert (found.step_s, found.worst_rank) == (None, None)


def test_a_rank_that_works_longer_is_known_without_a_finding(view):
    """Beside ranks of its own stage, and where the others waited for it."""
    found = works_longer(view)
    assert (found.rank, found.words.endswith("a step longer than the others on average")) == (2, True)
    assert works_longer(dataclasses.replace(view, stages=np.array([0, 0, 1, 0]))) is None
    idle = view.phase_s | {"communication": np.zeros_like(view.phase_s["communication"])}
    assert works_longer(dataclasses.replace(view, phase_s=idle)) is None
    even = view.phase_s | {"forward": np.full_like(view.phase_s["forward"], 0.1)}
    even |= {"backward": np.full_like(view.phase_s["backward"], 0.1)}
    assert works_longer(dataclasses.replace(view, phase_s=even)) is None
    assert works_longer(dataclasses.replace(view, phase_s={})) is None
