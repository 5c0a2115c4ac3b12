"""One look is noise: how many, or for how long, make a verdict."""

import pytest

from streams.episodes.persistence import Lasting, Persistence, Streaks


def test_a_look_in_between_breaks_a_run_of_good_ones():
    """Recovery takes good looks on end; bad ones are counted all the same."""
    streaks = Streaks(1, 3, 2)
    assert [streaks.push("job", bad) for bad in (True, False, None, False, False)] == ["late", None, None, None, "calm"]


def test_forgotten_is_counted_from_zero():
    """After an episode the next one needs as many looks as the first."""
    streaks = Streaks(2, 3, 1)
    streaks.push("job", True)
    streaks.forget("job")
    assert streaks.push("job", True) is None


def test_streaks_go_on_when_restored():
    """State is data."""
    streaks = Streaks(2, 3, 2)
    streaks.push("job", True)
    again = Streaks(2, 3, 2)
    again.load(streaks.state())
    assert again.push("job", True) == "late"


@pytest.mark.parametrize(("good", "signal"), [(1, "late"), (3, None)])
def test_nearly_all_looks_must_agree(good, signal):
    """A share of the looks may say otherwise, and no more of them."""
    persistence = Persistence(Lasting(50.0, 1000.0, 50.0), tick_s=5.0, gap_s=60.0)
    looks = [number >= good for number in range(10)]
    assert [persistence.push(5.0 * at, bad) for at, bad in enumerate([True, *looks])][-1] == signal


@pytest.mark.parametrize("jump_s", [500.0, -500.0])
def test_a_gap_and_a_clock_set_back_count_from_zero(jump_s):
    """What was before says nothing of what is now."""
    persistence = Persistence(Lasting(10.0, 100.0, 10.0), tick_s=5.0, gap_s=60.0)
    assert [persistence.push(at_s, True) for at_s in (1000.0, 1005.0, 1010.0)][-1] == "late"
    assert persistence.push(1010.0 + jump_s, True) is None
    assert persistence.since_s() == 1005.0 + jump_s
