"""What is open of one key: kept small, stored with its state, and told again after a restart."""

import msgspec
import pytest

from paceline import topics
from streams.job_meters import JobMeters
from streams.keyed_state import Key, KeyedState
from streams.open_answers import MOST, OpenAnswers
from tests.derived_events import finding, suggestion


@pytest.fixture
def answers():
    return OpenAnswers()


def ids(answers):
    return [one.id for one in answers.all()]


def test_what_is_over_is_gone(answers):
    """A finding that has recovered, a suggestion that somebody dismissed."""
    answers.hear([finding(), finding(id="f2", state="suspected"), suggestion(), suggestion(id="s2", state="applied")])
    assert ids(answers) == ["f1", "f2", "s1", "s2"]
    answers.hear([finding(revision=2, state="recovered"), suggestion(revision=2, state="dismissed")])
    assert ids(answers) == ["f2", "s2"]


def test_it_is_small_and_bounded(answers):
    """No evidence and no words, and no more than so many."""
    for number in range(MOST + 5):
        answers.hear([finding(id=f"f{number}", summary="x" * 10_000), suggestion(id=f"s{number}", reason="x" * 10_000)])
    assert len(answers.all()) == 2 * MOST
    assert ids(answers)[0] == "f5"
    assert len(answers.snapshot()) < 2 * MOST * 1000


def test_restored_it_is_the_same(answers):
    """And what is no such state is refused."""
    answers.hear([finding(), suggestion()])
    assert OpenAnswers.restore(answers.snapshot()).all() == answers.all()
    with pytest.raises(ValueError, match="no open answers"):
        OpenAnswers.restore(b"\xc1nonsense")


class Says:
    """A decision that answers with a finding."""

    def update(self, event):
        return [finding()]

    def snapshot(self):
        return b""

    @classmethod
    def restore(cls, data):
        return cls()


ROUTES = {topics.OP.name: (Says,)}


def test_a_state_brings_what_is_open_back(make_training):
    """Through the snapshot of its key; one of before has none, and one that is broken costs nothing else."""
    state = KeyedState(ROUTES)
    state.update(topics.OP, make_training(seconds=1)[0])
    restored = KeyedState.restore(state.snapshot(), ROUTES)
    assert [one.id for one in restored.open.all()] == ["f1"]
    parts = msgspec.msgpack.decode(state.snapshot(), type=dict[str, bytes])
    for odd in ({}, {"OpenAnswers": b"\xc1"}):
        read = KeyedState.restore(msgspec.msgpack.encode({"Says": parts["Says"], **odd}), ROUTES)
        assert (list(read.decisions), read.open.all()) == (["Says"], [])


def test_meters_tell_it_again_and_count_it_no_second_time(answers):
    """After a restart of the worker."""
    answers.hear([finding(), suggestion()])
    meters = JobMeters()
    meters.restore(Key("job", "c", "train", 0), answers.all(), 0.0, 1000.0)
    values = meters.values(0.0, 1000.0)
    assert list(values.findings.values()) == [1]
    assert values.lost_s == {("train", "straggler"): 12.5}
    assert values.suggestions == {("cordon_node", "new"): 1}
    assert not meters.told
