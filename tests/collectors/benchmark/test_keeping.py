from collectors.benchmark.keeping import keep
from paceline.rated import MOST_SPEEDS, Rated, Speed


def speed(value, busy=0.0, name="gemm_float32", time_s=1.0, device="cpu"):
    return Speed(device, name, "flop/s", value, value, value, 9, time_s, busy_ratio=busy)


def kept(old, fresh, **options):
    before = None if old is None else Rated("n", 1.0, tuple(old))
    return keep(before, fresh, {}, "n", 2.0, **{"force": False, **options})


def test_a_busy_rating_replaces_no_idle_one():
    """The better founded one stays, and that is told."""
    found = kept([speed(10.0)], [speed(5.0, busy=0.5)])

    assert [one.value for one in found.rated.speeds] == [10.0]
    assert [one.value for one in found.stayed] == [10.0]


def test_a_busy_rating_is_better_than_none():
    """It is kept with its mark until a better one comes."""
    first = kept(None, [speed(5.0, busy=0.5)])
    second = kept(first.rated.speeds, [speed(10.0)])

    assert ([one.value for one in first.rated.speeds], first.stayed) == ([5.0], ())
    assert ([one.value for one in second.rated.speeds], second.stayed) == ([10.0], ())


def test_force_overrules():
    """Who says so gets the newer one."""
    assert [one.value for one in kept([speed(10.0)], [speed(5.0, busy=0.5)], force=True).rated.speeds] == [5.0]


def test_not_measured_is_not_idle():
    """A rating of which nobody knows who else was there stands between the two."""
    assert [one.value for one in kept([speed(10.0)], [speed(5.0, busy=None)]).rated.speeds] == [10.0]
    assert [one.value for one in kept([speed(10.0, busy=0.5)], [speed(5.0, busy=None)]).rated.speeds] == [5.0]


def test_other_speeds_stay():
    """What was not measured now is what it was."""
    found = kept([speed(10.0), speed(7.0, name="disk_read")], [speed(11.0)])

    assert {one.name: one.value for one in found.rated.speeds} == {"gemm_float32": 11.0, "disk_read": 7.0}


def test_the_file_stays_readable():
    """Devices that have gone make room: the newest speeds are kept."""
    old = [speed(1.0, device=f"GPU-{number}", time_s=float(number)) for number in range(MOST_SPEEDS)]
    found = kept(old, [speed(2.0, time_s=1e9)])

    assert len(found.rated.speeds) == MOST_SPEEDS
    assert "GPU-0" not in {one.device for one in found.rated.speeds}
    assert "cpu" in {one.device for one in found.rated.speeds}
