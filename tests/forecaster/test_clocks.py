"""A clock that is far ahead moves no series; each assumption of ``clocks`` is broken once."""

import random
from typing import NamedTuple

import pytest

from forecaster.clocks import AHEAD_S, CLOCKS, CLOCKS_BYTES, CONFIRMED, SILENT_TURNS, Clocks
from forecaster.consumer import EventConsumer
from forecaster.memory import Memory
from paceline import topics, wire
from paceline.events import DeviceWindow
from paceline.kafka.settings import BrokerSettings
from tests.derived_events import job_window

MINUTE_S, DAY_S, WEEK_S = 60.0, 86_400.0, 7 * 86_400.0
START_S = 20_000 * DAY_S
NODES = ("n0", "n1", "n2", "n3")
HOUR = 60


def believed(
    clocks: Clocks, *nodes: str, start_s: float = START_S, minutes: int = HOUR, skew_s: float | None = None
) -> list[bool]:
    """Of each node's minutes, in turn; ``skew_s``: how much later than a window's begin its message was written."""
    times_s = [start_s + MINUTE_S * minute for minute in range(minutes)]
    return [
        clocks.plausible("c", node, time_s, None if skew_s is None else time_s + skew_s)
        for time_s in times_s
        for node in nodes
    ]


def window(node: str, minute: int, ahead_s: float = 0.0, length_s: float = 60.0) -> DeviceWindow:
    return DeviceWindow(
        cluster="c", start_s=START_S + MINUTE_S * minute + ahead_s, length_s=length_s, node=node, device="g",
        samples=60, mean={"utilization_ratio": 0.0}, max={},
    )  # fmt: skip


@pytest.mark.parametrize(("bad", "ahead_s"), [(0, 2 * AHEAD_S), (1, DAY_S), (2, 4 * DAY_S), (3, 365 * DAY_S)])
def test_one_window_that_is_ahead_takes_no_history(bad: int, ahead_s: float) -> None:
    """Whoever is read before it in its minute: the series go on where they were, and it is counted."""
    memory = Memory()
    for minute in range(16):
        for number, node in enumerate(NODES):
            memory.update(window(node, minute, ahead_s if minute == 8 and number == bad else 0.0))
    held = memory.find("c/cluster/free_gpus")
    assert held is not None
    assert held.time_s == START_S + 16 * MINUTE_S
    assert held.values.tolist() == [3.0 if minute == 8 else 4.0 for minute in range(16)]
    assert (held.subject.high, memory.counts.late, memory.counts.ahead) == (4.0, 0, 1)


def test_windows_that_are_not_followed_are_not_counted() -> None:
    """Nothing is read of those of ten seconds, whatever their time."""
    memory = Memory()
    for ahead_s in (0.0, DAY_S):
        memory.update(window("n0", 0, ahead_s, length_s=10.0))
    assert memory.counts.ahead == 0


def test_steps_of_a_rank_whose_clock_is_ahead_move_nothing() -> None:
    """Nor do they keep the job's GPUs once it is killed."""
    memory = Memory()
    for start_s in (START_S, START_S + DAY_S, START_S + 10.0):
        memory.update(job_window(cluster="c", job="j", start_s=start_s), START_S)
    held = memory.find("c/job/j/step_s")
    assert held is not None
    assert (held.time_s, len(held.values), memory.counts.ahead) == (START_S + 20.0, 2, 1)


class Record(NamedTuple):
    """What the consumer reads of a message."""

    value: bytes
    timestamp: int


def test_the_consumer_hands_on_when_a_message_was_written() -> None:
    """By it, the first window of a cluster is refused where it is ahead; -1 is the time of none."""
    memory = Memory()
    consumer = EventConsumer(BrokerSettings(), memory)
    written_ms = round((START_S + MINUTE_S) * 1000)
    records = [
        Record(wire.encode(window("n0", 0, DAY_S)), written_ms),
        Record(wire.encode(window("n0", 0)), written_ms),
        Record(wire.encode(window("n1", 0)), -1),
    ]
    consumer._take(topics.WINDOW, records)  # type: ignore[arg-type]
    assert (memory.counts.ahead, memory.counts.undecodable) == (1, 0)
    held = memory.find("c/cluster/free_gpus")
    assert held is not None
    assert (held.time_s, held.values.tolist()) == (START_S + MINUTE_S, [2.0])


