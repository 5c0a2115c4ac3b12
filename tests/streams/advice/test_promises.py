"""What the advice promises of any events: replays, restarts, duplicates, order, clocks, sizes, hostile names."""

import random
import time

import msgspec
import pytest

from paceline import topics, wire
from paceline.events import (
    Command,
    DeviceWindow,
    Finding,
    HostWindow,
    JobDescribed,
    JobWindow,
    NodeDescribed,
    Suggestion,
)
from streams.advice.advice import Advice

HEARD = (Finding, JobWindow, DeviceWindow, HostWindow, JobDescribed, NodeDescribed, Command)


@pytest.fixture(scope="module")
def life() -> list:
    """Filled by the first test that asks: a job with two faults, an hour of another, and who decides."""
    return []


@pytest.fixture
def events(life, events_of, make_hour, told):
    if not life:
        heard = told(decide="accept")
        faults = ("compute:rank=3,size=0.5,from=40,to=100", "gc:rank=9,size=0.5,from=190")
        job = [one for one in events_of(*faults, steps=290, cluster="c") if isinstance(one, HEARD)]
        hour = list(make_hour(minutes=75, gpus=2))
        inner = heard.advice.update
        heard.advice.update = lambda event: (life.append(event), inner(event))[1]
        for event in job + hour:
            heard.tell(event)
    return life


def said(advice: Advice, events) -> list[Suggestion]:
    return [one for event in events for one in advice.update(event)]


@pytest.mark.slow
def test_it_says_something_of_every_kind(events):
    states = {one.state for one in said(Advice(), events)}
    assert {"new", "accepted", "applied", "verified"} <= states


@pytest.mark.slow
def test_every_revision_is_one_more_than_the_last(events):
    revisions: dict[str, list[int]] = {}
    for one in said(Advice(), events):
        revisions.setdefault(one.id, []).append(one.revision)
    assert all(told == list(range(1, len(told) + 1)) for told in revisions.values())


@pytest.mark.long
def test_a_replay_says_the_same(events):
    assert said(Advice(), events) == said(Advice(), events)


@pytest.mark.slow
def test_restored_again_and_again_it_says_the_same(events):
    advice, found = Advice(), []
    for number, event in enumerate(events):
        found += advice.update(event)
        if number % 7 == 0 or isinstance(event, Finding | Command):
            advice = Advice.restore(advice.snapshot())
    assert found == said(Advice(), events)


@pytest.mark.long
def test_a_snapshot_survives_itself(events):
    advice = Advice()
    said(advice, events)
    data = advice.snapshot()
    assert Advice.restore(data).snapshot() == data


