"""What two ranks of a real run sent becomes the events stored beside it."""

import json
from pathlib import Path

from paceline import wire
from paceline.sidecar.batch import Batcher, Origin, Outgoing
from paceline.sidecar.decode import MarkDecoder
from paceline.training.messages import Bye, Hello, RankMessage
from tests.paceline.sidecar.recorded_messages import recorded_messages

RECORDED = Path(__file__).parent / "recorded"
#: Between two messages, on the clock of the batcher.
EVERY_S = 0.05


class Speaker:
    """One connection."""

    def __init__(self, batcher: Batcher, hello: Hello) -> None:
        self.batcher, self.rank, self.key, self.decoder = batcher, hello.rank, batcher.join(hello), MarkDecoder()

    def say(self, message: RankMessage) -> None:
        report = self.decoder.end() if isinstance(message, Bye) else self.decoder.decode(message)
        if report is not None:
            self.batcher.update(self.key, self.rank, report)
        if isinstance(message, Bye):
            self.batcher.leave(self.key, self.rank, message.ended_s)


def published() -> list[Outgoing]:
    """The events of the recorded messages."""
    batcher, speakers, outgoing = Batcher(Origin("default", "n1", "p")), {}, []
    for number, (connection, message) in enumerate(recorded_messages()):
        if isinstance(message, Hello):
            speakers[connection] = Speaker(batcher, message)
        else:
            speakers[connection].say(message)
        outgoing += batcher.tick(number * EVERY_S)
    return outgoing + batcher.end(2e9, 0)


def test_recorded_messages_become_the_same_events():
    """Topic, key and all that another reads in every event are as they were when the messages were recorded."""
    expected = [json.loads(line) for line in (RECORDED / "events.jsonl").read_bytes().splitlines()]
    events = [
        {
            "topic": one.topic.name,
            "key": one.key,
            "value": wire.readable(wire.decode(one.topic, wire.encode(one.event))),
        }
        for one in published()
    ]
    assert events == expected
