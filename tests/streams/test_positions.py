"""A message missing in the middle is noticed and read again; a gap of the broker's own is accepted."""

from streams.offsets import Partition
from streams.positions import RETRY_S, PositionCheck, Positions

AT = Partition("op", 3)


def started(offset=10):
    positions = Positions()
    positions.start(AT, offset)
    return positions


def test_messages_in_order_are_taken():
    """One after the other."""
    positions = started()
    assert [positions.judge(AT, offset, 0.0) for offset in (10, 11, 12)] == [PositionCheck.TAKE] * 3


def test_a_message_that_came_before_is_skipped():
    """What was taken is not taken twice."""
    positions = started()
    assert positions.judge(AT, 9, 0.0) is PositionCheck.SKIP


def test_a_missing_stretch_is_read_again_and_nothing_after_it_is_taken():
    """The first message beyond asks for a seek; those in flight behind it are skipped, until the missing ones come."""
    positions = started()
    said = [positions.judge(AT, offset, 0.0) for offset in (50, 51, 52, 10, 11)]
    assert said == [PositionCheck.SEEK, PositionCheck.SKIP, PositionCheck.SKIP, PositionCheck.TAKE, PositionCheck.TAKE]


def test_a_gap_of_the_broker_is_accepted():
    """Where the reading again brings the same message first, nothing lies in between."""
    positions = started()
    said = [positions.judge(AT, offset, 0.0) for offset in (50, 50, 51)]
    assert said == [PositionCheck.SEEK, PositionCheck.TAKE, PositionCheck.TAKE]


def test_a_seek_without_effect_is_tried_again():
    """Not at once, but after a while."""
    positions = started()
    positions.judge(AT, 50, 0.0)
    assert positions.judge(AT, 60, RETRY_S / 2) is PositionCheck.SKIP
    assert positions.judge(AT, 61, RETRY_S) is PositionCheck.SEEK


def test_offsets_that_were_passed_over_are_no_gap():
    """A batch that cannot be unpacked, or two, told before or after the messages in front of it are taken."""
    positions = started()
    positions.pass_over(AT, 11, 20)
    positions.pass_over(AT, 20, 21)
    assert [positions.judge(AT, offset, 0.0) for offset in (10, 21, 22)] == [PositionCheck.TAKE] * 3
    assert positions.gaps_seen == 0


def test_a_batch_damaged_behind_its_last_message_takes_no_offset():
    """All it held was read: nothing is passed over, and asking what is due comes to an end."""
    positions = started()
    assert positions.judge(AT, 10, 0.0) == PositionCheck.TAKE
    positions.pass_over(AT, 11, 11)
    assert positions.due(AT, None) == 11
    assert positions.judge(AT, 11, 0.0) == PositionCheck.TAKE


def test_what_was_passed_over_is_not_due():
    """Also at the end of a partition, where no message comes that shows it; asking changes nothing."""
    positions = Positions()
    assert positions.due(AT, None) is None
    assert positions.due(AT, 11) == 11
    positions.pass_over(AT, 11, 20)
    positions.pass_over(AT, 20, 21)
    assert [positions.due(AT, 11), positions.due(AT, 10), positions.due(AT, None)] == [21, 10, None]
    positions.start(AT, 20)
    assert [positions.due(AT, 11), positions.judge(AT, 21, 0.0)] == [21, PositionCheck.TAKE]
