"""No number that a message can hold stops a worker: it is refused on reading, or judged, stored and read back."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paceline import topics, wire
from paceline.topics import Topic
from streams.processor import Processor

GOLDEN = Path(__file__).parents[1] / "paceline" / "golden"
RAW: dict[str, tuple[Topic, str]] = {
    "DeviceSamples": (topics.DEVICE, "v1"),
    "HostSamples": (topics.HOST, "v1"),
    "NodeDescribed": (topics.NODE, "v1"),
    "Thresholds": (topics.THRESHOLD, "v1.2"),
}
WHOLE = (2**53 + 1, 2**63 - 1, 2**63, 2**64, 2**70, -1, -(2**63), -(2**70))
NUMBERS = (*WHOLE, 1e11, 1e15, 1e300, -1e300, math.nan, math.inf)
Place = tuple[str | int, ...]


def places(value: Any, at: Place = ()) -> Iterator[Place]:
    """Where ``value`` holds numbers."""
    if isinstance(value, dict):
        for name, one in value.items():
            yield from places(one, (*at, name))
    elif isinstance(value, list):
        for index, one in enumerate(value):
            yield from places(one, (*at, index))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield at


def mutated(whole: Any, at: Place, number: float) -> bytes:
    """``whole`` as JSON with ``number`` at the place ``at``."""
    changed = json.loads(json.dumps(whole))
    inner = changed
    for step in at[:-1]:
        inner = inner[step]
    inner[at[-1]] = number
    return json.dumps(changed).encode()


@pytest.mark.long
@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: f"{number:.3g}")
@pytest.mark.parametrize("event", RAW)
def test_any_number_is_refused_or_judged_and_stored(event: str, number: float) -> None:
    """Every number of every raw event, replaced by an extreme one, in the middle of messages that are sound."""
    topic, version = RAW[event]
    whole = json.loads((GOLDEN / version / f"{event}.json").read_bytes())
    for at in places(whole):
        odd = mutated(whole, at, number)
        if reason := refused(topic, odd):
            assert "\n" not in reason
        else:
            judged_and_stored(topic, whole, odd)


def refused(topic: Topic, data: bytes) -> str | None:
    """Why ``data`` is no event of ``topic``, or None."""
    try:
        wire.decode(topic, data)
    except wire.WireError as error:
        return str(error)
    return None


def judged_and_stored(topic: Topic, whole: Any, odd: bytes) -> None:
    """The event between two that are sound: its answers can be read, its state stored and read back."""
    processor = Processor()
    before, after = json.dumps(whole).encode(), json.dumps(whole | {"sequence": 10_000}).encode()
    for message in (before, odd, after):
        for target, answer in processor.update(topic, wire.decode(topic, message)):
            assert refused(target, wire.encode(answer)) is None
    for key in list(processor.states):
        processor.restore(key, processor.snapshot(key))


@pytest.mark.parametrize("number", [2**63, 2**64, 2**70])
@pytest.mark.parametrize("event", RAW)
def test_no_whole_number_beyond_64_bits_is_taken(event: str, number: int) -> None:
    """A place that holds whole numbers alone (it refuses a half) holds none that a machine does not."""
    topic, version = RAW[event]
    whole = json.loads((GOLDEN / version / f"{event}.json").read_bytes())
    for at in places(whole):
        if refused(topic, mutated(whole, at, 0.5)):
            assert refused(topic, mutated(whole, at, number)), at


@pytest.mark.parametrize("event", RAW)
def test_no_time_beyond_the_year_5138_and_no_number_beyond_1e30_is_taken(event: str) -> None:
    """Seconds, by the name of their field, are below 1e11; what is measured otherwise can be squared and summed."""
    topic, version = RAW[event]
    whole = json.loads((GOLDEN / version / f"{event}.json").read_bytes())
    for at in places(whole):
        name = next(step for step in reversed(at) if isinstance(step, str))
        # What thresholds are called is no field's name: they have bounds of their own.
        seconds = name.endswith("_s") and not name.endswith("_per_s") and event != "Thresholds"
        most = 1e11 if seconds else 1e30
        assert refused(topic, mutated(whole, at, 1.01 * most)), at
