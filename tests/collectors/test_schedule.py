import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.schedule import Schedule


def test_work_does_not_move_the_instants():
    """However long each round of work takes within the interval, the instants stay on the grid."""
    schedule = Schedule(1.0, 50.0)
    now_s, instants = 50.0, []
    for work_s in (0.1, 0.9, 0.3, 0.7):
        now_s += schedule.wait_s(now_s)
        instants.append(now_s)
        now_s += work_s

    assert instants == pytest.approx([50.0, 51.0, 52.0, 53.0])


def test_missed_instants_are_skipped_and_counted():
    """After work that takes 3.5 intervals there is no burst: the next instant is on the grid, the lost are counted."""
    schedule = Schedule(1.0, 0.0)
    schedule.wait_s(0.0)

    assert schedule.wait_s(3.5) == pytest.approx(0.5)
    assert schedule.missed == 3


@pytest.mark.long
@given(st.lists(st.floats(0, 5), max_size=50), st.floats(0.05, 60))
def test_an_instant_is_never_given_twice(works, interval_s):
    """Whatever the work takes, two waits in a row end at least about one interval apart."""
    schedule, now_s, last = Schedule(interval_s, 0.0), 0.0, None
    for work_s in works:
        due_s = now_s + schedule.wait_s(now_s)
        assert last is None or due_s - last >= interval_s * 0.999
        last, now_s = due_s, due_s + work_s
