"""What two ranks of a real run sent, and on which connection each message came."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from paceline.sidecar import rank_messages
from paceline.training.messages import RankMessage

_MESSAGES = Path(__file__).parent / "recorded" / "messages.jsonl"
_KINDS = {"hello": rank_messages.Hello, "marks": rank_messages.Marks, "bye": rank_messages.Bye}


def recorded_messages() -> Iterator[tuple[int, RankMessage]]:
    """Connection and message, in the order in which they came."""
    for line in _MESSAGES.read_bytes().splitlines():
        sent = msgspec.json.decode(line)
        yield sent["connection"], msgspec.convert(sent["message"], _KINDS[sent["message"]["type"]])
