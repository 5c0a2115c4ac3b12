"""Arrays of messages are made once for all who read them."""

import msgspec
import pytest

from streams.shared_rows import SharedRows


@pytest.fixture
def messages(make_training):
    """Two nodes, one second each."""
    return make_training(ranks=2, seconds=1)


@pytest.mark.parametrize("what", ["of", "sums_of"])
def test_the_same_messages_are_made_arrays_of_once(messages, make_summed, what):
    """Asked again, also with another list of the same messages, it answers the same; other messages are other rows."""
    messages = messages if what == "of" else [make_summed(), make_summed()]
    arrays = getattr(SharedRows(), what)
    rows = arrays(messages)
    assert arrays(list(messages)) is rows
    assert arrays(messages[:1]) is not rows
    rows = arrays(messages)
    equal = [msgspec.structs.replace(message) for message in messages]
    assert arrays(equal) is not rows


def test_what_was_let_go_is_made_again(messages, make_summed):
    """Nothing of a message is kept."""
    shared = SharedRows()
    rows, summed = shared.of(messages), shared.sums_of([make_summed()])
    shared.clear()
    assert {name: value for name, value in vars(shared).items() if value} == {}
    assert shared.of(messages) is not rows
    assert shared.sums_of([make_summed()]) is not summed
