"""How many partitions a worker's topics must have: as many as the others, whoever made them."""

import pytest

from paceline import topics
from paceline.kafka.topic_admin import TopicDescription
from streams.faust_app import CHANGELOG, NEEDED, SOURCES
from streams.joining import alike, odd


def table(partitions: int) -> dict[str, int]:
    """Where keyed topics have so many partitions."""
    return {topic.name: topic.split(partitions) for topic in NEEDED}


def described(counts: dict[str, int]) -> dict[str, TopicDescription]:
    return {name: TopicDescription("", count) for name, count in counts.items()}


@pytest.mark.parametrize("count", [1, 2, 12, 48])
def test_topics_that_are_all_alike_are_joined(count: int):
    found = described(table(count))
    assert (alike(found, NEEDED), odd(found, (*SOURCES, CHANGELOG))) == (count, [])


def test_what_is_missing_is_made_like_the_others():
    """Its own changelog at a first start, and a topic that was deleted."""
    found = described(table(2))
    del found[CHANGELOG.name], found[topics.OP.name]
    assert alike(found, NEEDED) == 2


def test_a_few_that_a_broker_made_by_itself_say_nothing_of_the_others():
    """Collectors and a run published first, to a broker that makes topics of one partition."""
    few = described({topic.name: 1 for topic in (topics.OP, topics.HOST, topics.JOB)})
    assert alike(few, NEEDED) is None
    assert alike({}, NEEDED) is None


@pytest.mark.parametrize("others", [2, 12])
@pytest.mark.parametrize("name", [topics.OP.name, CHANGELOG.name])
def test_one_that_differs_is_told_with_what_it_must_have(others: int, name: str):
    """A job's events would meet in several workers."""
    (line,) = odd(described({**table(others), name: 5}), (*SOURCES, CHANGELOG))
    assert f"{name} has 5 partitions, and must have {others}: delete it" in line
