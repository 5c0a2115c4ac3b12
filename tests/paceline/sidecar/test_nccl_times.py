"""NCCL's own times meet the ranks' steps."""

import pytest

from paceline.nccl_inspector.calls import Call
from paceline.sidecar.nccl_times import MOST_PROCESSES, MOST_STEPS, MOST_WAITING, PATIENCE_S, NcclTimes
from paceline.sidecar.rank_rows import PARTS, StepRow

JOB = ("job", 0)


def step(number: int, start_s: float, took_s: float = 1.0) -> StepRow:
    return StepRow(number, start_s, took_s, (float("nan"),) * len(PARTS))


def call(start_s: float, pid: int = 7, seq: int = 1, earliest_s: float | None = None) -> Call:
    earliest_s = start_s if earliest_s is None else earliest_s
    return Call("n1", pid, 3, "0xa all_reduce", 4, "all_reduce", seq, 4096, earliest_s, start_s, 0.25)


@pytest.fixture
def times() -> NcclTimes:
    """A rank 1 whose process is 7, with steps 0 to 4 from second 100 on."""
    made = NcclTimes()
    made.join(7, JOB, 1)
    made.append_steps(7, [step(number, 100.0 + number) for number in range(5)])
    return made


def told(times: NcclTimes, now_s: float = 0.0, **how: bool) -> list[tuple[int, int, int]]:
    """Rank, step and number of each call that is ready."""
    return [(one.rank, one.row.step, one.row.seq) for one in times.take(now_s, **how)]


def test_a_call_is_of_the_step_in_which_it_began(times: NcclTimes) -> None:
    """It may end in the next; at a boundary it is the next one's. The rank is the job's, not the communicator's."""
    for seq, start_s in enumerate((100.0, 101.9, 102.0, 103.5)):
        times.append(call(start_s, seq=seq), 0.0)
    assert told(times) == [(1, 0, 0), (1, 1, 1), (1, 2, 2), (1, 3, 3)]
    assert told(times) == []


def test_all_of_its_kernels_time_is_waiting(times: NcclTimes) -> None:
    """Others are waited for inside the kernel."""
    times.append(call(101.5), 0.0)
    (one,) = times.take(0.0)
    assert one.key == JOB
    assert (one.row.start_s, one.row.duration_s, one.row.wait_s) == (101.5, 0.25, 0.25)
    assert (one.row.group, one.row.group_size, one.row.operation, one.row.bytes) == (
        "0xa all_reduce",
        4,
        "all_reduce",
        4096,
    )


def test_a_call_waits_until_its_step_is_told(times: NcclTimes) -> None:
    """Whichever comes first; calls come in any order."""
    times.append(call(105.5, seq=2), 0.0)
    times.append(call(103.5, seq=1), 0.0)
    assert told(times) == [(1, 3, 1)]
    times.append_steps(7, [step(5, 105.0), step(6, 106.0)])
    assert told(times) == [(1, 5, 2)]


def test_a_step_that_never_comes_is_not_waited_for(times: NcclTimes) -> None:
    """The call is told without it, as are those of a clock that is ahead, and of a job without steps."""
    times.join(8, JOB, 2)
    times.append(call(105.5, seq=1), 10.0)
    times.append(call(9e9, seq=2), 10.0)
    times.append(call(101.0, pid=8, seq=3), 10.0)
    assert told(times, 10.0 + PATIENCE_S - 0.1) == []
    assert told(times, 10.0 + PATIENCE_S) == [(1, -1, 1), (1, -1, 2), (2, -1, 3)]


def test_at_the_end_everything_is_told(times: NcclTimes) -> None:
    """With the step where it is known."""
    times.append(call(105.5, seq=1), 0.0)
    times.append(call(104.5, seq=2), 0.0)
    assert told(times, everything=True) == [(1, -1, 1), (1, 4, 2)]


@pytest.mark.parametrize(
    ("earliest_s", "latest_s", "found"), [(102.1, 102.9, 2), (101.9, 102.1, -1), (0.0, 102.5, -1), (99.0, 99.5, -1)]
)
def test_a_start_that_may_be_in_two_steps_is_in_none(
    times: NcclTimes, earliest_s: float, latest_s: float, found: int
) -> None:
    """Better no step than a wrong one."""
    times.append(call(latest_s, earliest_s=earliest_s), 0.0)
    assert told(times) == [(1, found, 1)]


def test_between_steps_there_is_none() -> None:
    """Where the probe was off, or nothing was done."""
    times = NcclTimes()
    times.join(7, JOB, 0)
    times.append_steps(7, [step(0, 100.0), step(9, 110.0)])
    times.append(call(105.0), 0.0)
    assert told(times) == [(0, -1, 1)]


def test_two_processes_of_one_rank_have_their_own_steps() -> None:
    """A rank that was started again, or two jobs in one."""
    times = NcclTimes()
    times.join(7, JOB, 0)
    times.join(8, JOB, 0)
    times.append_steps(7, [step(0, 100.0), step(1, 101.0)])
    times.append_steps(8, [step(40, 100.0), step(41, 101.0)])
    times.append(call(100.5, pid=7, seq=1), 0.0)
    times.append(call(100.5, pid=8, seq=2), 0.0)
    assert told(times) == [(0, 0, 1), (0, 40, 2)]


def test_a_foreign_process_is_nobody(times: NcclTimes) -> None:
    """No rank of this node has that number."""
    times.append(call(100.5, pid=99), 0.0)
    assert told(times, everything=True) == []


def test_a_process_that_is_another_rank_by_now_begins_anew(times: NcclTimes) -> None:
    """Its number was given to another; what waited for the old one's steps is nobody's."""
    times.append(call(105.5), 0.0)
    times.join(7, JOB, 3)
    assert told(times, everything=True) == []


def test_a_rank_that_connects_again_keeps_what_waits(times: NcclTimes) -> None:
    """Its steps go on."""
    times.append(call(105.5), 0.0)
    times.join(7, JOB, 1)
    times.append_steps(7, [step(5, 105.0), step(6, 106.0)])
    assert told(times) == [(1, 5, 1)]


def test_a_clock_that_is_put_back_forgets_the_steps_before(times: NcclTimes) -> None:
    """They would be taken for those that come."""
    times.append_steps(7, [step(5, 101.5), step(6, 102.5)])
    times.append(call(102.0), 0.0)
    assert told(times) == [(1, 5, 1)]


def test_what_is_held_is_bounded(times: NcclTimes) -> None:
    """The oldest calls go without a step; old steps and processes are forgotten."""
    for seq in range(MOST_WAITING + 2):
        times.append(call(500.0, seq=seq), 0.0)
    assert told(times) == [(1, -1, 0), (1, -1, 1)]
    times.append_steps(7, [step(5 + number, 105.0 + number) for number in range(MOST_STEPS)])
    assert len(told(times)) == MOST_WAITING
    times.append(call(100.5), 0.0)
    assert told(times) == [(1, -1, 1)]
    for pid in range(100, 100 + MOST_PROCESSES):
        times.join(pid, JOB, 0)
    assert 7 not in times.pids()
    assert len(times.pids()) == MOST_PROCESSES
