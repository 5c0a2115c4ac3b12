"""``paceline simulate fleet``: what it writes and sends, and what it says when it cannot."""

import contextlib
import json
import re
import secrets
import time
from collections import Counter
from pathlib import Path

import pytest

from paceline import topics
from paceline.kafka import clients
from paceline.recording import Line, read
from simulator import fleet_file
from simulator.__main__ import main
from streams import analyze

EXAMPLES = Path(__file__).parents[2] / "simulator" / "examples"
FLEET = "{duration: 30s, nodes: [{name: NODE, gpus: 2}], jobs: [{name: JOB, nodes: [NODE]}]}"


@pytest.fixture
def fleet(tmp_path):
    """A small fleet, under names of its own."""
    path, token = tmp_path / "fleet.yaml", secrets.token_hex(4)
    path.write_text(FLEET.replace("NODE", f"node-{token}").replace("JOB", f"job-{token}"))
    return path


@pytest.mark.slow
def test_the_example_is_found_out_as_its_truth_says(tmp_path, capsys):
    """Each fault is confirmed with its kind, cause and ranks, in its job or GPU; nothing else is found anywhere."""
    out, answer = tmp_path / "fleet.jsonl.zst", tmp_path / "truth.json"
    assert main(["fleet", str(EXAMPLES / "fleet.yaml"), "--record", str(out), "--truth", str(answer)]) == 0
    assert "messages, 240 s of 5 jobs on 4 nodes" in capsys.readouterr().err
    assert analyze.main([str(out), "--json"]) == 0
    found = map(json.loads, capsys.readouterr().out.splitlines())
    confirmed = {one["id"]: one for one in found if one["state"] == "confirmed"}.values()
    truth = json.loads(answer.read_bytes())
    faults = [{"job": job["job"], **fault} for job in truth["jobs"] for fault in job["faults"]]
    named = Counter((one["job"], one["kind"], one["cause"], *one["ranks"]) for one in faults)
    assert named.keys() == {
        ("llama", "straggler", "worker_compute", 5),
        ("mixtral", "straggler", "throttling", 1),
        ("whisper", "hang", "unknown", 2),
    }
    of_jobs = [one for one in confirmed if one["kind"] != "device_fault"]
    assert Counter((one["job"], one["kind"], one["cause"], *one["ranks"]) for one in of_jobs) == named
    first = {one["job"]: one["first_step"] for one in faults}
    assert all(abs(one["first_step"] - first[one["job"]]) <= 2 for one in of_jobs)
    (device,), (of_device,) = truth["devices"], [one for one in confirmed if one["kind"] == "device_fault"]
    assert (of_device["devices"], of_device["nodes"]) == ([device["device"]], [device["node"]])
    assert {job["job"] for job in truth["jobs"]} == {"llama", "resnet", "mixtral", "whisper"}


def test_the_same_seed_gives_the_same_file(fleet, tmp_path):
    """Byte by byte; another seed gives another one."""
    for name, seed in (("one", "3"), ("same", "3"), ("other", "4")):
        assert main(["fleet", str(fleet), "--record", str(tmp_path / name), "--seed", seed]) == 0
    one, same, other = ((tmp_path / name).read_bytes() for name in ("one", "same", "other"))
    assert one == same
    assert one != other


def test_it_can_start_at_another_time(fleet, tmp_path):
    """The recording begins then, or so long ago."""
    out = tmp_path / "out.jsonl"
    assert main(["fleet", str(fleet), "--record", str(out), "--start", "2026-03-04T05:06:07Z"]) == 0
    (first, *_) = read(str(out))
    assert isinstance(first, Line)
    assert first.timestamp_ms == 1_772_600_767_000


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.name)
def test_examples_are_read(path):
    """Each describes a fleet; the calls in its comments are those of this command."""
    text = path.read_text(encoding="utf-8")
    assert fleet_file.read(text, path.name).jobs
    assert f"#   paceline simulate fleet simulator/examples/{path.name} " in text


def test_the_page_shows_a_fleet_that_can_be():
    """The description in docs/simulate.md is read as it stands."""
    page = (EXAMPLES.parents[1] / "docs" / "simulate.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```yaml\n(.*?)^```", page, re.M | re.S)
    assert [job.name for job in fleet_file.read(block).jobs] == ["llama"]


def test_a_start_so_long_ago_is_told_from_now(fleet, tmp_path):
    """``--start 3d`` is three days before now."""
    out, before_s = tmp_path / "out.jsonl", time.time()
    assert main(["fleet", str(fleet), "--record", str(out), "--start", "3d"]) == 0
    (first, *_) = read(str(out))
    assert isinstance(first, Line)
    assert before_s - 1 <= first.timestamp_ms / 1000 + 3 * 86_400 <= time.time()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "name a recording with --record FILE, or a broker"),
        (["--record", "x.jsonl", "--brokers", "localhost:1"], "name a recording"),
        (["--record", "/nowhere/x.jsonl"], "cannot write /nowhere/x.jsonl"),
        (["--record", "x.jsonl", "--truth", "/nowhere/x.json"], "cannot write /nowhere/x.json"),
        (["--record", "x.jsonl", "--seed", "-1"], "--seed -1: 0 to 2"),
        (["--record", "x.jsonl", "--start", "soon"], "--start: 'soon' is no length of time"),
        (["--record", "x.jsonl", "--start", "90000d"], "start: a moment such as"),
    ],
)
def test_wrong_options_cost_one_line(options, said, fleet, tmp_path, capsys, monkeypatch):
    """Each ends with status 2 and one line; nothing is written."""
    monkeypatch.chdir(tmp_path)
    assert main(["fleet", str(fleet), *options]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert [path.name for path in tmp_path.iterdir()] == ["fleet.yaml"]


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "cannot read"), (b"\xff\xfe\x00", "no UTF-8 text"), (b"duration: 1h\nnodes: 3\n", "line 2: nodes")],
)
def test_a_wrong_file_costs_one_line(content, said, tmp_path, capsys):
    """Missing, not text, or no fleet."""
    path = tmp_path / "fleet.yaml"
    if content is not None:
        path.write_bytes(content)
    assert main(["fleet", str(path), "--record", str(tmp_path / "x.jsonl")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


@pytest.mark.bus
def test_every_message_of_a_fleet_reaches_the_bus(broker, until, fleet, tmp_path):
    """Twenty times as fast as time passes, a consumer sees each message that a recording of the fleet holds."""
    start, out = ["--start", "2026-03-04T05:06:07Z"], tmp_path / "fleet.jsonl"
    assert main(["fleet", str(fleet), "--record", str(out), *start]) == 0
    expected = Counter((line.topic, line.key, line.value) for line in read(str(out)))
    began_s = time.monotonic()
    assert main(["fleet", str(fleet), "--brokers", broker.address, "--speed", "20", *start]) == 0
    assert time.monotonic() - began_s > 25 / 20
    keys, seen = {key for _, key, _ in expected}, Counter()
    with contextlib.ExitStack() as stack:
        every = [topics.BY_NAME[name] for name in sorted({topic for topic, _, _ in expected})]
        consumers = [
            stack.enter_context(
                contextlib.closing(clients.consumer(broker, topic, from_beginning=True, client_id="test"))
            )
            for topic in every
        ]

        def complete():
            for consumer in consumers:
                for found in consumer.poll(timeout_ms=200).values():
                    seen.update(
                        (message.topic, message.key.decode(), message.value)
                        for message in found
                        if message.key is not None and message.key.decode() in keys
                    )
            return seen.total() >= expected.total()

        until(complete)
    assert seen == expected
