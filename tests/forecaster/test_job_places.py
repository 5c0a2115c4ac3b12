"""Who runs where is kept for so many places, of so many bytes."""

import sys

import pytest

from forecaster.job_places import LONGEST_NAMES, JobPlaces, Place


def place(number: int) -> Place:
    return "c", "n", f"g{number}"


def test_the_one_without_news_for_longest_makes_room() -> None:
    """News is what a job tells, and what its device sends."""
    places = JobPlaces(most=3)
    for number in range(3):
        places.put(place(number), "j")
    places.put(place(0), "j")
    assert places.job_on(place(1)) == "j"
    places.put(place(3), "j")
    assert [places.job_on(place(number)) for number in range(4)] == ["j", "j", None, "j"]


def test_bytes_of_names_are_bounded() -> None:
    """Few places with long names take as much as many with short ones."""
    places = JobPlaces(most_bytes=10_000)
    for number in range(100):
        places.put(place(number), "j" * 1_000)
        assert places.bytes <= 10_000
    assert 0 < len(places) < 10


def test_what_is_counted_is_what_is_held() -> None:
    """Also where a place is told anew, by another job, or is free again."""
    places = JobPlaces()
    places.put(place(0), "a")
    places.put(place(0), "longer")
    held = [*place(0), "longer"]
    assert places.bytes >= sum(map(sys.getsizeof, held))
    places.remove(place(0), "a")
    assert places.job_on(place(0)) == "longer"
    places.remove(place(0), "longer")
    assert (len(places), places.bytes) == (0, 0)


def test_jobs_that_were_heard_take_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest are known; one with names that are too long drives out no other."""
    monkeypatch.setattr("forecaster.job_places.JOBS", 10)
    monkeypatch.setattr("forecaster.job_places.JOBS_BYTES", 10_000)
    places = JobPlaces()
    for name in (*map(str, range(12)), "j" * LONGEST_NAMES):
        places.hear("c", name, 60.0)
    heard = [name for name in (*map(str, range(12)), "j" * LONGEST_NAMES) if places.heard_since("c", name, 60.0)]
    assert heard == [str(number) for number in range(2, 12)]
    for number in range(10):
        places.hear("c", f"{number}" + "j" * 1_500, 60.0)
    assert 0 < places.bytes <= 10_000


def test_names_that_are_too_long_drive_out_no_other() -> None:
    """Such a place is not known, nor is who was there before."""
    places = JobPlaces()
    places.put(place(0), "j")
    places.put(place(1), "j")
    places.put(place(1), "j" * LONGEST_NAMES)
    assert [places.job_on(place(number)) for number in range(2)] == ["j", None]
