"""What waits for a tracker: in order, bounded, and tried ever more seldom."""

from random import Random

from paceline.tracking.backlog import AT_ONCE, CAP_S, Backlog


def test_a_tracker_that_is_away_for_hours_costs_a_bounded_memory_and_few_attempts() -> None:
    backlog: Backlog[int] = Backlog(Random(3), most=500)
    attempts = []
    for second in range(4 * 3600):
        backlog.add(second)
        if backlog.due(float(second)):
            attempts.append(second)
            backlog.failed(float(second))
    assert backlog.waiting == 500
    assert backlog.lost == 4 * 3600 - 500
    assert len(attempts) < 4 * 3600 / (CAP_S / 2) + 10
    assert backlog.due(1e9) == list(range(4 * 3600 - 500, 4 * 3600 - 500 + AT_ONCE))


def test_what_was_taken_is_gone_and_the_next_is_due_at_once() -> None:
    backlog: Backlog[str] = Backlog(Random(3))
    for word in ("a", "b", "c"):
        backlog.add(word)
    backlog.failed(10.0)
    assert backlog.due(10.0) == []
    assert backlog.due(10.0, last=True) == ["a", "b", "c"]
    backlog.done(1)
    backlog.refuse(1)
    assert (backlog.due(10.0), backlog.logged, backlog.refused) == (["c"], 1, 1)


def test_what_goes_for_want_of_room_while_it_is_on_its_way_was_logged_all_the_same() -> None:
    """And nothing that was not on its way counts as logged."""
    backlog: Backlog[int] = Backlog(Random(3), most=3)
    for number in range(3):
        backlog.add(number)
    assert backlog.due(0.0) == [0, 1, 2]
    for number in (3, 4):
        backlog.add(number)
    backlog.done(2)
    assert (backlog.logged, backlog.lost, backlog.due(0.0)) == (2, 0, [2, 3, 4])
