"""What the page holds of one job beside numbers: bounded in bytes, whatever names and windows come."""

from typing import Any

import msgspec
import pytest

from paceline.events import CollectiveLine, JobWindow, RankPlace
from tests.derived_events import described
from ui import job_buffer
from ui.job_buffer import JobBuffer

LONG = "x" * 100_000


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> JobBuffer:
    """A buffer that keeps a megabyte of each."""
    for name in ("DESCRIBED_BYTES", "NAME_BYTES", "WINDOW_BYTES"):
        monkeypatch.setattr(job_buffer, name, 2**20)
    return JobBuffer("c", "train", 0)


def part(at: int) -> Any:
    place = RankPlace(rank=at, local_rank=0, node="n", device=f"GPU-{at}", pid=1)
    return described(node=f"{at}{LONG}", places=[place])


def window(at: int, words: str = LONG) -> JobWindow:
    """With one collective, of that name."""
    line = CollectiveLine(operation=words, least_bytes=1, calls=1, bytes=1, wait_s=0.0, duration_s=1.0)
    told: dict[str, Any] = dict.fromkeys(JobWindow.__struct_fields__, 1)
    told |= {"job": "train", "cluster": "c", "phase_median_s": {}, "collectives": [line]}
    return JobWindow(**told | {"start_s": float(at), "length_s": 10.0})


def test_parts_and_names_of_any_length_are_bounded_in_bytes(small: JobBuffer) -> None:
    """The newest stay."""
    for at in range(50):
        small.describe(part(at))
    assert 3 < len(small.described) <= 10
    assert small.nodes.keys() == small.devices.keys()
    assert max(small.nodes) == 49
    assert 5 < len(small.nodes) <= 10


def test_windows_of_any_length_are_bounded_in_bytes(small: JobBuffer) -> None:
    """Those that came last stay."""
    for at in range(50):
        small.window(window(at))
    held = [one.start_s for one in small.traffic[10.0]]
    assert held == [float(at) for at in range(50 - len(held), 50)]
    assert 5 < len(held) <= 10
    assert small.windows[10.0].start_s == 49.0


def test_windows_of_a_clock_that_was_ahead_go_where_later_steps_come(small: JobBuffer) -> None:
    """In order of time, and each once."""
    for start_s, last in ((10.0, 9), (3_600.0, 99), (20.0, 199), (20.0, 199), (3_600.0, 999)):
        small.window(msgspec.structs.replace(window(0, "x"), start_s=start_s, last_step=last))
    assert [(one.start_s, one.last_step) for one in small.traffic[10.0]] == [(10.0, 9), (20.0, 199), (3_600.0, 999)]


def test_short_windows_are_bounded_in_number(small: JobBuffer) -> None:
    for at in range(job_buffer.TRAFFIC_WINDOWS + 50):
        small.window(window(at, "x"))
    assert len(small.traffic[10.0]) == job_buffer.TRAFFIC_WINDOWS


def test_words_count_where_all_jobs_take_too_much() -> None:
    """They are numbers to the one who shares out the room, and half of them go as steps do."""
    buffer = JobBuffer("c", "train", 0)
    before = buffer.cells
    for at in range(60):
        buffer.describe(part(at))
        buffer.window(window(at))
    assert 4 * (buffer.cells - before) > 200 * len(LONG)
    while buffer.shrink():
        pass
    kept = buffer.bytes - buffer.life.held_bytes
    assert kept <= 5 * job_buffer.KEPT_BYTES
