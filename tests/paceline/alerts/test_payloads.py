"""What others read: valid for them, whatever a job, a node or a summary is called."""

import json
from email import message_from_bytes, policy
from random import Random
from typing import Any

import pytest

from paceline.alerts import letter, payloads
from paceline.alerts.book import AlertBook
from paceline.alerts.destination import Destination, Profile
from paceline.alerts.message import Message
from tests.derived_events import HOSTILE, finding, suggestion

PAGE = "https://page.example/?theme=dark"


def message(*events: object, profile: Profile | None = None, told: tuple[object, ...] = ()) -> Message:
    """What is said of ``events`` after ``told``."""
    book, wants = AlertBook(), profile or Profile(most=10, lists_all=False)
    destination = Destination(wants, "info", 6, Random(1))
    for event in told:
        book.update(event, 1000.0)  # type: ignore[arg-type]
    if told and (first := destination.next(book, 1000.0, 1000.0, gather=False)):
        destination.sent(first, 1000.0)
    for event in events:
        book.update(event, 1100.0)  # type: ignore[arg-type]
    said = destination.next(book, 1200.0, 1200.0, gather=False)
    assert said is not None
    return said


OVER = finding(revision=2, state="recovered", severity="info")
REPEATED = Profile(most=10, lists_all=True, repeat_s=60.0)


def decoded(body: bytes) -> Any:
    return json.loads(body)


def test_alertmanagers_api_gets_labels_that_last_and_an_end() -> None:
    (alert,) = decoded(payloads.alertmanager(message(finding(), profile=REPEATED), PAGE))
    assert alert["labels"] == {
        "alertname": "PacelineStraggler", "severity": "warning", "source": "finding", "cluster": "c", "job": "train",
        "kind": "straggler", "id": "finding:f1",
    }  # fmt: skip
    assert (alert["startsAt"], alert["endsAt"]) == ("1970-01-01T00:18:20.000Z", "1970-01-01T00:25:00.000Z")
    assert alert["annotations"]["nodes"] == "node-1"
    assert alert["generatorURL"] == "https://page.example/?theme=dark&job=train"


def test_what_belongs_to_no_job_belongs_to_a_node() -> None:
    """So that Prometheus' rule on the same finding is known to be the same."""
    events = (finding(job="", kind="device_fault", nodes=["node-1", "node-2"]),)
    (alert,) = decoded(payloads.alertmanager(message(*events, profile=REPEATED), PAGE))
    assert "job" not in alert["labels"]
    assert (alert["labels"]["node"], alert["labels"]["kind"]) == ("node-1", "device_fault")


def test_what_is_over_ends_under_the_labels_that_it_began_with() -> None:
    """Recovered findings are of severity info; Alertmanager would take that for another alert."""
    (alert,) = decoded(payloads.alertmanager(message(OVER, told=(finding(),), profile=REPEATED), PAGE))
    assert alert["labels"]["severity"] == "warning"
    assert alert["annotations"]["ending"] == "recovered"
    assert alert["startsAt"] <= alert["endsAt"] == "1970-01-01T00:18:20.000Z"


def test_what_becomes_worse_ends_under_its_former_severity() -> None:
    worse = message(finding(revision=2, severity="critical"), told=(finding(),), profile=REPEATED)
    before, now = decoded(payloads.alertmanager(worse, ""))
    assert (before["labels"]["severity"], now["labels"]["severity"]) == ("warning", "critical")
    assert before["endsAt"] < now["endsAt"]
    assert "generatorURL" not in now


def test_the_webhook_is_alertmanagers_own() -> None:
    held = decoded(payloads.webhook(message(finding(), finding(id="f2")), PAGE))
    assert (held["version"], held["status"], held["truncatedAlerts"]) == ("4", "firing", 0)
    assert held["groupLabels"] == {"cluster": "c", "job": "train"}
    assert held["commonLabels"]["job"] == "train"
    assert "id" not in held["commonLabels"]
    assert {alert["status"] for alert in held["alerts"]} == {"firing"}
    assert len({alert["fingerprint"] for alert in held["alerts"]}) == 2
    assert {alert["endsAt"] for alert in held["alerts"]} == {payloads.NO_TIME}
    assert decoded(payloads.webhook(message(OVER, told=(finding(),)), ""))["status"] == "resolved"


