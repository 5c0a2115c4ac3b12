"""Rows as arrays: every row of every message once, in order, made once for all who read them."""

import msgspec
import pytest

from paceline.events import OP_INDEX
from streams.step_rows import UNKNOWN, SharedRows, op_rows


@pytest.fixture
def messages(make_training):
    """Two nodes, one second each."""
    return make_training(ranks=2, seconds=1)


def column(messages, name):
    return [value for message in messages for value in getattr(message, name)]


def test_rows_keep_the_order_of_the_messages(messages):
    """Columns are equally long and as they came."""
    rows = op_rows(messages)
    for name in ("rank", "step", "microbatch", "duration_s"):
        assert getattr(rows, name).tolist() == column(messages, name)
    assert op_rows(messages[::-1]).rank.tolist() == column(messages[::-1], "rank")


def test_starts_are_absolute_on_each_nodes_clock(messages):
    """A clock that was set back is told as it is."""
    back = msgspec.structs.replace(messages[1], t0_s=-3600.0)
    starts = op_rows([messages[0], back]).start_s.tolist()
    assert starts[0] == messages[0].t0_s + messages[0].start_s[0]
    assert starts[-1] == -3600.0 + back.start_s[-1]


def test_messages_with_words_of_their_own_are_numbered_alike(messages):
    """The same op has one number, whatever place it has in its message."""
    count = len(messages[0].ops)
    turned = msgspec.structs.replace(
        messages[0], ops=messages[0].ops[::-1], op=[count - 1 - place for place in messages[0].op]
    )
    assert op_rows([turned]).op.tolist() == op_rows(messages[:1]).op.tolist()
    assert op_rows(messages[:1]).op.tolist()[:2] == [OP_INDEX["data"], OP_INDEX["forward"]]


@pytest.mark.parametrize("place", [-1, 99, 2**40])
def test_an_op_of_no_word_is_unknown(messages, place):
    """Also one whose word nobody knows."""
    odd = msgspec.structs.replace(messages[0], op=[place, *messages[0].op[1:]])
    assert op_rows([odd]).op.tolist()[0] == UNKNOWN
    strange = msgspec.structs.replace(messages[0], ops=["tea", *messages[0].ops[1:]])
    assert op_rows([strange]).op.tolist()[0] == UNKNOWN


def test_a_message_without_rows_adds_none(messages):
    """Alone and between others."""
    names = ("rank", "step", "op", "microbatch", "start_s", "duration_s")
    empty = msgspec.structs.replace(messages[0], **{name: [] for name in names})
    assert op_rows([empty]).rank.size == 0
    assert op_rows([messages[0], empty]).rank.tolist() == messages[0].rank


def test_rows_cannot_be_written_to(messages):
    """Several read them."""
    with pytest.raises(ValueError, match="read-only"):
        op_rows(messages).rank[0] = 7


def test_the_same_messages_are_made_arrays_of_once(messages):
    """Asked again, also with another list of the same messages, it answers the same; other messages are other rows."""
    arrays = SharedRows()
    rows = arrays.of(messages)
    assert arrays.of(list(messages)) is rows
    assert arrays.of(messages[:1]).rank.tolist() == messages[0].rank
    equal = [msgspec.structs.replace(message) for message in messages]
    assert arrays.of(equal) is not rows


def test_what_was_let_go_is_made_again(messages):
    """Nothing of a message is kept."""
    arrays = SharedRows()
    rows = arrays.of(messages)
    arrays.clear()
    assert (arrays.batches, arrays.rows) == ((), None)
    assert arrays.of(messages) is not rows