@pytest.mark.long
def test_what_is_no_snapshot_is_refused(events):
    advice = Advice()
    said(advice, events[:200])
    data = advice.snapshot()
    for bad in (b"", b"nonsense", data[: len(data) // 2]):
        with pytest.raises(ValueError, match="snapshot"):
            Advice.restore(bad)


@pytest.mark.long
def test_what_comes_twice_counts_once(events):
    twice = [event for event in events for _ in range(2)]
    assert said(Advice(), twice) == said(Advice(), events)


@pytest.mark.long
def test_a_stretch_that_comes_again_counts_once(events):
    """After a restart the last messages of a topic are read again, in their order."""
    cut = len(events) // 2
    again = [*events[:cut], *events[cut - 50 :]]
    assert said(Advice(), again) == said(Advice(), events)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_topics_may_come_in_any_order_to_each_other(events, seed):
    """Within a topic and a subject the order holds; between them only times depend on it, not what is suggested."""
    random.seed(seed)
    lanes: dict[tuple, list] = {}
    for event in events:
        if not isinstance(event, Command):
            lanes.setdefault((type(event), getattr(event, "job", ""), getattr(event, "node", "")), []).append(event)
    mixed = []
    while lanes:
        key = random.choice(list(lanes))
        mixed += lanes[key][:20]
        lanes[key] = lanes[key][20:]
        if not lanes[key]:
            del lanes[key]
    plain = [event for event in events if not isinstance(event, Command)]
    assert {(one.id, one.action, one.target) for one in said(Advice(), mixed)} == {
        (one.id, one.action, one.target) for one in said(Advice(), plain)
    }


def test_findings_before_any_time_wait_for_the_first(make_finding, make_pace):
    advice = Advice()
    assert advice.update(make_finding()) == []
    (one,) = advice.update(make_pace())
    assert one.action == "feed_input"
    assert one.created_s > 1e9


def test_findings_alone_are_told_at_the_end(make_finding):
    advice = Advice()
    advice.update(make_finding())
    assert [one.action for one in advice.conclude()] == ["feed_input"]


@pytest.mark.parametrize("ahead_s", [-10_800.0, 10_800.0, 3e7])
def test_a_clock_that_is_wrong_moves_nobody_else(ahead_s, make_hour, make_pace, told):
    """Of three nodes one is hours, or a year, off: the job is still judged as one, and nothing expires early."""
    heard = told()
    lanes = [make_hour(gpus=2, node=f"n{number}", ahead_s=ahead_s * (number == 0)) for number in range(3)]
    for windows in zip(*lanes, strict=True):
        for window in windows:
            heard.tell(window)
    assert heard.states() == [("consolidate", "new")]
    (one,) = heard.said
    assert len(one.devices) == 6
    assert 0 <= one.created_s - 1_800_000_000.0 <= 3700


def test_a_clock_that_is_set_loses_no_more_than_an_hour(make_hour, told):
    heard = told()
    for window in [*make_hour(minutes=30), *make_hour(minutes=70, ahead_s=-90_000.0)]:
        heard.tell(window)
    assert heard.states() == [("consolidate", "new")]


def test_another_cluster_s_events_are_not_taken(make_finding, make_pace):
    advice = Advice()
    advice.update(make_pace())
    assert advice.update(msgspec.structs.replace(make_finding(), cluster="other")) == []


HOSTILE = [
    "",
    "a" * 1024,
    "x; rm -rf /",
    "$(reboot)",
    "`id`",
    "a\nscontrol update nodename=b state=down",
    "'\"'",
    "--all",
    "gpu-[0-9999]",
    "\x1b]0;owned\x07",
    "{job.__class__}",
    "{0}",
    "ünï-☃",
    "../../etc",
]


@pytest.mark.parametrize("name", HOSTILE, ids=lambda name: name[:40])
@pytest.mark.parametrize(
    ("kind", "cause"),
    [("straggler", "link"), ("device_fault", "unknown"), ("hang", "unknown"), ("node_silent", "unknown")],
)
def test_hostile_names_are_text(name, kind, cause, make_finding, make_pace):
    """No name reaches a command but as one word of the letters that hosts have."""
    advice = Advice()
    advice.update(make_pace())
    finding = make_finding(kind, cause, id="f", job=name, node=name, devices=[name], summary=name, severity="critical")
    found = advice.update(finding)
    for one in found:
        assert wire.decode(topics.SUGGESTION, wire.encode(one)) == one
        assert len(wire.encode(one)) < 1_000_000
        if not name.isascii() or not name.replace("-", "").isalnum() or name.startswith("-") or len(name) > 253:
            assert [line for line in one.apply if "ssh" in line or "scontrol" in line or "kubectl" in line] == []
    assert Advice.restore(advice.snapshot()).snapshot() == advice.snapshot()


@pytest.mark.parametrize("value", [0.0, -1.0, 1.0, 5.0, 1e30, -1e30, 1e-30])
def test_hostile_numbers_say_nothing_absurd(value, make_finding, make_hour, make_pace):
    advice = Advice()
    advice.update(make_pace(step_s=0.5))
    cost = {"lost_s": min(max(value, -1e11), 1e11), "gpu_hours": value, "throughput_lost_ratio": value}
    found = advice.update(make_finding(cost=cost, confidence=0.9))
    found += said(advice, make_hour(job="other", busy=value, gpus=1))
    for one in found:
        for number in (one.gain.gpu_hours_per_day, one.gain.gpu_hours_low, one.gain.gpu_hours_high):
            assert number is None or 0.0 <= number <= 24.0 * 8
        wire.decode(topics.SUGGESTION, wire.encode(one))


@pytest.mark.long
def test_ten_thousand_gpus_and_a_thousand_jobs_fit(make_hour):
    """Each node is another job's; the state has a size that a table can hold, and time is linear."""
    advice, began = Advice(), time.process_time()
    for node in range(1250):
        for window in make_hour(job=f"job-{node % 1000}", node=f"n{node}", minutes=3, busy=0.5):
            advice.update(window)
    assert len(advice.snapshot()) < 1_500_000
    assert time.process_time() - began < 30.0


def test_memory_reaches_a_plateau(make_hour):
    sizes = []
    for minutes in (100, 300):
        advice = Advice()
        said(advice, make_hour(minutes=minutes, busy=0.5, gpus=4))
        sizes.append(len(advice.snapshot()))
    assert sizes[1] < 1.3 * sizes[0] + 500


@pytest.mark.slow
def test_a_storm_of_findings_is_bounded(make_finding, make_pace):
    """Three thousand jobs have a trouble at once: twenty are told within the hour, the state stays bounded."""
    advice, began = Advice(), time.process_time()
    advice.update(make_pace())
    found = [one for number in range(3000) for one in advice.update(make_finding(job=f"job-{number}"))]
    assert len(found) == advice.config.new_an_hour
    assert len(advice.ledger.entries) <= 1000
    assert time.process_time() - began < 30.0


@pytest.mark.long
def test_input_is_not_changed(events):
    before = [msgspec.msgpack.encode(event) for event in events]
    said(Advice(), events)
    assert [msgspec.msgpack.encode(event) for event in events] == before
