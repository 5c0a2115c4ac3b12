"""What a cluster's advice is told of, and what is refused where it is told."""

import pathlib

import msgspec
import pytest

from paceline import topics, wire
from streams.cluster_events import ADVICE, concerns, enclosed, read, short

GOLDEN = pathlib.Path(__file__).parents[1] / "paceline" / "golden"


def golden(topic, name, **fields):
    file = sorted(GOLDEN.glob(f"v*/{name}.json"))[0]
    return msgspec.structs.replace(wire.decode(topic, file.read_bytes()), **fields)


@pytest.mark.parametrize(
    ("topic", "name", "fields", "told"),
    [
        (topics.FINDING, "Finding", {}, True),
        (topics.WINDOW, "JobWindow", {"length_s": 1.0}, False),
        (topics.WINDOW, "JobWindow", {"length_s": 10.0}, True),
        (topics.WINDOW, "JobWindow", {"length_s": 60.0}, True),
        (topics.WINDOW, "RankWindow", {"length_s": 60.0}, False),
        (topics.WINDOW, "DeviceWindow", {"length_s": 10.0}, False),
        (topics.WINDOW, "DeviceWindow", {"length_s": 60.0}, True),
        (topics.WINDOW, "HostWindow", {"length_s": 10.0}, False),
        (topics.WINDOW, "HostWindow", {"length_s": 60.0}, True),
        (topics.NODE, "NodeDescribed", {}, True),
        (topics.JOB, "JobDescribed", {}, True),
        (topics.PROFILE, "JobProfile", {}, True),
        (topics.FORECAST, "Forecast", {"series": "default/cluster/free_gpus"}, True),
        (topics.FORECAST, "Forecast", {"series": "default/cluster/free_gpus_15min"}, True),
        (topics.FORECAST, "Forecast", {"series": "default/device/n/g/power_w"}, False),
        (topics.COMMAND, "Command", {"target": "suggestion:s-1"}, True),
        (topics.COMMAND, "Command", {"target": "streams"}, False),
        (topics.COMMAND, "Command", {"target": "job:suggestion:1"}, False),
        (topics.DEVICE, "DeviceSamples", {}, False),
    ],
)
def test_it_is_told_of_what_it_is_made_of(topic, name, fields, told):
    """Whole summaries, no samples and no ranks; of commands those for suggestions."""
    event = golden(topic, name, **fields)
    assert concerns(event) is told
    envelope = enclosed(topic, wire.encode(event), 12.5)
    if told:
        heard = read(ADVICE, envelope)
        assert (heard.topic, heard.event, heard.heard_s, heard.cluster) == (topic, event, 12.5, event.cluster)
    else:
        with pytest.raises(wire.WireError, match="which no advice is made of"):
            read(ADVICE, envelope)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "no envelope"),
        (b"\xff", "no envelope"),
        (b'{"topic": "x"}', "no envelope"),
        (msgspec.msgpack.encode(["paceline.finding.v1", float("nan"), b"{}"]), "no envelope"),
        (msgspec.msgpack.encode(["paceline.finding.v1", -1.0, b"{}"]), "no envelope"),
        (msgspec.msgpack.encode(["nothing.v1", 1.0, b"{}"]), "which is no topic"),
        (msgspec.msgpack.encode([ADVICE.name, 1.0, b"{}"]), "which is no topic"),
        (msgspec.msgpack.encode(["paceline.finding.v1", 1.0, b"{}"]), "missing required field"),
    ],
)
def test_nonsense_is_refused_in_a_line(data, reason):
    """Whoever wrote it there."""
    with pytest.raises(wire.WireError, match=reason) as told:
        read(ADVICE, data)
    assert "\n" not in str(told.value)


def test_its_topic_is_the_workers_own():
    """By the prefix that ACLs name; people say ``advice``."""
    assert ADVICE.name.startswith(f"{topics.STREAMS_GROUP}-")
    assert (short(ADVICE.name), short(topics.OP.name), short("other")) == ("advice", "op", "other")
    assert ADVICE.partitions == topics.PARTITIONS
