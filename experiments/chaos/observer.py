"""What a consumer holds: findings, dead letters, and which messages of every producer came.

Rule of this file: it only reads, through every outage, and keeps what the verdict needs.
"""

import json
import threading
from collections import defaultdict
from types import TracebackType

import msgspec

from paceline import topics
from paceline.decoders import json_decoder, msgpack_decoder
from paceline.kafka.follow import BEGINNING, Follower
from paceline.kafka.settings import BrokerSettings
from paceline.supervised import SupervisedThread

from .verdict import Found
from .workload import Message

#: Topics whose messages are counted; of a compacted one the brokers keep the newest alone.
COUNTED = (topics.OP, topics.COLLECTIVE, topics.DEVICE, topics.HOST)


class _Numbered(msgspec.Struct):
    producer: str = ""
    sequence: int = -1


#: By topic and producer, the numbers of its messages.
Numbers = dict[tuple[str, str], set[int]]


def numbers(messages: list[Message]) -> Numbers:
    """The numbers that ``messages`` bear, of the topics that are counted."""
    found: Numbers = defaultdict(set)
    names = {topic.name for topic in COUNTED}
    for message in messages:
        if message.topic in names:
            _count(found, message.topic, message.value)
    return found


def _count(found: Numbers, topic: str, value: bytes) -> None:
    decoder = (json_decoder if topics.BY_NAME[topic].encoding == "json" else msgpack_decoder)(_Numbered)
    try:
        numbered = decoder.decode(value)
    except msgspec.DecodeError:
        return  # Nonsense that an attack put there.
    found[topic, numbered.producer].add(numbered.sequence)


def missing(sent: Numbers, came: Numbers) -> int:
    """How many of the messages sent never came."""
    return sum(len(wanted - came.get(key, set())) for key, wanted in sent.items())


class Observer:
    """Reads everything from the beginning in a thread of its own, until the block ends."""

    def __init__(self, settings: BrokerSettings) -> None:
        self.findings: list[Found] = []
        #: By the place of the message that was refused: one that is refused again is told again.
        self.dead_letters: dict[tuple[str, int, int], Found] = {}
        self.came: Numbers = defaultdict(set)
        self._stop = threading.Event()
        starts = dict.fromkeys((topics.FINDING, topics.DEADLETTER, *COUNTED), BEGINNING)
        self._follower = Follower(settings, starts, "chaos-observer", resume=True, stop=self._stop)
        self._thread = SupervisedThread("chaos observer", self._read, self._stop)

    def __enter__(self) -> "Observer":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.stop(10.0)

    def _read(self) -> None:
        with self._follower:
            while not self._stop.is_set():
                for topic, records in self._follower.poll():
                    for record in records:
                        if record.value is not None:
                            self._take(topic.name, record.value)
                self._thread.well()

    def _take(self, topic: str, value: bytes) -> None:
        if topic == topics.FINDING.name:
            self.findings.append(json.loads(value))
        elif topic == topics.DEADLETTER.name:
            letter = json.loads(value)
            self.dead_letters[letter["topic"], letter["partition"], letter["offset"]] = letter
        else:
            _count(self.came, topic, value)
