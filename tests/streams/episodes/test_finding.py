"""The one builder of findings: id, severity, confidence, cost, rounding, and the end."""

import pytest

from paceline.events import Coverage
from streams.episodes.finding import JobKey, Said, Subject, finding, number, of_launch
from streams.episodes.tracker import Episode, Measured
from tests.derived_events import finding as published

JOB = JobKey("default", "demo", 0)
ALL = Coverage(ranks_expected=4, ranks_heard=4, events_missing=0)
SUMMARY = "Rank 2 works 90 ms. Everyone else waits."


def episode(**changed):
    fields = {"state": "confirmed", "revision": 2, "last": 90.0, "span_s": 10.0, "lost_s": 2.0} | changed
    margin = fields.pop("margin", 3.0)
    return Episode[int, Measured](
        subject=2, cause="worker_compute", first=61.0, evidence=Measured(margin=margin), **fields
    )


def said(subject=None, **changed):
    return Said(subject or Subject("straggler", "rank 2", ranks=(2,)), [], SUMMARY, **changed)


def test_the_id_is_of_the_subject_and_its_first_step():
    """The same episode has the same id in every state; another first step is another episode."""
    ids = [finding(one, said(), JOB, ALL).id for one in (episode(), episode(state="recovered", last=200.0))]
    assert ids == ["straggler-0ebee0f92a8738f4"] * 2
    assert finding(Episode[int, Measured](**dict(_fields(episode()), first=62.0)), said(), JOB, ALL).id != ids[0]


def _fields(one):
    return {name: getattr(one, name) for name in one.__struct_fields__}


@pytest.mark.parametrize(
    ("changed", "severity"),
    [({}, "warning"), ({"lost_s": 4.0}, "critical"), ({"lost_s": 4.0, "state": "recovered"}, "info")],
)
def test_severity_is_by_the_time_lost(changed, severity):
    """A third of the time lost is critical; what is over is information."""
    assert finding(episode(**changed), said(), JOB, ALL).severity == severity


@pytest.mark.parametrize(
    ("changed", "heard", "confidence"),
    [
        ({}, 4, 0.9),
        ({"state": "suspected"}, 4, 0.63),
        ({"margin": 1000.0}, 4, 0.99),
        ({"margin": 0.2}, 4, 0.7),
        ({}, 2, 0.45),
    ],
)
def test_confidence_is_by_the_margin_and_by_what_was_heard(changed, heard, confidence):
    """Never quite certain; less so while it is suspected, and where ranks are silent."""
    coverage = Coverage(ranks_expected=4, ranks_heard=heard, events_missing=0)
    assert finding(episode(**changed), said(), JOB, coverage).confidence == confidence


def test_what_a_detector_knows_better_counts():
    """Severity and confidence that come with what is said stand, but what is over stays information."""
    known = said(severity="critical", confidence=0.6)
    assert finding(episode(), known, JOB, ALL).severity == "critical"
    assert finding(episode(state="recovered"), known, JOB, ALL).severity == "info"
    assert finding(episode(), known, JOB, ALL).confidence == 0.6


def test_cost_is_of_all_ranks_and_of_devices_that_stood_still():
    """Every rank stands through the seconds lost; device-hours of a node are counted there."""
    cost = finding(episode(lost_s=3.6, gpu_hours=0.5), said(), JOB, ALL).cost
    assert (cost.lost_s, cost.gpu_hours, cost.throughput_lost_ratio) == (3.6, 0.504, 0.36)


def test_the_end_is_said_in_the_detectors_words_or_as_no_longer_so():
    """Without words of its own the first sentence is, with the step."""
    over = episode(state="recovered")
    assert finding(over, said(), JOB, ALL).summary == "Rank 2 works 90 ms: no longer so at step 90."
    assert finding(over, said(over="Rank 2 is back."), JOB, ALL).summary == "Rank 2 is back."
    assert finding(episode(), said(over="Rank 2 is back."), JOB, ALL).summary == SUMMARY


def test_the_first_sentence_does_not_end_at_a_decimal_point():
    """Nor at the full stop in a file's name."""
    summary = "Rank 2 (x.py) works 1.57 s a step (of 1.2 s). Everyone else waits."
    over = finding(episode(state="recovered"), said()._replace(summary=summary), JOB, ALL)
    assert over.summary == "Rank 2 (x.py) works 1.57 s a step (of 1.2 s): no longer so at step 90."


def test_samples_know_no_steps():
    """A finding of a node has no steps, and its id is of the second."""
    of_node = said(Subject("idle_device", "node-0 idle GPU-0", nodes=("node-0",), devices=("GPU-0",), has_steps=False))
    made = finding(episode(), of_node, JOB, ALL)
    assert (made.first_step, made.last_step, made.nodes, made.devices) == (-1, -1, ["node-0"], ["GPU-0"])


@pytest.mark.parametrize(("value", "told"), [(0.12345678, 0.123457), (float("nan"), 0.0), (float("inf"), 0.0)])
def test_numbers_are_rounded_for_the_wire(value, told):
    """Six decimals; what is no number is 0."""
    assert number("excess", value, "ratio", value, "rule").value == told
    assert number("excess", value, "ratio", value, "rule").peers == told


def test_what_took_the_place_of_a_finding_is_one_of_the_same_launch():
    """Its id there is the id under which it is published."""
    crowd = published(id="straggler-0123456789abcdef")
    one = published(id="straggler-fedcba9876543210", state="recovered", replaced_by=crowd.id)
    assert of_launch(one, "node-1 7").replaced_by == of_launch(crowd, "node-1 7").id != crowd.id
    assert of_launch(one, "").replaced_by == crowd.id
    assert not of_launch(crowd, "node-1 7").replaced_by