def test_what_is_behind_is_never_refused() -> None:
    """Partitions are read one after the other, days apart, in whatever order, also where no message has a time."""
    clocks = Clocks()
    assert all(believed(clocks, "n0", minutes=24 * HOUR))
    assert all(believed(clocks, "n1", minutes=24 * HOUR))
    assert clocks.plausible("c", "n2", START_S - WEEK_S)


def test_a_new_node_is_believed_while_another_partition_is_days_behind() -> None:
    """By when its message was written; without that it would look ahead."""
    clocks = Clocks()
    believed(clocks, "n0", skew_s=MINUTE_S)
    assert all(believed(clocks, "new", start_s=START_S + 3 * DAY_S, skew_s=MINUTE_S))
    assert not any(believed(clocks, "other", start_s=START_S + 9 * DAY_S))


@pytest.mark.parametrize("nodes", [("n0",), NODES])
def test_after_a_pause_of_a_week_all_is_believed(nodes: tuple[str, ...]) -> None:
    """Of one node and of several, at once; where messages have no time, after an hour of minutes."""
    timed, timeless = Clocks(), Clocks()
    for clocks in (timed, timeless):
        believed(clocks, *nodes)
    assert all(believed(timed, *nodes, start_s=START_S + WEEK_S, skew_s=MINUTE_S))
    later = believed(timeless, *nodes, start_s=START_S + WEEK_S, minutes=2 * HOUR)
    assert not any(later[: len(nodes) * (CONFIRMED - 1)])
    assert all(later[len(nodes) * CONFIRMED :])


@pytest.mark.parametrize("nodes", [("n0",), NODES])
def test_where_all_are_ahead_it_is_the_writers_clock_that_is_behind(nodes: tuple[str, ...]) -> None:
    """It takes them an hour to be believed, and then they are."""
    clocks = Clocks()
    told = believed(clocks, *nodes, minutes=2 * HOUR, skew_s=-5 * AHEAD_S)
    assert not any(told[: len(nodes) * (CONFIRMED - 1)])
    assert all(told[len(nodes) * CONFIRMED :])


@pytest.mark.parametrize("skew_s", [None, MINUTE_S])
@pytest.mark.parametrize("others", [("n0",), ("n0", "n1", "n2")])
def test_a_node_that_stays_ahead_is_not_believed(others: tuple[str, ...], skew_s: float | None) -> None:
    """While others are heard, who tell another time; once its clock is right, it is."""
    clocks = Clocks()
    believed(clocks, *others, "bad", minutes=10)
    for minute in range(10, 3 * CONFIRMED):
        now_s = START_S + MINUTE_S * minute
        written_s = None if skew_s is None else now_s + skew_s
        assert all(clocks.plausible("c", node, now_s, written_s) for node in others)
        assert not clocks.plausible("c", "bad", now_s + DAY_S, written_s)
    assert clocks.plausible("c", "bad", START_S + MINUTE_S * 3 * CONFIRMED)


def test_a_clock_that_jumps_about_confirms_nothing() -> None:
    """Nor does a minute that several of a node's GPUs tell."""
    clocks, rng = Clocks(), random.Random(1)
    believed(clocks, "n0")
    assert not any(clocks.plausible("c", "n0", START_S + DAY_S * rng.uniform(1.0, 365.0)) for _ in range(500))
    assert not any(clocks.plausible("c", "n0", START_S + 400 * DAY_S) for _ in range(2 * CONFIRMED))


def test_nodes_that_have_left_do_not_hold_back_the_others() -> None:
    """Three of four do not come back after a week: the fourth alone tells the time once they were silent for long."""
    clocks = Clocks()
    believed(clocks, *NODES)
    told = believed(clocks, "n0", start_s=START_S + WEEK_S, minutes=2 * SILENT_TURNS * len(NODES))
    assert not told[CONFIRMED]
    assert all(told[SILENT_TURNS * len(NODES) :])


def test_clusters_and_jobs_have_clocks_of_their_own() -> None:
    """A cluster that is replayed from last year says nothing of another."""
    clocks = Clocks()
    believed(clocks, "n0")
    assert clocks.plausible("d", "n0", START_S + 365 * DAY_S)
    assert not clocks.plausible("c", "job/train", START_S + 365 * DAY_S)


def test_clocks_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever may write to the bus chooses names, and how many."""
    monkeypatch.setattr("forecaster.clocks.CLOCKS", 100)
    clocks = Clocks()
    for number in range(300):
        clocks.plausible("c", f"n{number}" + "x" * 500, START_S)
    assert len(clocks._clocks) == 100
    assert CLOCKS * 1_024 * 4 > CLOCKS_BYTES >= clocks.bytes
