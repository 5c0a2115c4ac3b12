"""The table of decisions: every topic in it is one that people declare, and every decision in it can be kept."""

import inspect
from pathlib import Path

import pytest

from paceline import topics, wire
from paceline.events import (
    AuditEntry,
    BalancePlan,
    DeviceWindow,
    Finding,
    HostSamples,
    HostWindow,
    JobWindow,
    NodeDescribed,
    RankWindow,
    Suggestion,
)
from streams.cluster_events import ADVICE, PASSED_ON
from streams.routes import ROUTES, BoundsRanks, JudgesTogether, Patient, TakesAdviceSettings, topic_of

GOLDEN = Path(__file__).parents[1] / "paceline" / "golden"
DECISIONS = {kind for kinds in ROUTES.values() for kind in kinds}
#: What each decision is told; another line here is a change of the architecture.
TOLD = {
    "JobState": {"op", "collective", "threshold"},
    "DeviceWindows": {"device", "node"},
    "HostWindows": {"host"},
    "NodeDiagnosis": {"device", "host", "node"},
    "JobBalance": {"balance"},
    "RankFindings": {"balance"},
    "ClusterAdvice": {"advice"},
    "ClusterRatings": {"advice"},
}


def heard(kind):
    """The topics whose events a decision is told."""
    named = {**topics.BY_NAME, ADVICE.name: ADVICE}
    return {named[name] for name, kinds in ROUTES.items() if kind in kinds}


def golden(event):
    """The event of that type as it was first released."""
    topic = next(one for one in topics.TOPICS if event in getattr(one.event, "__args__", (one.event,)))
    first = sorted(GOLDEN.glob(f"v1*/{event.__name__}.json"))[0]
    return wire.decode(topic, first.read_bytes())


def test_each_decision_hears_what_it_judges():
    """By the short names of the topics."""
    assert {kind.__name__: {topic.short for topic in heard(kind)} for kind in DECISIONS} == TOLD


def test_what_is_measured_is_heard_and_what_is_derived_is_not():
    """Nothing raw goes unheard but how the services themselves are run; what is derived comes back to advice alone."""
    unheard = {topic for topic in topics.TOPICS if topic.kind == "raw" and topic.name not in ROUTES}
    assert unheard == {topic for topic in topics.OPERATIONAL if topic.kind == "raw"}
    assert {topics.BY_NAME[name].kind for name in ROUTES if name != ADVICE.name} == {"raw", "compacted"}
    assert set(PASSED_ON) & unheard == {topics.COMMAND}


@pytest.mark.parametrize("kind", sorted(DECISIONS, key=lambda kind: kind.__name__))
def test_a_decision_hears_one_kind_of_key(kind):
    """Its state lives in one partition, so what it is told is keyed alike, in as many partitions."""
    assert len({(topic.key, topic.partitions) for topic in heard(kind)}) == 1


@pytest.mark.parametrize("kind", sorted(DECISIONS, key=lambda kind: kind.__name__))
def test_a_decision_is_made_of_nothing_told_one_event_and_restored_from_bytes(kind):
    """All that the service asks of it."""
    data = kind().snapshot()
    assert isinstance(data, bytes)
    assert kind.restore(data).snapshot() == data
    assert list(inspect.signature(kind().update).parameters) == ["event"]


def test_decisions_have_names_of_their_own():
    """A stored state is found by the name of its decision."""
    assert len({kind.__name__ for kind in DECISIONS}) == len(DECISIONS)
    assert all(len(set(kinds)) == len(kinds) for kinds in ROUTES.values())


def test_what_a_decision_offers_beyond_that_is_seen():
    """Held-back events, several judged together, and a bound on ranks: of what judges a job."""
    offered = {
        kind.__name__: {one.__name__ for one in (Patient, JudgesTogether, BoundsRanks) if isinstance(kind(), one)}
        for kind in DECISIONS
    }
    assert {name for name, offers in offered.items() if "Patient" in offers} == {"JobState"}
    assert {name for name, offers in offered.items() if "JudgesTogether" in offers} == {"JobState"}
    assert {name for name, offers in offered.items() if "BoundsRanks" in offers} == {"JobState"}
    assert [kind.__name__ for kind in DECISIONS if isinstance(kind(), TakesAdviceSettings)] == ["ClusterAdvice"]


@pytest.mark.parametrize("event", [RankWindow, JobWindow, DeviceWindow, HostWindow])
def test_every_window_goes_to_the_windows(event):
    """Of ranks, jobs, devices and hosts."""
    assert topic_of(golden(event)) is topics.WINDOW


def test_a_finding_goes_to_the_findings():
    """As that topic declares."""
    assert topic_of(golden(Finding)) is topics.FINDING
    assert topics.FINDING.event is Finding


@pytest.mark.parametrize(("event", "topic"), [(Suggestion, topics.SUGGESTION), (AuditEntry, topics.AUDIT)])
def test_what_advice_says_goes_where_it_is_looked_for(event, topic):
    """Suggestions, and what came of commands."""
    assert topic_of(golden(event)) is topic


def test_a_proposed_plan_goes_to_the_plans():
    """Where sidecars look for it."""
    assert topic_of(golden(BalancePlan)) is topics.PLAN


@pytest.mark.parametrize("event", [HostSamples, NodeDescribed])
def test_what_no_decision_says_has_no_topic(event):
    """An event that is only heard is refused by its type."""
    with pytest.raises(TypeError, match=f"^no topic for {event.__name__}$"):
        topic_of(golden(event))
