"""Topics that are other ones than those that a worker joined are named, once they are there or have long been gone."""

from streams.topic_watch import GONE_S, TopicWatch

JOINED = {"op": ("id-1", 12), "job": ("id-2", 12)}


def test_the_same_topics_are_no_change():
    """However often they are looked at."""
    watch = TopicWatch(JOINED)
    assert [watch.update(dict(JOINED), now_s) for now_s in (0.0, 100.0)] == [[], []]


def test_another_id_or_another_number_of_partitions_is_a_change():
    """Whether it was gone in between or not."""
    watch = TopicWatch(JOINED)
    assert watch.update({"op": ("id-3", 12), "job": ("id-2", 24)}, 0.0) == ["job", "op"]


def test_a_topic_that_is_gone_is_waited_for():
    """It may be about to be made again; only when it does not come, it counts."""
    watch = TopicWatch(JOINED)
    gone = {"job": JOINED["job"]}
    assert watch.update(gone, 50.0) == []
    assert watch.gone == ["op"]
    assert watch.update(gone, 50.0 + GONE_S - 0.1) == []
    assert watch.update(gone, 50.0 + GONE_S) == ["op"]


def test_a_topic_that_is_there_again_was_never_gone():
    """A broker that had not heard of it for a moment: the time begins again."""
    watch = TopicWatch(JOINED)
    gone = {"job": JOINED["job"]}
    assert watch.update(gone, 0.0) == []
    assert watch.update(JOINED, 5.0) == []
    assert watch.gone == []
    assert watch.update(gone, GONE_S) == []
