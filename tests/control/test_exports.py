"""What a session becomes: the same recording, frames with right units, tables, numbers, pictures."""

import csv
import io
import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest

from control.api.gswarm import newest_frame
from control.book import Book
from control.export.formats import FORMATS, PLOTS
from control.export.frames import EXTRA
from control.export.stat import summary
from control.export.tables import COLUMNS, unit
from control.export.told import Told
from paceline import wire
from paceline.events import DeviceDescribed, DeviceSamples, HostSamples, NodeDescribed
from paceline.recording import Bad, Line, read
from paceline.topics import DEVICE, HOST, NODE, Topic
from tests.control.conftest import node_described

T0_S = 1_700_000_000.0
RECORDINGS = Path(__file__).parents[1] / "regression"


def device_samples(node: str, second: int, **values: Any) -> DeviceSamples:
    """A message of two GPUs, a row each."""
    columns: dict[str, Any] = {name: [None, None] for name in wire.sample_columns(DeviceSamples)}
    columns |= {"device": [0, 1], "time_s": [0.0, 0.0]} | {name: [value, value] for name, value in values.items()}
    return DeviceSamples(
        cluster="c",
        producer=f"collect-{node}",
        sequence=abs(second),
        node=node,
        t0_s=T0_S + second,
        uuids=[f"GPU-{node}-a", f"GPU-{node}-b"],
        **columns,
    )


def host_samples(node: str, second: int, **values: Any) -> HostSamples:
    columns: dict[str, Any] = {name: [None] for name in wire.sample_columns(HostSamples)}
    columns |= {"time_s": [0.0], "cpu_ratio_per_core": [[]]} | {name: [value] for name, value in values.items()}
    return HostSamples(cluster="c", producer="h", sequence=second, node=node, t0_s=T0_S + second, **columns)


def line(topic: Topic, event: Any, second: int = 0) -> Line:
    return Line(0, topic.name, wire.key_of(topic, event), int((T0_S + second) * 1000), wire.encode(event))


def told(**about: Any) -> Told:
    return Told(**{"name": "s", "started_s": T0_S, "stopped_s": T0_S + 100.0, **about})


def written(kind: str, lines: Iterable[Line], about: Told | None = None) -> bytes:
    out = io.BytesIO()
    FORMATS[kind].write(lines, about or told(), out)
    return out.getvalue()


def frames(lines: Iterable[Line], about: Told | None = None) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    *rows, last = [json.loads(row) for row in written("frames", lines, about).splitlines()]
    return rows, last


def samples(seconds: int = 3, node: str = "n1", **values: Any) -> list[Line]:
    return [line(DEVICE, device_samples(node, second, **values), second) for second in range(seconds)]


def test_jsonl_is_the_recording_as_it_is() -> None:
    source = [one for one in read(str(RECORDINGS / "compute.jsonl.zst")) if isinstance(one, Line)]
    again = [json.loads(row) for row in written("jsonl", source).splitlines()]
    assert [(row["topic"], row["key"], row["timestamp_ms"]) for row in again] == [
        (one.topic, one.key, one.timestamp_ms) for one in source
    ]


def test_a_frame_has_an_entry_a_gpu_in_gswarms_names_and_right_units() -> None:
    described = node_described("n1", "p", 0)
    devices = [DeviceDescribed(index=index, uuid=f"GPU-n1-{letter}", name="H100") for index, letter in enumerate("ab")]
    inventory = NodeDescribed(
        **{name: getattr(described, name) for name in described.__struct_fields__} | {"devices": devices}
    )
    measured = {
        "utilization_ratio": 0.5,
        "fb_used_bytes": 20,
        "fb_total_bytes": 80,
        "pcie_rx_bytes_per_s": 1000.0,
        "pcie_tx_bytes_per_s": 500.0,
        "dram_active_ratio": 0.25,
        "power_w": 300.0,
    }
    rows, last = frames(
        [line(NODE, inventory), *samples(**measured), line(HOST, host_samples("n1", 1, cpu_ratio=0.125), 1)]
    )
    assert [row["frame_id"] for row in rows] == [0, 1, 2]
    frame = rows[1]
    assert frame["gpu_id"] == ["n1:0:H100", "n1:1:H100"]
    assert frame["gpu_util"] == [0.5, 0.5]
    assert frame["gpu_memory"] == [0.25, 0.25]
    assert frame["dram_bandwidth"] == [1500.0, 1500.0]
    assert frame["pcie_bytes_per_s"] == {"rx": [1000.0, 1000.0], "tx": [500.0, 500.0]}
    assert frame["dram_util"] == [0.25, 0.25]
    assert frame["gpu_bandwidth"] == frame["disk_util"] == []
    assert frame["extra_metrics"]["power_w"] == [300.0, 300.0]
    assert frame["extra_metrics"]["hosts"]["n1"]["cpu_ratio"] == 0.125
    assert frame["units"]["gpu_util"] == "ratio"
    assert "PCIe" in frame["units"]["dram_bandwidth"]
    assert last["summary_by_client"] == {"n1": {"avg_gpu_util": 0.5, "avg_gpu_memory": 0.25}}


