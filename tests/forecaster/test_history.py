"""The history: a grid with gaps, bounded in samples and in series."""

import numpy as np
import pytest

from forecaster import history
from forecaster.history import SAMPLES, SILENT_TURNS, History, SeriesSubject, Track


def subject(key: str = "a") -> SeriesSubject:
    return SeriesSubject(key, "W", 60.0, "default")


def test_samples_come_back_in_order() -> None:
    """What was put is what is held, oldest first."""
    track = Track(subject())
    for place in range(1000, 1200):
        track.put(place, float(place))
    assert track.values().tolist() == [float(place) for place in range(1000, 1200)]
    assert track.time_s == 1200 * 60.0


def test_what_was_not_measured_is_a_gap() -> None:
    """Places between two samples hold no number; zero is a number."""
    track = Track(subject())
    track.put(10, 0.0)
    track.put(13, 5.0)
    np.testing.assert_array_equal(track.values(), [0.0, np.nan, np.nan, 5.0])


def test_a_late_sample_finds_its_place() -> None:
    """Late and repeated samples are kept where they belong, also before the first."""
    track = Track(subject())
    for place, value in ((100, 1.0), (102, 3.0), (101, 2.0), (102, 3.0), (20, 0.5)):
        assert track.put(place, value)
    assert track.values()[-3:].tolist() == [1.0, 2.0, 3.0]
    assert track.values()[0] == 0.5
    assert len(track.values()) == 83


def test_only_the_newest_samples_are_kept() -> None:
    """A series never holds more than its share, and refuses what is older."""
    track = Track(subject())
    for place in range(2 * history.SAMPLES):
        track.put(place, float(place))
    assert len(track.values()) == history.SAMPLES
    assert track.values()[-1] == 2 * history.SAMPLES - 1
    assert not track.put(3, 1.0)


def test_after_a_long_silence_the_old_is_gone() -> None:
    """A gap longer than the memory leaves the new sample alone."""
    track = Track(subject())
    for place in range(50):
        track.put(place, 1.0)
    track.put(10**9, 2.0)
    assert track.values().tolist() == [2.0]


def test_a_series_that_fell_silent_makes_room() -> None:
    """The number of series is bounded; one that still goes on stays, also where its clock is an hour behind."""
    held = History(most=2)
    held.put(subject("a"), 60.0, 1.0)
    for minute in range(SILENT_TURNS):
        held.put(subject("b"), 60.0 * minute, 1.0)
        held.put(subject("behind"), 60.0 * (minute - 60), 1.0)
    assert (held.find("behind"), held.refused) == (None, SILENT_TURNS)
    held.put(subject("b"), 3600.0, 1.0)
    assert held.put(subject("behind"), 0.0, 1.0)
    assert held.find("a") is None
    assert (len(held), held.forgotten) == (2, 1)


def test_values_sent_at_once_silence_no_other_series() -> None:
    """Three days of one series count as one turn."""
    held = History(most=2)
    held.put(subject("a"), 60.0, 1.0)
    for minute in range(SAMPLES):
        held.put(subject("b"), 60.0 * minute, 1.0)
    assert not held.put(subject("c"), 60.0, 1.0)
    assert held.find("a") is not None


FIELDS = ("power_w", "utilization_ratio", "sm_active_ratio")


@pytest.mark.parametrize("fields", [FIELDS, FIELDS[::-1]])
def test_a_fleet_beyond_the_room_keeps_the_past_of_what_counts(fields: tuple[str, ...]) -> None:
    """Series that all go on do not drive each other out: of 30 GPUs' 90 series 32 have room, and the cluster's."""
    held = History(most=33)
    for minute in range(20):
        for gpu in range(30):
            for field in fields:
                held.put(subject(f"c/device/n/{gpu}/{field}"), 60.0 * minute, 1.0)
        held.put(subject("c/cluster/free_gpus"), 60.0 * minute, 1.0)
    use = [held.find(f"c/device/n/{gpu}/sm_active_ratio") for gpu in range(30)]
    assert [len(track.values()) for track in use if track is not None] == [20] * 30
    whole = held.find("c/cluster/free_gpus")
    assert whole is not None
    assert len(whole.values()) == 20
    assert sum(track.subject.key.endswith("utilization_ratio") for track in held) == 2
    assert (len(held), held.late) == (33, 0)
    assert held.refused > 1_000


@pytest.mark.long
def test_ten_thousand_series_of_a_day_fit() -> None:
    """Ten thousand series of a day of minutes take less than a gigabyte: measured on a hundred."""
    held = History()
    for number in range(100):
        for place in range(1440):
            held.put(subject(str(number)), place * 60.0, 1.0)
    assert held.bytes * 100 < 2**30


@pytest.mark.parametrize("interval_s", [300.0, 30.0])
def test_on_another_grid_a_series_begins_again(interval_s: float) -> None:
    """Its times stay those of its values: places of one grid are no places of the other."""
    held = History()
    for minute in range(20):
        held.put(subject("own"), 1.8e9 + 60.0 * minute, 1.0)
    other = SeriesSubject("own", "", interval_s, "c")
    kept = [held.put(other, 1.8e9 + 1200.0 + interval_s * at, 2.0) for at in range(12)]
    track = held.find("own")
    assert track is not None
    assert (all(kept), track.time_s, track.values().tolist()) == (True, 1.8e9 + 1200.0 + 12 * interval_s, [2.0] * 12)


def test_a_series_is_what_its_newest_value_says() -> None:
    """A late minute of half of the nodes does not halve what there can be."""
    held = History()
    for minute, most in ((2, 16.0), (1, 8.0)):
        held.put(SeriesSubject("free", "GPUs", 60.0, "c", high=most), minute * 60.0, 1.0)
    track = held.find("free")
    assert track is not None
    assert track.subject.high == 16.0
