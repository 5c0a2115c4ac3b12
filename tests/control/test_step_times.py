"""The marks of a session's picture are where findings began, not where their revisions came."""

import csv
import io

import msgspec
import pytest

from control.export.formats import FORMATS
from control.export.panels import findings
from control.export.stat import Statistics
from control.export.step_times import MOST_WINDOWS, StepTimes
from control.export.told import Told
from paceline import wire
from paceline.events import JOB_WINDOWS_S, Cost, Coverage, Finding, JobWindow
from paceline.recording import Line
from paceline.topics import FINDING, WINDOW, Topic

T0_S = 1_700_000_000.0


def window(start_s: float, first: int, last: int, length_s: float = 1.0, job: str = "j", attempt: int = 0) -> JobWindow:
    return JobWindow(
        cluster="c",
        job=job,
        attempt=attempt,
        start_s=start_s,
        length_s=length_s,
        ranks=2,
        steps=last - first + 1,
        first_step=first,
        last_step=last,
        step_median_s=0.1,
        step_p95_s=0.1,
        own_median_s=0.1,
        own_worst_s=0.1,
        worst_rank=0,
        wait_ratio=None,
        phase_median_s={},
    )


def finding(first: int, revision: int = 1, job: str = "j") -> Finding:
    return Finding(
        id="f",
        revision=revision,
        kind="straggler",
        state="confirmed",
        cluster="c",
        job=job,
        attempt=0,
        cause="unknown",
        ranks=[2],
        stage=None,
        group=None,
        nodes=[],
        devices=[],
        first_step=first,
        last_step=first + 50,
        severity="warning",
        confidence=0.9,
        cost=Cost(lost_s=1.0, gpu_hours=0.0, throughput_lost_ratio=0.1),
        coverage=Coverage(ranks_expected=2, ranks_heard=2, events_missing=0),
        evidence=[],
        exonerated=[],
        summary="slow",
    )


def line(topic: Topic, event: JobWindow | Finding, after_s: float) -> Line:
    return Line(0, topic.name, "j", int((T0_S + after_s) * 1000), wire.encode(event))


def marks(*lines: Line) -> list[tuple[float, float]]:
    told = Told("s", T0_S, T0_S + 100.0, (), (), (), complete=True, missing_count=0)
    return [(round(one.from_s, 6), round(one.to_s, 6)) for one in findings(Statistics(told).read(lines))]


def windows_of_all_lengths(seconds: int) -> list[Line]:
    """Two steps a second, every tenth second of slow ones, in the windows of each length."""
    lines = []
    for length_s in JOB_WINDOWS_S:
        for start in range(0, seconds, int(length_s)):
            one = window(T0_S + start, 2 * start, 2 * (start + int(length_s)) - 1, length_s)
            slow = length_s == min(JOB_WINDOWS_S) and start % 10 == 0
            one = msgspec.structs.replace(one, step_median_s=0.9 if slow else 0.1)
            lines.append(line(WINDOW, one, start + length_s))
    return lines


def test_each_step_of_a_session_counts_once() -> None:
    """Of the windows of three lengths, which hold the same steps, statistics and tables take the shortest."""
    told, lines = Told("s", T0_S, T0_S + 60.0), windows_of_all_lengths(60)
    steps = Statistics(told).read(lines).summary()["step_time_s"]["j"]
    assert steps["steps"] == 120
    assert steps["p95"] == pytest.approx(0.9, rel=0.02)
    out = io.BytesIO()
    FORMATS["csv"].write(lines, told, out)
    rows = list(csv.DictReader(io.StringIO(out.getvalue().decode())))
    assert len(rows) == 60
    assert sum(float(row["steps"]) for row in rows) == 120.0


def test_a_mark_stands_where_the_finding_began() -> None:
    """Within its window, whatever the order of the messages."""
    windows = [line(WINDOW, window(T0_S + second, 10 * second, 10 * second + 9), second + 1) for second in range(20)]
    told = [line(FINDING, finding(55), 12.0), line(FINDING, finding(55, revision=2), 24.0)]
    assert marks(*windows, *told) == marks(*told, *windows) == [(5.5, 24.0)]


def test_what_was_slow_before_the_session_is_marked_at_its_start() -> None:
    assert marks(line(WINDOW, window(T0_S - 0.5, 100, 109), 1), line(FINDING, finding(40), 24.0)) == [(0.0, 24.0)]


@pytest.mark.parametrize("first", [-1, 55])
def test_without_windows_or_a_step_it_is_where_it_was_first_received(first: int) -> None:
    """A finding of a node has no step; another job's windows say nothing of this one's."""
    other = line(WINDOW, window(T0_S, 50, 59, job="other"), 1)
    own = [line(WINDOW, window(T0_S, 50, 59), 1)] if first < 0 else []
    assert marks(other, *own, line(FINDING, finding(first), 12.0)) == [(12.0, 12.0)]


def test_the_shortest_window_counts_and_windows_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    times = StepTimes()
    times.add(window(0.0, 50, 149, length_s=10.0))
    times.add(window(0.0, 50, 59))
    assert (times.time_s("j", 0, 55), times.time_s("j", 0, 9999), times.time_s("j", 1, 55)) == (0.5, 1.0, None)
    monkeypatch.setattr("control.export.step_times.MOST_WINDOWS", 2)
    for number in range(5):
        times.add(window(float(number), 1000 * number + 1000, 1000 * number + 1009))
    assert times.time_s("j", 0, 4000) == times.time_s("j", 0, 1010)
    assert MOST_WINDOWS < 1_000_000


def test_a_window_that_says_nonsense_marks_within_its_length() -> None:
    times = StepTimes()
    times.add(msgspec.structs.replace(window(5.0, 50, 59), last_step=3))
    assert times.time_s("j", 0, 51) == 6.0