def utilization_by_gpu(*events: DeviceSamples | HostSamples) -> dict[str, float]:
    """What ``/metrics/latest`` reports half a second after the last of these, of each GPU."""
    book = Book()
    for event in events:
        topic = DEVICE if isinstance(event, DeviceSamples) else HOST
        book.update(topic, event.node, event, wire.encode(event), T0_S + 1.5)
    frame = newest_frame(book, T0_S + 1.5)
    assert frame["time"] <= T0_S + 1.5
    assert sorted(frame["extra_metrics"]["hosts"]) == sorted(
        {one.node for one in events if isinstance(one, HostSamples)}
    )
    return dict(zip(frame["gpu_id"], frame["gpu_util"], strict=True))


def test_the_latest_frame_holds_the_newest_of_every_node() -> None:
    """Also where samples lie on both sides of a full second, or a clock is a minute ahead."""
    early, late = device_samples("n1", 0, utilization_ratio=0.25), device_samples("n2", 1, utilization_ratio=0.5)
    ahead = device_samples("n3", 61, utilization_ratio=0.75)
    expected = {"n1:0:": 0.25, "n1:1:": 0.25, "n2:0:": 0.5, "n2:1:": 0.5}
    assert utilization_by_gpu(early, late, host_samples("n1", 0, cpu_ratio=0.5)) == expected
    assert utilization_by_gpu(early, late, ahead) == {**expected, "n3:0:": 0.75, "n3:1:": 0.75}


def test_of_several_samples_of_a_gpu_the_latest_frame_has_the_newest() -> None:
    columns: dict[str, Any] = {name: [None] * 3 for name in wire.sample_columns(DeviceSamples)}
    columns |= {"device": [0, 0, 0], "time_s": [0.0, 1.0, 0.5], "utilization_ratio": [0.25, 1.0, 0.5]}
    one = device_samples("n1", 0)
    assert utilization_by_gpu(msgspec.structs.replace(one, **columns)) == {"n1:0:": 1.0}


def test_what_was_not_measured_is_null_and_never_0() -> None:
    rows, last = frames(samples(1))
    assert rows[0]["gpu_util"] == rows[0]["gpu_memory"] == rows[0]["dram_bandwidth"] == [None, None]
    assert all(rows[0]["extra_metrics"][name] == [None, None] for name in EXTRA)
    assert last["summary_by_client"]["n1"]["avg_gpu_util"] is None


def test_devices_that_were_not_asked_for_are_left_out() -> None:
    lines = [*samples(1, utilization_ratio=0.5), *samples(1, "n2", utilization_ratio=0.75)]
    for devices in (("n1:1",), ("GPU-n1-b",)):
        rows, _ = frames(lines, told(devices=devices))
        assert rows[0]["gpu_id"] == ["n1:1:"]


def test_a_silent_client_is_marked_in_the_data() -> None:
    about = told(silences=(("n2", T0_S + 1.0, T0_S + 2.0),))
    rows, last = frames(samples(3), about)
    assert [row["silent"] for row in rows] == [[], ["n2"], []]
    assert last["silences"][0]["client"] == "n2"
    table = list(csv.DictReader(io.StringIO(written("csv", samples(2, "n2"), about).decode())))
    assert [row["silent"] for row in table] == ["False", "False", "True", "True"]


def test_a_table_reads_back_with_its_units(tmp_path: Path) -> None:
    lines = [*samples(2, utilization_ratio=0.5, power_w=300.0), line(HOST, host_samples("n1", 0, cpu_ratio=0.25))]
    (tmp_path / "x.parquet").write_bytes(written("parquet", lines))
    table = pq.read_table(tmp_path / "x.parquet")
    assert table.schema.field("power_w").metadata == {b"unit": b"W"}
    rows = table.to_pylist()
    assert [row["kind"] for row in rows] == ["device"] * 4 + ["host"]
    assert rows[0]["utilization_ratio"] == 0.5
    assert rows[4]["utilization_ratio"] is None
    assert rows[4]["cpu_ratio"] == 0.25
    text = list(csv.DictReader(io.StringIO(written("csv", lines).decode())))
    assert len(text) == 5
    assert text[0]["power_w"] == "300.0"
    assert text[4]["power_w"] == ""


