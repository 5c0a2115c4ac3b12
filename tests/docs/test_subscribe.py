"""The subscription in docs/subscribe.md does what it says, taken from the page as it is."""

import os
import re
import subprocess
import sys
import uuid
from pathlib import Path

import msgspec

from paceline import events, topics, wire
from paceline.delivery.publisher import Publisher
from paceline.kafka.settings import BrokerSettings
from tests.patience import PATIENCE_S

GOLDEN = Path(__file__).parents[1] / "paceline" / "golden" / "v2"
PAGE = Path(__file__).parent.parent.parent / "docs" / "subscribe.md"


def prints(broker: BrokerSettings, code: str, wanted: str) -> bool:
    """Whether ``code`` prints that line."""
    environ = {**os.environ, "PACELINE_BROKERS": broker.address}
    command = [sys.executable, "-W", "ignore", "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ) as reader:
        try:
            return any(line.strip() == wanted for line in reader.stdout)
        finally:
            reader.kill()


def finding(summary: str) -> events.Finding:
    return events.Finding(
        id="f",
        revision=1,
        kind="straggler",
        state="confirmed",
        cluster="c",
        job="j",
        attempt=0,
        cause="worker_compute",
        ranks=[2],
        stage=None,
        group=None,
        nodes=[],
        devices=[],
        first_step=1,
        last_step=2,
        severity="warning",
        confidence=0.9,
        cost=events.Cost(lost_s=0.0, gpu_hours=0.0, throughput_lost_ratio=0.0),
        coverage=events.Coverage(ranks_expected=4, ranks_heard=4, events_missing=0),
        evidence=[],
        exonerated=[],
        summary=summary,
    )


def test_the_python_of_the_page_prints_findings(own_broker: BrokerSettings):
    """Ten lines, run as they stand on the page, print the summary of a finding that a publisher sent.

    On a broker of its own: others' tests send bytes that are no finding.
    """
    code = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[0]
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    summary = f"rank 2 is slow {uuid.uuid4().hex}"
    publisher = Publisher(own_broker, client_id="test")
    publisher.publish(topics.FINDING, finding(summary))
    assert publisher.close(PATIENCE_S).sent == 1
    assert prints(own_broker, code, summary)


def test_the_python_of_the_page_prints_steps(own_broker: BrokerSettings):
    """The columns of a message as a sidecar sends it are read with what anybody can install."""
    code = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[1]
    golden = (GOLDEN / "StepTimings.msgpack").read_bytes()
    steps = msgspec.structs.replace(wire.decode(topics.OP, golden), job=uuid.uuid4().hex)
    publisher = Publisher(own_broker, client_id="test")
    publisher.publish(topics.OP, steps)
    assert publisher.close(PATIENCE_S).sent == 1
    assert prints(own_broker, code, f"{steps.job} rank 5 step 42: 0.750 s")
