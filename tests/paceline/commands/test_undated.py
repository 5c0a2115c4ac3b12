"""Recordings whose times count from 0: replayed, they begin now; those with a date stay as they are."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from paceline import topics, wire
from paceline.commands.undated import dated, moved
from paceline.events import LATEST_S
from paceline.recording import Bad, Line
from paceline.words import UNDATED_S, age

NOW_S = 1_800_000_000.0


def line(at_s: float, topic: topics.Topic = topics.JOB, **value: Any) -> Line:
    return Line(1, topic.name, "j", round(at_s * 1000), wire.encode_untyped(topic, value))


def values(lines: Iterator[Line | Bad]) -> list[dict[str, Any]]:
    return [wire.untyped(topics.BY_NAME[one.topic], one.value) for one in lines if isinstance(one, Line)]


def test_the_first_message_is_now_and_the_others_as_far_behind_as_they_were() -> None:
    lines = list(dated(iter([line(2.0, started_s=1.5, ended_s=None), Bad(2, "x"), line(62.0, started_s=1.5)]), NOW_S))
    assert [one.timestamp_ms / 1000 - NOW_S for one in lines if isinstance(one, Line)] == [0.0, 60.0]
    assert values(iter(lines)) == [{"started_s": NOW_S - 0.5, "ended_s": None}, {"started_s": NOW_S - 0.5}]


@pytest.mark.parametrize("at_s", [UNDATED_S, 1.7e9])
def test_a_recording_with_a_date_stays_as_it_is(at_s: float) -> None:
    told = [line(at_s, started_s=at_s), line(0.0, started_s=0.0)]
    assert list(dated(iter(told), NOW_S)) == told


def test_what_is_no_time_stays_as_it_is() -> None:
    held = line(0.0, topics.DEVICE, t0_s=5.0, start_s=[0.0, 1.0], step=[1, 2], duration_s=[0.5, 0.5])
    (value,) = values(iter([moved(held, 100.0)]))
    assert value == {"t0_s": 105.0, "start_s": [0.0, 1.0], "step": [1, 2], "duration_s": [0.5, 0.5]}
    for odd in (b"\xff", b"[1]", b'{"started_s": "soon"}'):
        assert moved(msgspec.structs.replace(held, topic=topics.JOB.name, value=odd), 1.0).value == odd
    assert moved(msgspec.structs.replace(held, topic="nobody's"), 1.0).timestamp_ms == 0


@pytest.mark.parametrize("topic", topics.TOPICS, ids=lambda topic: topic.name)
def test_every_time_of_every_topic_is_moved(topic: topics.Topic) -> None:
    """Whatever a field is called: its type says that it is a time."""
    made = inspect.type_info(topic.event)
    for struct in made.types if isinstance(made, inspect.UnionType) else (made,):
        for field in struct.fields if isinstance(struct, inspect.StructType) else ():
            kinds = field.type.types if isinstance(field.type, inspect.UnionType) else (field.type,)
            if any(isinstance(kind, inspect.FloatType) and (kind.ge, kind.le) == (0.0, LATEST_S) for kind in kinds):
                (value,) = values(iter([moved(line(0.0, topic, **{field.encode_name: 1.0}), 50.0)]))
                assert value == {field.encode_name: 51.0}


def test_no_time_of_zero_is_shown_as_a_time() -> None:
    assert [age(NOW_S, one) for one in (None, 0.0, 7.5)] == ["never", "never", "at an unknown time"]
