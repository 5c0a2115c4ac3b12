"""How telling goes, in numbers."""

from collections.abc import Callable
from random import Random

import pytest

from paceline import topics, wire
from paceline.alerts.alerting import Alerting, Channel
from paceline.alerts.destination import Destination
from paceline.alerts.message import Message
from paceline.alerts.meters import METERS, AlertMeters
from paceline.alerts.outcome import NotDeliveredError, RefusedError
from paceline.alerts.sender import Sender
from paceline.alerts.target import of_command, of_url
from paceline.exposition import text
from tests.derived_events import finding

Until = Callable[[Callable[[], object]], object]


def told(meters: AlertMeters) -> set[str]:
    return {line for line in text(meters.families()).splitlines() if not line.startswith("#")}


@pytest.fixture
def deliver() -> list[Exception]:
    """What delivering fails with, one after the other; then it does not."""
    return []


@pytest.fixture
def alerting(deliver: list[Exception]) -> Alerting:
    def send(message: Message) -> None:
        if deliver:
            raise deliver.pop(0)

    targets = (of_command(("true",)), of_url("http://127.0.0.1:9/a"))
    return Alerting(
        [
            Channel(target, Destination(target.profile, "warning", 600, Random(1)), Sender(target.shown, send))
            for target in targets
        ],
        lambda line: None,
    )


@pytest.mark.slow
def test_what_waits_and_what_became_of_it(
    alerting: Alerting, deliver: list[Exception], until: Until, promtool: Callable[[str], None]
) -> None:
    """Alerts that are to be told; then messages that arrived, one at each destination."""
    meters = AlertMeters(alerting)
    alerting.hear(topics.FINDING, wire.encode(finding()), 1000.0)
    alerting.hear(topics.FINDING, b"{", 1000.0)
    meters.update(None, 1000.0)
    assert {
        "paceline_alerts_ready 1.0",
        'paceline_alerts_firing{severity="warning"} 1.0',
        'paceline_alerts_waiting{destination="command"} 1.0',
        'paceline_alerts_waiting{destination="webhook"} 1.0',
        "paceline_alerts_unusable_messages_total 1.0",
    } <= told(meters)

    deliver += [NotDeliveredError("away"), RefusedError("no")]
    clock = [1000.0]

    def over() -> bool:
        clock[0] += 5.0
        alerting.turn(clock[0], clock[0], gather=False)
        meters.update("no answer from Kafka", clock[0])
        return 'paceline_alerts_waiting{destination="command"} 0.0' in told(meters) and not alerting.waits(clock[0])

    until(over)
    numbers = {line.partition(" ")[0]: float(line.rpartition(" ")[2]) for line in told(meters)}
    sent = {
        outcome: sum(numbers[f'paceline_alerts_sent_total{{destination="{to}",outcome="{outcome}"}}'] for to in KINDS)
        for outcome in ("arrived", "failed", "refused")
    }
    assert sent == {"arrived": 1, "failed": 1, "refused": 1}
    assert numbers["paceline_alerts_ready"] == 0
    assert meters.waits() == "no answer from Kafka"
    promtool(text(meters.families()))


KINDS = ("command", "webhook")


@pytest.mark.slow
def test_all_are_declared_before_anything_is_read(alerting: Alerting, promtool: Callable[[str], None]) -> None:
    """With their types, and the service is not ready."""
    meters = AlertMeters(alerting)
    lines = text(meters.families())
    promtool(lines)
    assert {line.split()[2] for line in lines.splitlines() if line.startswith("# TYPE")} == {
        meter.sample for meter in METERS
    }
    assert meters.waits() == "reading what there is"
