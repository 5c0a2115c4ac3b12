"""Windows that come again count once, whatever clocks do."""

import pytest

from paceline.repeats import MOST_REPEATED, Repeats, StepRepeats

#: A quarter of an hour by ten seconds, each with the steps of its ten seconds.
RUN = [(10.0 * at, 10 * at, 10 * at + 9) for at in range(90)]


def shifted(windows, by_s):
    return [(start_s + by_s, *steps) for start_s, *steps in windows]


def counted(windows):
    """The windows that are new, by their steps and by their time alone."""
    by_steps, by_time = StepRepeats(), Repeats()
    return (
        [one for one in windows if by_steps.is_new(*one)],
        [one for one in windows if by_time.is_new(one[0], 10.0, None)],
    )


def test_a_restart_repeats_and_adds_nothing():
    """Half a minute, in order, as often as it likes; also where there is a gap."""
    assert counted([*RUN[:40], *RUN[37:40], *RUN[38:50], *RUN[:20], *RUN[47:]]) == (RUN, RUN)
    gap = RUN[:20] + RUN[40:]
    assert counted([*RUN[:20], *RUN[40:42], *RUN[18:20], *RUN[40:]]) == (gap, gap)


@pytest.mark.parametrize("times", [1, MOST_REPEATED])
def test_most_that_a_restart_repeats(times):
    assert counted([*RUN, *RUN[-times:], *shifted(RUN[:1], 900.0)])[1] == [*RUN, *shifted(RUN[:1], 900.0)]


def test_a_clock_set_back_by_a_quarter_of_an_hour():
    """Steps go on. Time alone does not tell it from a restart until there are more windows than one repeats."""
    later = [(start_s, first + 900, last + 900) for start_s, first, last in RUN]
    assert counted([*RUN, *later, *later[-3:]]) == ([*RUN, *later], [*RUN, *later[MOST_REPEATED:]])


@pytest.mark.parametrize("ahead", [slice(30, 31), slice(0, 2), slice(30, 32)])
def test_a_clock_an_hour_ahead_for_a_while(ahead):
    """No window is lost, at the beginning or in the middle, and what is repeated then counts once."""
    windows = [*RUN[: ahead.start], *shifted(RUN[ahead], 3600.0), *RUN[ahead.stop :]]
    assert counted(windows) == (windows, windows)
    again = [*windows[: ahead.stop + 2], *windows[max(ahead.start - 1, 0) : ahead.stop + 2], *windows[ahead.stop + 2 :]]
    assert counted(again)[0] == windows


def test_steps_that_go_back_count_by_their_time():
    """A job that goes on from a checkpoint within its attempt."""
    back = [(900.0 + start_s, first, last) for start_s, first, last in RUN]
    assert counted([*RUN, *back, *back[-3:]])[0] == [*RUN, *back]


def test_a_window_that_comes_again_with_more_steps_counts_once():
    """A worker that restarts may know more of its last window."""
    assert counted([*RUN[:3], (20.0, 20, 30), *RUN[3:]])[0] == RUN
