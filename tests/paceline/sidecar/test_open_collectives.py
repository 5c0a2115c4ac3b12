"""Open collectives: from issue to result, with the time stood waiting."""

import pytest

from paceline.events import OP_INDEX
from paceline.sidecar.open_collectives import MOST_OPEN, OpenCollectives
from paceline.sidecar.rank_rows import PARTS, Phase, RankRows
from paceline.training.marks import FUNCTIONAL, NATIVE, PYTHON, REDUCED, REDUCER, behind
from paceline.training.messages import LinkReport


def issued(seq: int, origin: int = PYTHON) -> tuple[str, int, int, str, int, int]:
    return ("default", 4, seq, "all_reduce", 1024, origin)


def told(rows: RankRows) -> list[tuple[int, int, int, int]]:
    """Number, start, duration and wait of each row, in nanoseconds."""
    return [
        (seq, round(start * 1e9), round(duration * 1e9), round(wait * 1e9))
        for report in filter(None, [rows.drain()])
        for _, seq, _, _, _, _, start, duration, wait in report.collectives
    ]


def test_a_synchronous_call_is_all_wait() -> None:
    """From the call until it returns, the rank stood still."""
    rows = RankRows()
    collectives = OpenCollectives(rows)
    collectives.issue(105, 3, issued(0), call=True, backward=False)
    collectives.waited(100, 150, None)
    assert told(rows) == [(0, 100, 50, 50)]


def test_a_work_ends_when_it_has_been_waited_for() -> None:
    """An asynchronous collective overlaps with work; only the time in its wait is waiting."""
    rows = RankRows()
    collectives = OpenCollectives(rows)
    for seq, work in ((0, 11), (1, 12)):
        collectives.issue(100 + seq, 3, issued(seq), call=False, backward=False)
        collectives.bind(0, work)
    collectives.waited(180, 190, 12)
    collectives.waited(190, 191, 11)
    assert told(rows) == [(1, 101, 89, 10), (0, 100, 91, 1)]


def test_the_reducers_buckets_end_with_backward() -> None:
    """Buckets overlap with backward; the exposed wait goes to the last, which all were waiting for."""
    rows = RankRows()
    collectives = OpenCollectives(rows)
    collectives.issue(100, 3, issued(0, REDUCER), call=False, backward=True)
    collectives.issue(140, 3, issued(1, REDUCER), call=False, backward=True)
    collectives.backward_ended(200, 45)
    assert told(rows) == [(0, 100, 100, 0), (1, 140, 60, 45)]


def test_what_raised_has_no_result_and_is_not_waited_for() -> None:
    """A call, a work's wait, a functional collective's, and a backward; what others are about stays open."""
    rows = RankRows()
    collectives = OpenCollectives(rows)
    collectives.issue(100, 3, issued(0), call=False, backward=False)
    collectives.bind(0, 11)
    collectives.issue(101, 3, issued(1), call=False, backward=False)
    collectives.bind(0, 12)
    collectives.issue(102, 3, issued(2), call=True, backward=False)
    collectives.give_up(None)
    collectives.waited(100, 150, None)
    collectives.give_up(12)
    collectives.waited(150, 160, 12)
    collectives.issue(161, 3, issued(3, NATIVE), call=False, backward=False)
    collectives.give_up(FUNCTIONAL)
    collectives.waited(161, 162, FUNCTIONAL)
    collectives.issue(163, 3, issued(4, REDUCER), call=False, backward=True)
    collectives.give_up_backward()
    collectives.backward_ended(170, 5)
    assert [one.seq for one in collectives.open()] == [0]
    assert told(rows) == []


def test_a_functional_collective_ends_with_its_wait() -> None:
    """Functional collectives have no handle: the wait is for the one issued last."""
    rows = RankRows()
    collectives = OpenCollectives(rows)
    collectives.issue(100, 3, issued(0, NATIVE), call=False, backward=False)
    collectives.waited(110, 130, FUNCTIONAL)
    assert told(rows) == [(0, 100, 30, 20)]


def test_what_native_code_saw_to_ends_when_python_is_heard_again() -> None:
    """Nobody can tell how long it waited; it was done by then."""
    rows = RankRows()
    collectives = OpenCollectives(rows)
    collectives.issue(100, 3, issued(0, NATIVE), call=False, backward=False)
    collectives.moved_on(120)
    assert told(rows) == [(0, 100, 20, 0)]


