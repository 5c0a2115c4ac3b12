"""What a recorder that was killed left: each message is kept, once, also of a topic that was made again meanwhile."""

import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

import pytest

from control.recorder.progress import Progress
from control.sessions import repair as repairs
from control.sessions.folder import SessionFolder
from control.sessions.manifest import read_definition, read_manifest
from control.sessions.repair import next_number, repair
from control.sessions.segments import SegmentWriter, Stored, stored_lines
from paceline import wire
from paceline.recording import Bad
from paceline.topics import HOST
from tests.control.conftest import host_samples

PLACE = (HOST.name, 0)


class Record(NamedTuple):
    """A message of a broker's."""

    offset: int
    value: bytes
    topic: str = HOST.name
    partition: int = 0
    timestamp: int = 1_800_000_000_000
    key: bytes | None = None


def records(producer: str, offsets: Iterable[int]) -> list[Record]:
    return [Record(offset, wire.encode(host_samples("n1", producer, offset))) for offset in offsets]


def left(folder: SessionFolder, written: Iterable[Record]) -> None:
    """A recorder has written these into a segment, and was killed before its manifest reported them."""
    writer = SegmentWriter(folder.path, next_number(folder.path), time.monotonic)
    for record in written:
        writer.write(record, "n1")
    writer.sync()
    writer.abandon()


def repaired(folder: SessionFolder) -> tuple[list[int], Progress]:
    """The offsets of the messages in the repaired segments, and how far the session has come then."""
    manifest = read_manifest(folder.manifest)
    progress = Progress(read_definition(folder.definition), manifest)

    def stored(one: Stored) -> None:
        progress.stored(one.line.topic, one.line.key, one.line.value, one.place, one.offset)

    segments = repair(folder.path, manifest, stored).segments
    lines = [line for segment in segments for line in stored_lines(folder.path / segment.file)]
    return [line.offset for line in lines if not isinstance(line, Bad)], progress


def test_messages_of_a_topic_that_was_made_again_stay_and_the_next_are_recorded(
    begun: Callable[..., SessionFolder],
) -> None:
    """Its offsets begin at 0 again, within the same segment: those are no repeats."""
    folder = begun()
    left(folder, [*records("before", range(6)), *records("after", range(3))])
    offsets, progress = repaired(folder)
    assert offsets == [0, 1, 2, 3, 4, 5, 0, 1, 2]
    came = [
        progress.came(HOST, "n1", one.value, PLACE, one.offset, time.time()) for one in records("after", range(2, 5))
    ]
    assert came == [False, True, True]


@pytest.mark.parametrize(("remembered", "kept"), [(1_000_000, [0, 1, 2, 3]), (2, [0, 1, 2, 2, 3])])
def test_a_message_in_two_segments_is_kept_once(
    begun: Callable[..., SessionFolder], monkeypatch: pytest.MonkeyPatch, remembered: int, kept: list[int]
) -> None:
    """Of a recorder that was killed twice at the same place; what is remembered is bounded, and no message is lost."""
    monkeypatch.setattr(repairs, "MOST_REMEMBERED", remembered)
    folder, sent = begun(), records("one", range(4))
    for count in (3, 4, 2):
        left(folder, sent[:count])
    assert repaired(folder)[0] == kept
