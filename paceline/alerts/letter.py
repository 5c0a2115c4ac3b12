"""A message as an e-mail.

Rule of this file: pure; the date is an argument. Every header is one line: what comes from outside has none, and the
class that holds them refuses more.
"""

from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime

from .message import Entry, Message
from .payloads import headline, link

LONGEST_SUBJECT = 150


def compose(message: Message, sender: str, recipients: tuple[str, ...], page: str, now_s: float) -> EmailMessage:
    """The letter that tells of ``message``."""
    letter = EmailMessage(policy=SMTP)
    letter["Subject"] = _subject(message)
    letter["From"] = sender
    letter["To"] = ", ".join(recipients)
    letter["Date"] = format_datetime(datetime.fromtimestamp(now_s, UTC))
    letter["Auto-Submitted"] = "auto-generated"  # RFC 3834: no out-of-office reply
    parts = [headline(message), *(_part(entry) for entry in message.entries)]
    if message.more:
        parts.append(f"and {message.more} more")
    if page:
        parts.append(link(message, page))
    letter.set_content("\n\n".join(parts) + "\n")
    return letter


def _subject(message: Message) -> str:
    first = message.entries[0].alert.title
    text = f"{headline(message)}: {first}" if len(message.entries) + message.more > 1 else _alone(message)
    return text if len(text) <= LONGEST_SUBJECT else text[: LONGEST_SUBJECT - 1] + "…"


def _alone(message: Message) -> str:
    entry = message.entries[0]
    state = entry.alert.severity if entry.news == "firing" else "resolved"
    return f"Paceline: {state}: {entry.alert.job or entry.alert.cluster}: {entry.alert.title}"


def _part(entry: Entry) -> str:
    alert = entry.alert
    state = alert.severity.upper() if entry.news == "firing" else f"RESOLVED ({entry.ending})"
    where = [f"job {alert.job}" if alert.job else "", f"cluster {alert.cluster}"]
    where += [f"node{'s' if len(alert.nodes) > 1 else ''} {', '.join(alert.nodes)}" if alert.nodes else ""]
    lines = [f"{state}: {alert.title}", "  " + ", ".join(filter(None, where))]
    if entry.news == "firing":
        lines += [f"  {line}" for line in (alert.text, *alert.lines) if line]
    return "\n".join(lines)