def test_what_nobody_waits_for_ends_with_the_next_step() -> None:
    """It stays open during its own step and the next."""
    rows = RankRows()
    collectives = OpenCollectives(rows)
    collectives.issue(100, 3, issued(0), call=False, backward=False)
    collectives.step_ended(3, 150)
    assert told(rows) == []
    collectives.step_ended(4, 190)
    assert told(rows) == [(0, 100, 90, 0)]


def test_collectives_that_nobody_waits_for_are_bounded() -> None:
    """A script that never waits and never steps does not fill the memory."""
    rows = RankRows()
    collectives = OpenCollectives(rows)
    for seq in range(MOST_OPEN + 10):
        collectives.issue(seq, 0, issued(seq), call=False, backward=False)
    assert [seq for seq, *_ in told(rows)] == list(range(10))


def test_what_was_lost_is_told_once() -> None:
    """A report that carries nothing else still says so."""
    report = RankRows().drain(LinkReport(2, 0.001, 3), 7)
    assert report is not None
    assert (report.link, report.lost, report.steps) == (LinkReport(2, 0.001, 3), 7, [])


def test_times_become_unix_seconds() -> None:
    """The offset between the clocks is added to starts, not to durations."""
    rows = RankRows()
    rows.offset_ns = 1_700_000_000_000_000_000
    rows.append_step(3, 500_000_000, 1_000_000_000, [Phase(OP_INDEX["forward"], -1, 250_000_000)])
    report = rows.drain()
    assert report is not None
    (row,) = report.steps
    assert (row.step, row.start_s, row.step_s) == (3, 1_700_000_000.5, 0.5)
    assert row.seconds[PARTS.index("forward")] == 0.25


def test_nothing_to_say_is_no_report() -> None:
    """Silence costs no message."""
    assert RankRows().drain() is None


def test_a_collective_beside_computing_ends_where_its_stream_was_through_it() -> None:
    """Whoever waits for it later waits for less, or nothing; what that stream did before is over as well."""
    rows = RankRows()
    collectives = OpenCollectives(rows)
    for seq, start, end in ((0, 100, 120), (1, 120, 145)):
        collectives.issue(start, 3, issued(seq), call=False, backward=False)
        collectives.bind(end, behind(5, seq))
    collectives.issue(130, 3, issued(2), call=False, backward=False)
    collectives.bind(150, behind(6, 0))
    collectives.waited(140, 146, behind(5, 1))
    assert told(rows) == [(0, 100, 20, 0), (1, 120, 25, 6)]
    collectives.step_ended(4, 400)
    assert told(rows) == [(2, 130, 20, 0)]


def test_an_end_that_is_not_known_is_where_it_was_waited_for() -> None:
    """A rank that may record no event beside computing tells the host's time, which is before the device began."""
    rows = RankRows()
    collectives = OpenCollectives(rows)
    collectives.issue(100, 3, issued(0), call=False, backward=False)
    collectives.bind(40, behind(5, 1))
    collectives.waited(140, 150, behind(5, 1))
    assert told(rows) == [(0, 100, 50, 10)]


def test_a_bucket_that_computing_stood_behind_has_its_own_wait() -> None:
    """It begins where computing got to it; those that it did not stand behind end with backward."""
    rows = RankRows()
    collectives = OpenCollectives(rows)
    collectives.waited(90, 95, REDUCED)
    collectives.issue(100, 3, issued(0, REDUCER), call=False, backward=True)
    collectives.issue(110, 3, issued(1, REDUCER), call=False, backward=True)
    collectives.waited(150, 170, REDUCED)
    assert told(rows) == [(1, 150, 20, 20)]
    collectives.backward_ended(200, 5)
    assert told(rows) == [(0, 100, 100, 5)]


@pytest.mark.long
def test_works_that_nobody_waits_for_take_bounded_room() -> None:
    """A rank may name works for ever, and end no step."""
    collectives = OpenCollectives(RankRows())
    for number in range(5 * MOST_OPEN):
        collectives.issue(number, 0, issued(number), call=False, backward=False)
        collectives.bind(number + 1, behind(1, number))
    assert len(collectives._works) <= 2 * MOST_OPEN
    assert len(collectives._ends) <= MOST_OPEN


