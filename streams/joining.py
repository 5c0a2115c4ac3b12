"""The topics that a worker needs: waited for, made where they are missing, and looked at.

Rule of this file: it ends with topics that a worker can join, or says why there are none.
"""

import time
from collections.abc import Callable, Mapping, Sequence

from paceline.kafka.errors import BusError
from paceline.kafka.reach import wait_for_broker
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.topic_admin import TopicDescription, describe_topics, ensure_topics
from paceline.topics import TOPICS, Topic, usual_partitions

#: Between two tries; between two lines that say the same of a broker that is waited for.
AGAIN_S, AGAIN_SAID_S = 2.0, 15.0
#: What a job's events need: the same partition in every topic, and one of the changelog.
FIX = "delete it when its data may go (kafka-topics.sh --delete); it is made again as it must be"


def alike(joined: Mapping[str, TopicDescription], needed: Sequence[Topic]) -> int | None:
    """How many partitions most of ``needed`` have, of those in the table of topics; None where they do not agree."""
    counts = {name: topic.partitions for name, topic in joined.items()}
    return usual_partitions(counts, [topic for topic in needed if topic in TOPICS])


def odd(joined: Mapping[str, TopicDescription], needed: Sequence[Topic]) -> list[str]:
    """A line for each topic that has other partitions than its jobs need: as many as the others."""
    usual = alike(joined, needed)
    return [
        f"{topic.name} has {joined[topic.name].partitions} partitions, and must have {topic.split(usual)}: {FIX}"
        for topic in needed
        if joined[topic.name].partitions != topic.split(usual)
    ]


def joined(
    settings: BrokerSettings, wait_s: float, needed: Sequence[Topic], say: Callable[[str], None]
) -> dict[str, TopicDescription]:
    """The topics that a worker needs, made where they are missing.

    A cluster of which only some nodes answer lets us in and can do no more: it is waited for like one that is away.

    Raises:
        BusError: no brokers within ``wait_s`` seconds, or waiting cannot help.
    """
    end, waiting = time.monotonic() + wait_s, _Waiting(say)
    while True:
        try:
            left_s = max(end - time.monotonic(), 0.0)
            wait_for_broker(settings, left_s, waiting.update)
            names = [topic.name for topic in needed]
            ensure_topics(settings, needed)
            found = describe_topics(settings, names)
        except BusError as error:
            if error.permanent or time.monotonic() >= end:
                raise
            waiting.update(str(error))
        else:
            missing = [topic.name for topic in needed if topic.name not in found]
            if not missing:
                return found
            say(f"waiting for {', '.join(missing)}: just made, or just deleted")
        time.sleep(AGAIN_S)


class _Waiting:
    """Says why a broker is waited for: at once, when the reason is another, and else every ``AGAIN_SAID_S`` seconds."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say, self._said = say, ("", 0.0)

    def update(self, cause: str) -> None:
        now = time.monotonic()
        if self._said[0] != cause or now - self._said[1] >= AGAIN_SAID_S:
            self._said = cause, now
            self._say(f"waiting for a broker: {cause}")
