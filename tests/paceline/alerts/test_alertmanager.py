"""A real Alertmanager takes our alerts, keeps one alert one alert, and forgets those that are over."""

import json
import time
import urllib.request
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from paceline.alerts import payloads
from paceline.alerts.book import AlertBook
from paceline.alerts.destination import Destination
from paceline.alerts.post import post
from paceline.alerts.target import of_url
from tests.derived_events import HOSTILE, finding, suggestion
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def alertmanager(new_alertmanager: Callable[[str], str]) -> str:
    return new_alertmanager("route: {receiver: nobody}\nreceivers: [{name: nobody}]\n")


def asked(at: str, path: str) -> bytes:
    with urllib.request.urlopen(f"http://{at}{path}", timeout=PATIENCE_S) as answer:
        return bytes(answer.read())


def alerts(at: str, job: str) -> list[dict[str, Any]]:
    """What holds of ``job``."""
    held = json.loads(asked(at, "/api/v2/alerts"))
    return [alert for alert in held if alert["labels"].get("job") == job]


class Told:
    """Our side, in front of a real Alertmanager."""

    def __init__(self, at: str) -> None:
        self.target = of_url(f"alertmanager+http://{at}")
        self.book = AlertBook()
        self.destination = Destination(self.target.profile, "warning", 6, Random(1))

    def tell(self, *events: Any, now_s: float | None = None) -> None:
        at_s = time.time() if now_s is None else now_s
        for event in events:
            self.book.update(event, at_s)
        message = self.destination.next(self.book, at_s, at_s)
        assert message is not None
        post(self.target, payloads.alertmanager(message, "http://page.example/"))
        self.destination.sent(message, at_s)


def test_it_takes_them_and_they_end_when_they_are_over(alertmanager: str, until: Callable[..., None]) -> None:
    told = Told(alertmanager)
    expires_s = time.time() + 3600.0
    told.tell(finding(job="am-1"), suggestion(job="am-1", created_s=time.time(), expires_s=expires_s))
    held = alerts(alertmanager, "am-1")
    assert sorted(alert["labels"]["alertname"] for alert in held) == ["PacelineCordonNode", "PacelineStraggler"]
    assert {alert["generatorURL"] for alert in held} == {"http://page.example/?job=am-1"}
    told.tell(
        finding(job="am-1", revision=2, state="recovered", severity="info"),
        suggestion(job="am-1", revision=2, state="withdrawn", created_s=time.time(), expires_s=expires_s),
    )
    until(lambda: not alerts(alertmanager, "am-1"))


def test_told_again_it_is_the_same_alert_that_ends_later(alertmanager: str) -> None:
    told, now_s = Told(alertmanager), time.time()
    told.tell(finding(job="am-2"), now_s=now_s)
    (first,) = alerts(alertmanager, "am-2")
    told.tell(now_s=now_s + 60.0)
    (again,) = alerts(alertmanager, "am-2")
    assert again["fingerprint"] == first["fingerprint"]
    assert again["startsAt"] == first["startsAt"]
    assert again["endsAt"] > first["endsAt"]


def test_one_that_becomes_worse_is_one_alert_still(alertmanager: str, until: Callable[..., None]) -> None:
    told = Told(alertmanager)
    told.tell(finding(job="am-3"))
    told.tell(finding(job="am-3", revision=2, severity="critical"))
    until(lambda: [alert["labels"]["severity"] for alert in alerts(alertmanager, "am-3")] == ["critical"])


def test_hostile_names_are_values_and_break_nothing(alertmanager: str) -> None:
    told = Told(alertmanager)
    told.tell(finding(job=HOSTILE, cluster=HOSTILE, kind=HOSTILE, summary=HOSTILE * 100, nodes=[HOSTILE] * 500))
    (alert,) = alerts(alertmanager, told.book.alerts["finding:f1"].job)
    assert set(alert["labels"]) == {"alertname", "severity", "source", "cluster", "job", "kind", "id"}
    assert all(value.isprintable() for value in alert["labels"].values())