def message(seq: int, operation: str, origin: int = PYTHON) -> tuple[str, int, int, str, int, int]:
    return ("default:0>1", 2, seq, operation, 1024, origin)


def batch(*operations: str, origin: int = PYTHON) -> tuple[RankRows, OpenCollectives]:
    """A batch, open: each call inside has a work that nobody waits for."""
    rows = RankRows()
    collectives = OpenCollectives(rows)
    collectives.begin_batch()
    for seq, operation in enumerate(operations):
        collectives.issue(100 + seq, 3, message(seq, operation, origin), call=False, backward=False)
        collectives.bind(0, 11)
    return rows, collectives


def test_a_batch_ends_with_the_wait_for_its_work() -> None:
    """The wait is told once, of the last that receives; the works of the calls inside mean nothing."""
    rows, collectives = batch("recv", "send", "send")
    collectives.bind_batch(105, 12)
    collectives.waited(150, 151, 11)
    assert told(rows) == []
    collectives.waited(160, 190, 12)
    assert told(rows) == [(0, 100, 90, 30), (1, 101, 89, 0), (2, 102, 88, 0)]


def test_a_batch_of_which_nothing_receives_has_its_wait_at_the_last() -> None:
    """What native code issues for the whole batch is the batch, and not done when Python is heard again."""
    rows, collectives = batch("all_reduce", "all_reduce", origin=NATIVE)
    collectives.moved_on(103)
    collectives.bind_batch(105, 12)
    collectives.waited(160, 190, 12)
    assert told(rows) == [(0, 100, 90, 0), (1, 101, 89, 30)]


def test_a_batch_that_waits_for_itself_ends_there() -> None:
    """A wait inside, for a work that has no other name; a wait for another, or for none, is not its."""
    rows, collectives = batch("send", "recv")
    collectives.waited(110, 115, None)
    assert told(rows) == []
    collectives.waited(120, 150, 99)
    collectives.bind_batch(151, None)
    assert told(rows) == [(0, 100, 50, 0), (1, 101, 49, 30)]


def test_a_batch_without_a_work_is_done_when_it_ends() -> None:
    """It raised, or native code saw to it; what is issued next has its own work."""
    rows, collectives = batch("send", "recv")
    collectives.bind_batch(140, None)
    collectives.issue(141, 3, message(2, "send"), call=False, backward=False)
    collectives.bind(0, 11)
    collectives.waited(150, 155, 11)
    assert told(rows) == [(0, 100, 40, 0), (1, 101, 39, 0), (2, 141, 14, 5)]


def test_a_batch_whose_beginning_or_end_was_never_heard_harms_nothing() -> None:
    """Marks are lost, a sidecar begins in the middle, a rank says what it likes."""
    rows = RankRows()
    collectives = OpenCollectives(rows)
    collectives.bind_batch(100, 12)
    collectives.waited(110, 120, 12)
    for seq in range(3):
        collectives.begin_batch()
        collectives.issue(130 + seq, 3, message(seq, "send"), call=False, backward=False)
    collectives.step_ended(4, 200)
    assert [seq for seq, *_ in told(rows)] == [0, 1, 2]
    collectives.bind_batch(210, None)
    collectives.bind_batch(211, 12)
    assert told(rows) == []


def test_a_batch_without_an_end_is_bounded() -> None:
    """So is what it holds on to."""
    rows, collectives = batch()
    for seq in range(3 * MOST_OPEN):
        collectives.issue(seq, 3, message(seq, "send"), call=False, backward=False)
    assert len(collectives.open()) == MOST_OPEN
    assert len(collectives._batch or []) <= MOST_OPEN
    assert len(told(rows)) == 2 * MOST_OPEN


@pytest.mark.long
def test_batches_that_nobody_waits_for_hold_on_to_nothing_that_has_ended() -> None:
    """However many there are, and however long."""
    collectives = OpenCollectives(RankRows())
    for number in range(40):
        collectives.begin_batch()
        for seq in range(500):
            collectives.issue(number, 3, message(seq, "send"), call=False, backward=False)
        collectives.bind_batch(number, number)
    assert sum(len(batch) for batch in collectives._works.values()) <= MOST_OPEN
