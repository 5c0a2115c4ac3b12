"""``paceline topics``: what is declared becomes what is there, once."""

import pytest

from paceline.__main__ import main
from paceline.kafka import embedded
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.topic_admin import describe_topics, ensure_topics, existing_topics
from paceline.topics import BY_NAME, HOST, OP, TOPICS


@pytest.mark.bus
def test_create_makes_what_is_missing_once(broker: BrokerSettings, capsys: pytest.CaptureFixture[str]) -> None:
    """On a broker that has them all, nothing is created and nothing fails; the list says they are there."""
    assert main(["topics", "create", "--brokers", broker.address, "--wait", "240"]) == 0
    assert f"0 created, {len(TOPICS)} existed" in capsys.readouterr().err
    assert main(["topics", "list", "--brokers", broker.address]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [topic.name for topic in TOPICS]
    assert all(line.endswith("there") for line in lines)
    counts = {name: topic.partitions for name, topic in describe_topics(broker, BY_NAME).items()}
    assert {line.split()[0]: int(line.split()[2]) for line in lines} == counts


@pytest.mark.bus
def test_each_topic_is_told_when_it_is_made() -> None:
    """Not all at the end: whoever waits a minute, or ends it, knows what is there."""
    there: list[set[str]] = []
    with embedded.start() as running:
        settings = BrokerSettings().with_brokers(running.address)
        ensure_topics(settings, (HOST, OP), on_created=lambda name: there.append(existing_topics(settings)))
    assert [HOST.name in names for names in there] == [True, True]
    assert [OP.name in names for names in there] == [False, True]


def test_no_broker_is_one_line_and_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    """The line names the address and how to start one."""
    assert main(["topics", "create", "--brokers", "127.0.0.1:1"]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "127.0.0.1:1" in said
    assert "make kafka" in said