def test_every_column_that_is_no_count_tells_its_unit() -> None:
    counts = {name for name in COLUMNS if not unit(name)}
    assert not {name for name in counts if name.endswith(("_s", "bytes", "ratio", "mhz", "celsius", "_w", "_j"))}


@pytest.mark.parametrize("name", ["=1+1", "+x", "-x", "@x", "\tx"])
def test_a_name_that_a_spreadsheet_would_run_is_text(name: str) -> None:
    (row, _) = csv.DictReader(io.StringIO(written("csv", samples(1, name)).decode()))
    assert row["node"] == f"'{name}"


def hostile() -> list[Line]:
    """What no exporter may fall over: no events, other topics, clocks far off, numbers at their limits."""
    odd = [
        Line(0, DEVICE.name, None, 0, b"null"),
        Line(0, DEVICE.name, "n", 0, b"{"),
        Line(0, DEVICE.name, "n", -(2**60), b"\xff\x00"),
        Line(0, "no.such.topic", "n", 2**60, b"{}"),
        Line(0, DEVICE.name, "n", 0, b"[" * 5000),
        line(DEVICE, device_samples("n1", -1_000_000_000)),
        line(DEVICE, device_samples("n1", 90_000_000_000)),
        line(
            DEVICE,
            device_samples("n" * 5000, 1, power_w=1e30, utilization_ratio=-1e30, fb_used_bytes=1, fb_total_bytes=0),
        ),
        line(DEVICE, device_samples("$x_{1}$<b>", 1, utilization_ratio=0.5)),
    ]
    return [*odd, *samples(2, utilization_ratio=0.5)]


@pytest.mark.parametrize("kind", FORMATS)
def test_hostile_messages_are_passed_over(kind: str) -> None:
    assert written(kind, hostile())


@pytest.mark.slow
@pytest.mark.parametrize("kind", PLOTS)
def test_hostile_messages_are_drawn_over(kind: str) -> None:
    out = io.BytesIO()
    PLOTS[kind].write(hostile(), told(name="$bad_{$<script>"), out)
    assert out.getvalue()[:4] in (b"\x89PNG", b"%PDF", b"<!do")
    assert b"<script>alert" not in out.getvalue()


def test_hostile_messages_are_counted() -> None:
    said = summary(hostile(), told())
    assert said["unusable_messages"] == 4
    assert said["utilization_ratio"]["max"] == 0.5
    json.dumps(said, allow_nan=False)


def test_numbers_of_a_session_are_those_of_its_messages() -> None:
    lines = samples(10, utilization_ratio=0.5, power_w=200.0)
    lines += [
        line(DEVICE, device_samples("n1", 10 + second, energy_j=100.0 * second), 10 + second) for second in range(3)
    ]
    said = summary(lines, told())
    assert said["gpus"] == 2
    assert said["power_w"] == {"mean": 200.0, "max": 200.0}
    # Two GPUs at 200 W for 10 s, until there are counters; these go on at 100 W for 2 s.
    assert (said["energy_j"], said["energy_source"]) == (4400.0, "mixed")
    assert said["messages_by_topic"] == {DEVICE.name: 13}


def test_a_driver_that_is_loaded_anew_takes_no_energy_from_a_session() -> None:
    counted = [100.0, 200.0, 300.0, 50.0, 150.0]
    lines = [line(DEVICE, device_samples("n1", at, energy_j=one, power_w=100.0), at) for at, one in enumerate(counted)]
    said = summary(lines, told())
    assert (said["energy_j"], said["energy_source"]) == (800.0, "mixed")
    assert summary(lines[:3], told())["energy_source"] == "counter"
    assert summary(samples(3), told())["energy_source"] is None


def test_findings_and_step_times_of_a_real_run_are_told() -> None:
    """Of a recording that was made of a real run, with what the processors found put beside it."""
    lines = [one for one in read(str(RECORDINGS / "real-compute.jsonl.zst")) if not isinstance(one, Bad)]
    findings = [json.loads(row) for row in (RECORDINGS / "real-compute.findings.jsonl").read_text().splitlines()]
    stamp = lines[-1].timestamp_ms
    lines += [Line(0, "paceline.finding.v1", one["job"], stamp, json.dumps(one).encode()) for one in findings]
    said = summary(lines, told(started_s=stamp / 1000 - 600, stopped_s=stamp / 1000))
    assert {one["id"] for one in said["findings"]} == {one["id"] for one in findings}
    assert all(math.isfinite(one["first_s"]) for one in said["findings"])


def test_rows_that_come_late_are_counted_and_not_told_twice() -> None:
    lines = [*samples(60), line(DEVICE, device_samples("n1", 1))]
    rows, last = frames(lines)
    assert len(rows) == 60
    assert last["late_rows"] == 2
