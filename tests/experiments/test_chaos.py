"""What chaos judges by: findings that differ, messages that never came, and the same jobs for the same seed."""

import pytest

from experiments.chaos.observer import missing, numbers
from experiments.chaos.verdict import contradictions, differences, last_revisions
from experiments.chaos.workload import Message, fleet, found_undisturbed, messages
from paceline import topics, wire


def finding(name="a", revision=0, **more):
    return {"id": name, "revision": revision, "job": "job-1", **more}


def test_the_last_revision_counts_whatever_the_order():
    """A consumer may see an older revision later."""
    held = [finding(revision=1, state="confirmed"), finding(revision=0, state="suspected")]
    assert last_revisions(held)["a"]["state"] == "confirmed"
    assert not differences(held, [*held, *reversed(held)])


def test_what_differs_is_named():
    """What is missing, what is too much, and the fields in which a last revision is another."""
    wanted = [finding("gone"), finding("same"), finding("other", 3, cause="gc")]
    held = [finding("same"), finding("other", 3, cause="link"), finding("new")]
    assert [(one.id, one.what) for one in differences(wanted, held)] == [
        ("gone", "missing"),
        ("new", "not found undisturbed"),
        ("other", "another cause: 'gc' is 'link'"),
    ]
    assert [one.what for one in differences([finding(revision=2)], [finding(revision=1)])] == [
        "another revision: 2 is 1"
    ]


def test_a_revision_told_twice_says_the_same():
    """Repetitions are allowed, contradictions are not."""
    assert not contradictions([finding(cause="gc"), finding(cause="gc")])
    (one,) = contradictions([finding(cause="gc"), finding(cause="link")])
    assert one.what == "revision 0 was told twice, with another cause: 'gc' is 'link'"


def test_missing_messages_are_counted_by_producer_and_topic():
    """The same number of another producer, or on another topic, is another message; nonsense has no number."""
    sent = [
        Message(0.0, topic.name, None, wire.encode_untyped(topic, {"producer": producer, "sequence": at}), 0)
        for topic in (topics.OP, topics.HOST, topics.JOB)
        for producer in ("p", "q")
        for at in range(3)
    ]
    there = numbers(sent)
    assert sum(map(len, there.values())) == 12, "of a compacted topic nobody has to keep every message"
    assert missing(there, numbers(sent)) == 0
    assert missing(there, numbers(sent[1:])) == 1
    assert numbers([Message(0.0, topics.OP.name, None, b"\xff nonsense", 0)]) == {}


@pytest.mark.slow
def test_the_same_seed_is_the_same_fleet():
    """In the order of time, healthy jobs and slow ones in turn, and something is found in the slow ones alone."""
    sent = messages(fleet(2, 5, 1.8e9))
    assert sent == messages(fleet(2, 5, 1.8e9)) != messages(fleet(2, 6, 1.8e9))
    assert [message.at_s for message in sent] == sorted(message.at_s for message in sent)
    assert {one["job"] for one in found_undisturbed(sent)} == {"job-1"}
