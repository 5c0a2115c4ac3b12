"""What the brokers let go of before it was read is counted, and a topic that was made again is not taken for that."""

import logging
import threading

import pytest

from archive.database.mirror import DatabaseMirror
from paceline import topics
from paceline.kafka.follow import Jump
from paceline.kafka.settings import BrokerSettings


@pytest.fixture
def mirror() -> DatabaseMirror:
    """One that was not started."""
    return DatabaseMirror(BrokerSettings(), "sqlite:///nowhere", threading.Event())


def test_messages_that_were_gone_are_counted(mirror: DatabaseMirror, caplog: pytest.LogCaptureFixture) -> None:
    """As after an outage that is longer than the topic keeps them."""
    mirror._jumped(Jump(topics.FINDING, 3, expected=100, first=140, end=200))
    assert mirror.gone == 40
    assert "40 messages of paceline.finding.v1, partition 3, were gone before they were read" in caplog.text


def test_of_a_topic_that_was_made_again_nobody_knows(mirror: DatabaseMirror, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        mirror._jumped(Jump(topics.FINDING, 3, expected=100, first=0, end=-1))
    assert mirror.gone == 0
    assert "paceline.finding.v1 was deleted and made again: it is read from its start" in caplog.text


def test_before_it_has_begun_it_waits(mirror: DatabaseMirror) -> None:
    assert mirror.waits() == "waiting for the database at sqlite:///nowhere"
    assert mirror.stop()
