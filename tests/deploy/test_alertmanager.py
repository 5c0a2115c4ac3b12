"""A real Alertmanager with the shipped configuration: a finding that comes by both ways is told once."""

import json
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from paceline.alerts import payloads
from paceline.alerts.book import AlertBook
from paceline.alerts.destination import Destination
from paceline.alerts.post import post
from paceline.alerts.target import of_url
from tests.derived_events import finding
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.e2e
DEPLOY = Path(__file__).parents[2] / "deploy"


@pytest.fixture(scope="module")
def alertmanager(new_alertmanager: Callable[[str], str]) -> str:
    return new_alertmanager((DEPLOY / "alertmanager" / "alertmanager.yml").read_text())


def by_paceline_alerts(at: str, *events: Any) -> None:
    """What `paceline alerts` sends of ``events``."""
    target, book = of_url(f"alertmanager+http://{at}"), AlertBook()
    destination = Destination(target.profile, "warning", 6, Random(1))
    for event in events:
        book.update(event, time.time())
    message = destination.next(book, time.time(), time.monotonic())
    assert message is not None
    post(target, payloads.alertmanager(message, ""))


def by_rule(at: str, name: str, **series: str) -> None:
    """What Prometheus sends when the rule called ``name`` fires on a series with these labels."""
    groups = yaml.safe_load((DEPLOY / "prometheus" / "rules" / "alerts.yml").read_text())["groups"]
    rule = next(rule for group in groups for rule in group["rules"] if rule.get("alert") == name)
    labels = {"alertname": name, **series, **rule["labels"]}
    filled = {
        key: series["training_job"] if "$labels.training_job" in value else value for key, value in labels.items()
    }
    body = json.dumps([{"labels": {key: value for key, value in filled.items() if value}}]).encode()
    request = urllib.request.Request(f"http://{at}/api/v2/alerts", body, {"Content-Type": "application/json"})
    urllib.request.urlopen(request, timeout=PATIENCE_S).close()


def inhibited(at: str, **labels: str) -> list[bool]:
    """Of each alert with these labels whether it is kept back."""
    with urllib.request.urlopen(f"http://{at}/api/v2/alerts", timeout=PATIENCE_S) as answer:
        alerts = json.load(answer)
    held = [one for one in alerts if labels.items() <= one["labels"].items()]
    return [bool(one["status"]["inhibitedBy"]) for one in held]


def test_a_finding_of_a_job_that_comes_by_both_ways_is_told_once(alertmanager: str, until: Callable[..., None]) -> None:
    """The one with evidence is told; another kind of the same job, and the same kind of another job, are."""
    by_paceline_alerts(alertmanager, finding(job="both"))
    for job, kind in (("both", "straggler"), ("both", "data_bound"), ("one", "straggler")):
        by_rule(alertmanager, "PacelineFinding", training_job=job, kind=kind, cause="link", severity="warning")
    until(lambda: inhibited(alertmanager, source="rule", job="both", kind="straggler") == [True])
    assert inhibited(alertmanager, source="rule", job="both", kind="data_bound") == [False]
    assert inhibited(alertmanager, source="rule", job="one", kind="straggler") == [False]
    assert inhibited(alertmanager, source="finding", job="both") == [False]


def test_a_finding_of_a_node_speaks_for_that_node_alone(alertmanager: str, until: Callable[..., None]) -> None:
    by_paceline_alerts(alertmanager, finding(job="", kind="device_fault", nodes=["n1"], first_step=-1))
    for node in ("n1", "n2"):
        by_rule(
            alertmanager, "PacelineNodeFinding", node=node, kind="device_fault", cause="unknown", severity="warning"
        )
    until(lambda: inhibited(alertmanager, source="rule", node="n1") == [True])
    assert inhibited(alertmanager, source="rule", node="n2") == [False]


def test_workers_that_are_gone_speak_for_what_they_cannot_do(alertmanager: str, until: Callable[..., None]) -> None:
    by_rule(alertmanager, "PacelineStreamsDown")
    by_rule(alertmanager, "PacelineLag", topic="op")
    by_rule(alertmanager, "PacelineCollectorDown", instance="c")
    until(lambda: inhibited(alertmanager, alertname="PacelineLag") == [True])
    assert inhibited(alertmanager, alertname="PacelineCollectorDown") == [False]
