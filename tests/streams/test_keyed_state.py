"""All that is decided about one key: told together, stored together, and each restored as far as it can be."""

import logging

import msgspec
import pytest

from paceline import topics
from paceline.events import Thresholds
from streams.keyed_state import Key, KeyedState, state_key


class Tally:
    """A decision that counts its events, and says how many there were when it is told that no more come."""

    LAYOUT = 1

    def __init__(self):
        self.count = 0
        self.backlog = None
        self.most = None

    def update(self, event):
        self.count += 1
        return [f"{type(self).__name__} {self.count}"]

    def finish(self):
        return [f"{type(self).__name__} at the end"]

    def share_backlog(self, backlog):
        self.backlog = backlog

    def bound_ranks(self, most):
        self.most = most

    def snapshot(self):
        return bytes([self.LAYOUT, self.count])

    @classmethod
    def restore(cls, data):
        if data[0] != cls.LAYOUT:
            raise ValueError(f"not a snapshot: layout {data[0]}")
        made = cls()
        made.count = data[1]
        return made


class Other(Tally):
    """Another one."""


class Plain:
    """A decision that offers nothing beyond what it must."""

    def update(self, event):
        return []

    def snapshot(self):
        return b"plain"

    @classmethod
    def restore(cls, data):
        return cls()


BOTH = {topics.OP.name: (Tally, Other), topics.COLLECTIVE.name: (Tally,), topics.HOST.name: ()}


@pytest.fixture
def event(make_training):
    """Any event of a job."""
    return make_training(seconds=1)[0]


# --- keys ------------------------------------------------------------------------------------------------------------


def test_what_belongs_together_has_one_key(make_training, make_device_samples, make_host_samples):
    """All topics of an attempt of a job, and all of a node; a job and a node of one name are two."""
    op, device, host = make_training(seconds=1)[0], make_device_samples(1)[0], make_host_samples(1)[0]
    change = Thresholds(cluster="c", job="job", attempt=0, values={})
    assert state_key(topics.OP, op) == state_key(topics.THRESHOLD, change) == Key("job", "c", "job", 0)
    assert state_key(topics.DEVICE, device) == state_key(topics.HOST, host) == Key("node", "c", "node-0", -1)
    assert state_key(topics.DEVICE, msgspec.structs.replace(device, node="job")) != state_key(topics.OP, op)


def test_attempts_clusters_and_jobs_have_keys_of_their_own(event):
    """Whatever differs; which of its nodes told of the job does not count."""
    others = [{}, {"attempt": 1}, {"cluster": "d"}, {"job": "k"}, {"node": "elsewhere"}, {"producer": "else"}]
    keys = [state_key(topics.OP, msgspec.structs.replace(event, **other)) for other in others]
    assert len(set(keys)) == 4
    assert keys[0] == keys[4] == keys[5]


@pytest.mark.parametrize("name", ["", "job", 'a"b', "a|b#0.1", "a\nb", "\u00e9\u4e2d", "[]"])
def test_a_key_is_one_line_and_comes_back(name):
    """Whatever people call their jobs: no two keys have the same text."""
    key = Key("job", "c", name, 2**53)
    assert "\n" not in key.text()
    assert Key.read(key.text()) == key
    assert Key("job", "c", "d" + name, 0).text() != Key("job", "cd", name, 0).text()


@pytest.mark.parametrize("text", ["", "job", "[]", '["job","c","j"]', '["job","c","j","0"]', '["job","c","j",0,1]'])
def test_what_writes_no_key_is_refused(text):
    """Too short, too long, of other types, or nothing."""
    with pytest.raises(msgspec.DecodeError):
        Key.read(text)


# --- events ----------------------------------------------------------------------------------------------------------


def test_every_decision_of_a_topic_is_told_and_answers_in_their_order(event):
    """Each is made when its first event comes, and is told the next ones as well."""
    state = KeyedState(BOTH)
    assert state.update(topics.COLLECTIVE, event) == ["Tally 1"]
    assert list(state.decisions) == ["Tally"]
    assert state.update(topics.OP, event) == ["Tally 2", "Other 1"]
    assert state.update(topics.OP, event) == ["Tally 3", "Other 2"]


def test_a_topic_that_nobody_wants_is_no_news(event):
    """Of no decision, or not in the table at all; no decision is made for it."""
    state = KeyedState(BOTH)
    assert state.update(topics.HOST, event) == state.update(topics.DEVICE, event) == []
    assert (state.decisions, state.finish()) == ({}, [])


