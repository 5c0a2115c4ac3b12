"""What control publishes is what every reader takes; anything else is refused beforehand."""

from typing import Any

import pytest

from control.outgoing import Outgoing
from paceline.events import Command, Thresholds
from paceline.topics import COMMAND, THRESHOLD, Topic
from paceline.web.failures import RefusedError


class Publisher:
    """In place of the brokers: what was published."""

    def __init__(self) -> None:
        self.published: list[tuple[Topic, Any]] = []

    def publish(self, topic: Topic, event: Any) -> None:
        self.published.append((topic, event))


@pytest.fixture
def publisher() -> Publisher:
    return Publisher()


def outgoing(publisher: Publisher, *, connected: bool = True) -> Outgoing:
    return Outgoing(publisher, "here", lambda: None if connected else "no broker at b:9092 (refused)")  # type: ignore[arg-type]


@pytest.mark.parametrize("cluster", ["", "east"])
def test_a_command_goes_to_the_cluster_that_is_named(publisher: Publisher, cluster: str) -> None:
    id_ = outgoing(publisher).command("suggestion:s", "accept", {"because": "why"}, "ada", cluster)
    ((topic, command),) = publisher.published
    assert (topic, command.id, command.issuer) == (COMMAND, id_, "ada")
    assert command.cluster == cluster
    assert isinstance(command, Command)


@pytest.mark.parametrize(
    ("job", "values"), [("resnet", {"a": 1e31}), ("resnet", {"\udce9": 1.0}), ("\udce9", {"a": 1.0})]
)
def test_what_no_reader_would_take_is_refused(publisher: Publisher, job: str, values: dict[str, float]) -> None:
    """With its reason, and nothing is published."""
    with pytest.raises(RefusedError, match="no threshold") as told:
        outgoing(publisher).event(THRESHOLD, Thresholds(cluster="here", job=job, attempt=0, values=values))
    assert told.value.status == 422
    assert publisher.published == []


@pytest.mark.parametrize(("cluster", "noted"), [(None, "here"), ("east", "east")])
def test_the_audit_log_names_the_cluster_that_was_changed(
    publisher: Publisher, cluster: str | None, noted: str
) -> None:
    """Our own where nothing of another was."""
    outgoing(publisher).audit("set_thresholds", "job:train", "ada", "", cluster)
    assert publisher.published[0][1].cluster == noted


def test_while_the_brokers_are_away_nothing_is_taken(publisher: Publisher) -> None:
    with pytest.raises(RefusedError, match="no broker at b:9092") as told:
        outgoing(publisher, connected=False).command("suggestion:s", "accept", {}, "ada", "here")
    assert told.value.status == 503
    assert publisher.published == []
