"""Simulated hours and days of whole fleets: who gets a suggestion, and who none."""

from collections.abc import Iterable

import pytest

from paceline.events import Event, JobProfile
from simulator.fleet import Fleet
from simulator.fleet_file import read

HOUR = """
duration: 64m
sampling: {every: 20s, message: 5m}
nodes: [{name: a, gpus: 8}]
jobs: [{name: JOB, nodes: [a], kind: KIND, busy: BUSY, step: 20s}]
"""
#: A day of training at full use, inference in office hours, free GPUs, and a job every night.
DAY = """
seed: 3
duration: 24h
sampling: {every: 1m, message: 10m}
nodes:
  - {name: train, count: 2, gpus: 2}
  - name: chat
    gpus: 2
    day: [0.2, 0.2, 0.2, 0.2, 0.3, 0.3, 0.4, 0.6, 0.8, 0.9, 1, 1, 1, 1, 1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.4, 0.3, 0.2]
  - {name: free, gpus: 1}
jobs:
  - {name: llama, nodes: ["train-[0000-0000]"], step: 30s, start: 6h, end: 11h}
  - {name: embed, nodes: ["train-[0001-0001]"], kind: inference, busy: 0.7}
  - {name: chat, nodes: [chat], kind: inference}
"""


def kind(job: str, kind: str, time_s: float) -> JobProfile:
    """What the forecaster says of a job."""
    return JobProfile(cluster="simulated", job=job, attempt=0, time_s=time_s, kind=kind, kind_probability=0.95)


@pytest.fixture(scope="module")
def made() -> dict[str, tuple[Event, ...]]:
    """The events of fleets, each simulated and judged once."""
    return {}


@pytest.fixture
def advised(told, events_in, made):
    """What is said of a fleet, with the kinds of jobs that step nowhere."""

    def run(text: str, kinds: Iterable[tuple[str, str]] = ()):
        heard, fleet = told(), Fleet(read(text))
        for job, what in kinds:
            heard.tell(kind(job, what, fleet.begin_s))
        if text not in made:
            made[text] = tuple(events_in(fleet.messages()))
        for event in made[text]:
            heard.tell(event)
        heard.conclude()
        return heard

    return run


def hour(job: str, what: str, busy: float) -> str:
    return HOUR.replace("JOB", job).replace("KIND", what).replace("BUSY", str(busy))


@pytest.mark.slow
def test_a_training_hour_at_20_percent_gives_one(advised):
    heard = advised(hour("llama", "training", 0.2))
    assert [(one.action, one.target, one.state) for one in heard.said] == [("consolidate", "job:llama", "new")]
    (one,) = heard.said
    assert len(one.devices) == 8
    assert one.gain.gpu_hours_low <= one.gain.gpu_hours_per_day <= one.gain.gpu_hours_high
    assert one.gain.gpu_hours_per_day == pytest.approx(5 * 24)


@pytest.mark.slow
def test_an_inference_hour_at_99_percent_gives_one(advised):
    heard = advised(hour("chat", "inference", 0.99), [("chat", "inference")])
    assert [(one.action, one.target, one.state) for one in heard.said] == [("scale_out", "job:chat", "new")]


@pytest.mark.slow
def test_a_training_hour_at_99_percent_gives_none(advised):
    assert advised(hour("llama", "training", 0.99)).said == []


@pytest.mark.long
def test_full_gpus_of_nobody_knows_what_give_none(advised):
    """Only who knows that somebody waits asks for more GPUs."""
    assert advised(hour("what", "inference", 0.99)).said == []


@pytest.mark.slow
def test_a_healthy_fleet_gets_none_in_a_day(advised):
    heard = advised(DAY, [("chat", "inference")])
    assert heard.said == []
    assert len(heard.advice.use.accounts) > 0


@pytest.mark.slow
def test_gpus_that_are_held_and_idle_are_to_be_freed(advised):
    heard = advised(hour("notes", "idle", 0.0).replace(", busy: 0.0", ""))
    (one,) = heard.last().values()
    assert (one.action, one.target, one.state, one.revision) == ("free_devices", "job:notes", "new", 8)
    assert one.gain.gpu_hours_per_day == pytest.approx(8 * 24)
    assert len(one.devices) == 8


@pytest.mark.slow
def test_a_fault_in_a_fleet_concerns_its_job_alone(advised):
    text = """
duration: 2m
nodes: [{name: gpu, count: 2, gpus: 8}]
jobs:
  - {name: llama, nodes: ["gpu-[0000-0000]"], faults: [{kind: input, ranks: [5], size: 0.5, from: 40s}]}
  - {name: resnet, nodes: ["gpu-[0001-0001]"]}
"""
    heard = advised(text)
    assert {(one.action, one.target) for one in heard.said} == {("feed_input", "job:llama")}


@pytest.mark.slow
def test_events_are_events(advised):
    """The advice leaves what it does not know alone."""
    heard = advised(hour("llama", "training", 0.99))
    assert heard.advice.update(Event()) == []