def test_no_table_is_the_one_of_the_service_and_an_empty_one_is_empty(event):
    """A job's phases go to its state."""
    whole, nothing = KeyedState(), KeyedState({})
    whole.update(topics.OP, event)
    nothing.update(topics.OP, event)
    assert list(whole.decisions) == ["JobState"]
    assert nothing.decisions == {}
    assert list(KeyedState.restore(whole.snapshot()).decisions) == ["JobState"]


def test_all_that_held_something_back_say_it_at_the_end(event):
    """In the order in which they were made; a decision that holds nothing back is not asked."""
    state = KeyedState({topics.OP.name: (Plain, Other, Tally)})
    state.update(topics.OP, event)
    assert state.finish() == ["Other at the end", "Tally at the end"]


def test_decisions_judge_as_many_together_as_there_are_at_hand(event):
    """All of one key by one number, also after a restart."""
    state = KeyedState(BOTH)
    state.update(topics.OP, event)
    for one in (state, KeyedState.restore(state.snapshot(), BOTH)):
        one.update(topics.OP, event, at_once=7)
        assert {decision.backlog.at_once for decision in one.decisions.values()} == {7}
        one.update(topics.OP, event)
        assert {decision.backlog.at_once for decision in one.decisions.values()} == {0}


def test_every_decision_that_keeps_ranks_is_told_the_bound(event):
    """When it is made, and when it is restored: the bound is the worker's and no part of the state."""
    first = KeyedState(BOTH, most_ranks=7)
    first.update(topics.OP, event)
    second = KeyedState.restore(first.snapshot(), BOTH, most_ranks=9)
    assert [one.most for one in first.decisions.values()] == [7, 7]
    assert [one.most for one in second.decisions.values()] == [9, 9]
    assert KeyedState.restore(first.snapshot(), BOTH).decisions["Tally"].most == KeyedState(BOTH).most_ranks


# --- state -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [0, 1, 2, 3])
def test_restored_it_goes_on_as_if_nothing_had_happened(event, cut):
    """Before the first event, and between any two."""
    events = [topics.COLLECTIVE, topics.OP, topics.OP]
    state, said = KeyedState(BOTH), []
    for number, topic in enumerate(events):
        if number == cut:
            state = KeyedState.restore(state.snapshot(), BOTH)
        said += state.update(topic, event)
    assert said == ["Tally 1", "Tally 2", "Other 1", "Tally 3", "Other 2"]
    again = KeyedState.restore(state.snapshot(), BOTH)
    assert again.snapshot() == state.snapshot()


def test_a_decision_of_another_version_restarts_alone(event, caplog, monkeypatch):
    """The others go on where they were, and the log says which restarts, and why."""
    state = KeyedState(BOTH)
    state.update(topics.OP, event)
    data = state.snapshot()
    monkeypatch.setattr(Other, "LAYOUT", 2)
    with caplog.at_level(logging.WARNING):
        again = KeyedState.restore(data, BOTH)
    assert caplog.messages == ["Other restarts: its stored state is not readable (not a snapshot: layout 1)"]
    assert again.update(topics.OP, event) == ["Tally 2", "Other 1"]


def test_a_decision_that_is_no_more_is_passed_over(event, caplog):
    """Its stored part is named and not kept."""
    state = KeyedState(BOTH)
    state.update(topics.OP, event)
    with caplog.at_level(logging.WARNING):
        again = KeyedState.restore(state.snapshot(), {topics.OP.name: (Tally,)})
    assert caplog.messages == ["Other is no decision of this version: its stored state is not read"]
    assert list(again.decisions) == ["Tally"]
    assert again.update(topics.OP, event) == ["Tally 2"]


def test_a_state_of_no_decision_is_a_state():
    """Stored before the first event; nothing is said of it."""
    assert KeyedState.restore(KeyedState().snapshot()).decisions == {}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        msgspec.msgpack.encode([1]),
        msgspec.msgpack.encode({"Tally": "text"}),
        KeyedState().snapshot()[:-1],
    ],
)
def test_what_is_no_state_is_refused(data):
    """Nothing, nonsense, a list, parts that are no bytes, cut short."""
    with pytest.raises(ValueError, match=r"^not a snapshot: "):
        KeyedState.restore(data, BOTH)


def test_parts_are_stored_under_the_names_of_their_decisions(event):
    """As each describes itself, beside the launch that is judged."""
    state = KeyedState()
    state.update(topics.OP, event)
    assert state.launches is not None
    assert msgspec.msgpack.decode(state.snapshot()) == {
        "JobState": state.decisions["JobState"].snapshot(),
        "Launches": state.launches.snapshot(),
    }
