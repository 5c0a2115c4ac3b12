"""Messages as the JSON that others read: Alertmanager's API v2, Alertmanager's webhook, Slack's incoming webhook.

Rule of this file: pure. Names of labels are ours alone, and what comes from outside is only ever a value. Sources:
https://prometheus.io/docs/alerting/latest/alerts_api/, https://prometheus.io/docs/alerting/latest/configuration/#webhook_config
and https://docs.slack.dev/messaging/formatting-message-text/.
"""

import hashlib
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

import msgspec

from paceline.events import Severity

from .message import Entry, Message

#: What Alertmanager writes where the end is not known.
NO_TIME = "0001-01-01T00:00:00Z"
#: Characters of Slack's text that are still sent; Slack itself cuts at 40,000, readers far earlier.
LONGEST_SLACK = 6_000
LINES_SLACK = 4
_json = msgspec.json.Encoder()


def alertmanager(message: Message, page: str) -> bytes:
    """The body of ``POST /api/v2/alerts``; ``page`` is the address of our page, or empty.

    Labels are an alert's identity there, severity one of them: under its former severity an alert is ended.
    """
    told: list[dict[str, Any]] = []
    for entry in message.entries:
        if entry.news == "firing" and entry.former is not None:
            over = entry._replace(news="resolved", ending="severity changed", ends_s=entry.alert.heard_s)
            told.append(_alert(over, page))
        told.append(_alert(entry, page))
    return _json.encode(told)


def webhook(message: Message, page: str) -> bytes:
    """The body that Alertmanager's webhook sends, version 4; ``truncatedAlerts`` counts those left out."""
    alerts = [_webhook_alert(entry, page) for entry in message.entries]
    group = {} if message.group is None else dict(zip(("cluster", "job"), message.group, strict=True))
    common = _common([alert["labels"] for alert in alerts])
    return _json.encode(
        {
            "version": "4",
            "groupKey": "{}:" + msgspec.json.encode(group).decode(),
            "truncatedAlerts": message.more,
            "status": "firing" if message.firing else "resolved",
            "receiver": "paceline",
            "groupLabels": group,
            "commonLabels": common,
            "commonAnnotations": _common([alert["annotations"] for alert in alerts]),
            "externalURL": page,
            "alerts": alerts,
        }
    )


def slack(message: Message, page: str) -> bytes:
    """The body of an incoming webhook of Slack, and of those who take the same."""
    lines = [f"*{escaped(headline(message))}*"]
    for entry in message.entries:
        mark = _MARKS[entry.alert.severity] if entry.news == "firing" else ":white_check_mark:"
        state = entry.alert.severity if entry.news == "firing" else entry.ending or "resolved"
        lines.append(f"{mark} *{escaped(entry.alert.title)}* ({escaped(state)})")
        if entry.news == "firing":
            lines += [escaped(line) for line in (entry.alert.text, *entry.alert.lines[:LINES_SLACK]) if line]
    shown: list[str] = []
    for line in lines:
        if sum(map(len, shown)) + len(line) > LONGEST_SLACK:
            shown.append("…")
            break
        shown.append(line)
    if message.more:
        shown.append(f"and {message.more} more")
    if page:
        shown.append(f"<{escaped(link(message, page))}|Open the page>")
    return _json.encode({"text": "\n".join(shown), "unfurl_links": False, "unfurl_media": False})


def headline(message: Message) -> str:
    """What a message is about: of which job, how many are firing and how many over."""
    counts = [(len(message.firing), "firing"), (len(message.resolved), "resolved"), (message.more, "more")]
    told = ", ".join(f"{number} {word}" for number, word in counts if number)
    if message.group is None:
        return f"Paceline: {told}, of several jobs"
    cluster, job = message.group
    return f"Paceline: {told}, {job or 'no job'} on {cluster}"


def link(message: Message, page: str) -> str:
    """The page's address with the job of ``message`` chosen, where it has one."""
    job = message.entries[0].alert.job if message.group is not None else ""
    return _page(page, job)


def escaped(text: str) -> str:
    """``text`` so that Slack and its kin see no mention in it and no link that says one thing and leads elsewhere.

    Others that read Slack's format call people by a bare ``@name`` and know Markdown's ``[text](link)``: a zero-width
    space breaks both.
    """
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace("@", "@\u200b").replace("](", "]\u200b(")


_MARKS: dict[Severity, str] = {
    "info": ":information_source:",
    "warning": ":warning:",
    "critical": ":rotating_light:",
}


def labels(entry: Entry) -> dict[str, str]:
    """An alert's labels; those without a value are left out. What is over bears those that it was told under."""
    alert = entry.alert
    held = {
        "alertname": "Paceline" + "".join(part.capitalize() for part in re.findall(r"[A-Za-z0-9]+", alert.kind)),
        "severity": entry.former or alert.severity if entry.news == "resolved" else alert.severity,
        "source": alert.source,
        "cluster": alert.cluster,
        "job": alert.job,
        "node": "" if alert.job else alert.group[1],
        "kind": alert.kind,
        "id": alert.id,
    }
    return {name: value for name, value in held.items() if value}


def _annotations(entry: Entry) -> dict[str, str]:
    alert = entry.alert
    held = {
        "summary": alert.title,
        "description": "\n".join(filter(None, (alert.text, *alert.lines))),
        "ranks": ", ".join(map(str, alert.ranks)),
        "nodes": ", ".join(alert.nodes),
        "devices": ", ".join(alert.devices),
        "ending": entry.ending,
    }
    return {name: value for name, value in held.items() if value}


def _alert(entry: Entry, page: str) -> dict[str, Any]:
    told: dict[str, Any] = {
        "labels": labels(entry),
        "annotations": _annotations(entry),
        "startsAt": _time(_start(entry)),
    }
    if entry.ends_s is not None:
        told["endsAt"] = _time(max(entry.ends_s, _start(entry)))
    if page:
        told["generatorURL"] = _page(page, entry.alert.job)
    return told


def _webhook_alert(entry: Entry, page: str) -> dict[str, Any]:
    return {
        "status": entry.news,
        "endsAt": NO_TIME,
        "generatorURL": "",
        **_alert(entry, page),
        "fingerprint": hashlib.sha256(entry.alert.id.encode()).hexdigest()[:16],
    }


def _start(entry: Entry) -> float:
    """When it began; an end before it, by another clock, moves it: Alertmanager refuses what ends before it starts."""
    return entry.alert.starts_s if entry.ends_s is None else min(entry.alert.starts_s, entry.ends_s)


def _time(unix_s: float) -> str:
    """RFC 3339, in UTC; years beyond 9999 do not come: the events' times end in 5138."""
    return datetime.fromtimestamp(unix_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _page(page: str, job: str) -> str:
    if not page or not job:
        return page
    return f"{page}{'&' if '?' in page else '?'}{urlencode({'job': job})}"


def _common(tables: Iterable[dict[str, str]]) -> dict[str, str]:
    """What all tables say alike."""
    held = list(tables)
    if not held:
        return {}
    return {name: value for name, value in held[0].items() if all(table.get(name) == value for table in held)}