def test_the_line_of_a_loaders_worker_is_in_the_summary() -> None:
    hang = finding(
        kind="hang", cause="unknown", ranks=[3], nodes=[], line="train.py:9 step", worker_line="io.py:5 read"
    )
    [alert] = decoded(payloads.webhook(message(hang), ""))["alerts"]
    assert alert["annotations"]["summary"] == "Hang: rank 3, train.py:9 step, loader worker at io.py:5 read"


def test_what_is_left_out_is_counted() -> None:
    many = message(*(finding(id=f"f{number}") for number in range(14)))
    assert decoded(payloads.webhook(many, ""))["truncatedAlerts"] == 4
    assert decoded(payloads.slack(many, ""))["text"].endswith("and 4 more")


def test_slack_is_told_in_words_what_to_do() -> None:
    text = decoded(payloads.slack(message(suggestion()), PAGE))["text"]
    assert "*Cordon node-1* (warning)" in text
    assert "expected gain: 24.0 device-hours a day (12.0 to 30.0)" in text
    assert "<https://page.example/?theme=dark&amp;job=train|Open the page>" in text


def test_slack_sees_no_mention_and_no_link_in_a_name() -> None:
    hostile = finding(job=HOSTILE, nodes=[HOSTILE], summary=HOSTILE)
    text = decoded(payloads.slack(message(hostile), ""))["text"]
    assert "<" not in text
    assert "@here" not in text
    assert "](" not in text
    assert not any(sign in text for sign in ("\x1b", "\x07", "\x9b", "\u202e", "\r"))


def test_slack_is_not_sent_a_book() -> None:
    many = message(*(finding(id=f"f{number}", summary="x" * 5000) for number in range(10)))
    assert len(payloads.slack(many, "")) < 8000


@pytest.mark.parametrize("told", [finding(job=HOSTILE, kind=HOSTILE), suggestion(title=HOSTILE, job="")])
def test_a_letter_has_the_headers_that_we_wrote_and_no_others(told: object) -> None:
    sent = letter.compose(message(told), "paceline@c.example", ("ops@c.example",), PAGE, 1200.0)
    read = message_from_bytes(sent.as_bytes(), policy=policy.default)
    assert {name.lower() for name in read} <= {
        "subject", "from", "to", "date", "auto-submitted", "content-type", "content-transfer-encoding", "mime-version",
    }  # fmt: skip
    assert read["To"] == "ops@c.example"
    assert len(read["Subject"]) <= letter.LONGEST_SUBJECT + 5  # where it was folded, a blank more
    body = read.get_content()
    assert "\x1b" not in body
    assert not any(line.startswith("Bcc") for line in body.splitlines())


def test_a_letter_says_what_where_and_what_to_do() -> None:
    read = letter.compose(message(finding(), suggestion()), "a@b", ("c@d",), PAGE, 1200.0)
    body = read.get_content()
    assert read["Subject"] == "Paceline: 2 firing, train on c: Cordon node-1"
    assert "WARNING: Cordon node-1" in body
    assert "$ kubectl cordon node-1" in body
    assert "own: 900 ms, peers 500 ms (own time against peers)" in body
    over = letter.compose(message(OVER, told=(finding(),)), "a@b", ("c@d",), "", 1200.0)
    assert over["Subject"].startswith("Paceline: resolved: train: ")
    assert "RESOLVED (recovered)" in over.get_content()


def test_names_of_labels_are_ours_and_alerts_of_unknown_kinds_have_one() -> None:
    (alert,) = decoded(payloads.alertmanager(message(finding(kind="new-kind {x}", job=HOSTILE)), ""))
    assert alert["labels"]["alertname"] == "PacelineNewKindX"
    assert set(alert["labels"]) == {"alertname", "severity", "source", "cluster", "job", "kind", "id"}
