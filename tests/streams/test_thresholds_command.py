"""``paceline thresholds``: a job that there is not is refused, with those that there are."""

import uuid

import pytest

from paceline import topics
from paceline.events import Thresholds
from paceline.kafka.follow import BEGINNING, Follower
from paceline.kafka.settings import BrokerSettings
from streams import thresholds
from tests.heard import heard

pytestmark = pytest.mark.bus


def published(broker: BrokerSettings, job: str) -> list[Thresholds]:
    found = []
    with Follower(broker, {topics.THRESHOLD: BEGINNING}, "test") as follower:
        while not follower.caught_up:
            for topic, records in follower.poll():
                found += heard(topic, records)
    return [event for event in found if isinstance(event, Thresholds) and event.job == job]


def test_an_unknown_job_is_refused_unless_they_are_set_ahead(
    broker: BrokerSettings, capsys: pytest.CaptureFixture[str]
) -> None:
    """A name mistyped changes nothing, and says so; a job that is still to start is asked for by an option."""
    job = f"job-{uuid.uuid4().hex}"
    words = ["--job", job, "least_excess=0.2", "--brokers", broker.address]
    assert thresholds.main(words) == 2
    said = capsys.readouterr().err
    assert f"no job '{job}' has reported; " in said
    assert "--anyway sets them all the same" in said
    assert published(broker, job) == []
    assert thresholds.main([*words, "--anyway"]) == 0
    assert [event.values for event in published(broker, job)] == [{"least_excess": 0.2}]


def test_they_go_to_the_cluster_that_is_named(broker: BrokerSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    """To PACELINE_CLUSTER where none is."""
    monkeypatch.setenv("PACELINE_CLUSTER", "west")
    job = f"job-{uuid.uuid4().hex}"
    words = ["--job", job, "least_excess=0.2", "--brokers", broker.address, "--anyway"]
    assert thresholds.main([*words, "--cluster", "east"]) == thresholds.main(words) == 0
    assert [event.cluster for event in published(broker, job)] == ["east", "west"]
