"""How active a job's GPUs were."""

from forecaster.job_activity import SECONDS, Activity


def test_a_second_is_the_mean_over_all_gpus() -> None:
    """Those that measured it; a second that none measured is a gap."""
    activity = Activity()
    for at_s, watts in ((10.2, 100.0), (10.9, 300.0), (12.0, 50.0)):
        activity.add(at_s, {"power_w": watts})
    assert activity.means() == {"power_w": [200.0, None, 50.0]}


def test_what_is_kept_does_not_grow_with_gpus() -> None:
    """A job of thousands of GPUs takes as much room as one of a single GPU."""
    small, large = Activity(), Activity()
    for second in range(20):
        small.add(second, {"power_w": 1.0})
        for _ in range(1000):
            large.add(second, {"power_w": 1.0})
    assert large.means() == small.means()
    assert large._sums.nbytes + large._counts.nbytes == small._sums.nbytes + small._counts.nbytes < 50_000


def test_a_clock_that_was_ahead_is_followed_back() -> None:
    """What is late is passed over, until it is clear that it was not late."""
    activity = Activity()
    activity.add(1e6, {"power_w": 1.0})
    for second in range(SECONDS + 10):
        activity.add(second, {"power_w": 2.0})
    means = activity.means()["power_w"]
    assert set(means) == {2.0}
    assert len(means) == 10


def test_a_copy_stays_as_it_is() -> None:
    """Later values change only what they are added to."""
    activity = Activity()
    activity.add(5.0, {"power_w": 1.0})
    copied = activity.copy()
    activity.add(5.0, {"power_w": 9.0})
    assert copied.means() == {"power_w": [1.0]}
