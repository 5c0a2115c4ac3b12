"""Where alerts go: what an address of ``--to`` means, and what of it may be shown.

Rule of this file: pure. An address may hold a secret (a webhook's path, a password): ``shown`` is all that is ever
printed or logged of it, and ``key`` all that is kept.
"""

import base64
import hashlib
import re
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import parse_qs, unquote, urlsplit

from paceline.visible import visible

from .destination import Profile

Kind = Literal["webhook", "slack", "alertmanager", "mail", "command"]
PROFILES: dict[Kind, Profile] = {
    "webhook": Profile(most=100, lists_all=True),
    "slack": Profile(most=10, lists_all=False),
    # It groups by itself; clients repeat what holds every 30 seconds to 3 minutes.
    "alertmanager": Profile(most=200, lists_all=True, gather_s=0.0, repeat_s=60.0),
    "mail": Profile(most=25, lists_all=False, gather_s=30.0),
    "command": Profile(most=100, lists_all=True),
}
FORMS = """\
https://HOST/PATH                 JSON as Alertmanager's webhook sends it; http:// too
slack+https://HOST/PATH           JSON as Slack takes it, and Mattermost, Rocket.Chat, Discord (/slack);
                                  an address at hooks.slack.com is one by itself
alertmanager+http://HOST:9093     Alertmanager itself, by its API v2; alertmanager+https:// too
smtp://HOST:587?to=A,B&from=C     e-mail, over STARTTLS; smtps://HOST:465 for TLS from the start"""
_ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+@[A-Za-z0-9.-]+")
_HOST = re.compile(r"[A-Za-z0-9_.:-]+")
LOOPBACK = ("localhost", "127.0.0.1", "::1")


class TargetError(ValueError):
    """An address that cannot be used; the line says why, without the address where that may be secret."""


@dataclass(frozen=True)
class Target:
    """A destination: ``url`` of HTTP kinds; host, port, TLS and addresses of mail; ``command`` of programs."""

    kind: Kind
    shown: str
    key: str
    url: str = field(default="", repr=False)
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    host: str = ""
    port: int = 0
    tls: Literal["none", "start", "whole"] = "none"
    sender: str = ""
    recipients: tuple[str, ...] = ()
    command: tuple[str, ...] = ()

    @property
    def profile(self) -> Profile:
        """How alerts are put for it."""
        return PROFILES[self.kind]

    @property
    def secrets(self) -> tuple[str, ...]:
        """What of its address may be secret: all behind the host, and the login."""
        login = base64.b64encode(f"{self.user}:{self.password}".encode()).decode() if self.password else ""
        return self.url.partition("://")[2].partition("/")[2], self.user, self.password, login

    @property
    def loopback(self) -> bool:
        """Whether it is on this machine."""
        return self.host in LOOPBACK


def of_command(words: tuple[str, ...]) -> Target:
    """The program ``words``, with its arguments.

    Raises:
        TargetError: there is none.
    """
    if not words:
        raise TargetError("--command: names no program")
    return Target("command", f"command {visible(words[0])}", _key("command", *words), command=words)


def of_url(url: str) -> Target:
    """The destination that ``url`` names; `FORMS` are those there are.

    Raises:
        TargetError: it names none.

    >>> of_url("alertmanager+http://am:9093").url, of_url("https://hooks.slack.com/services/T/B/secret").shown
    ('http://am:9093/api/v2/alerts', 'slack at hooks.slack.com')
    """
    if not url.isprintable() or any(sign.isspace() for sign in url):
        raise TargetError("an address with a blank or control character in it")
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname or ""
    except ValueError:
        raise TargetError("an address whose host or port cannot be read") from None
    kind, _, scheme = parts.scheme.rpartition("+")
    if not _HOST.fullmatch(host):
        raise TargetError(f"an address without a host; use one of:\n{FORMS}")
    bare = f"[{host}]" if ":" in host else host
    at = bare if port is None else f"{bare}:{port}"
    if not kind and scheme in ("smtp", "smtps"):
        return _mail(url, scheme, host, port, at)
    if scheme not in ("http", "https") or kind not in ("", "webhook", "slack", "alertmanager"):
        raise TargetError(f"{visible(parts.scheme)[:40]}: not a kind of address; use one of:\n{FORMS}")
    chosen: Kind = kind or ("slack" if host == "hooks.slack.com" else "webhook")  # type: ignore[assignment]
    if (parts.username or parts.password) and scheme == "http" and host not in LOOPBACK:
        raise TargetError(f"{chosen} at {at}: a login is not sent in the clear: use https://")
    path = parts.path.rstrip("/") + "/api/v2/alerts" if chosen == "alertmanager" else parts.path or "/"
    query = f"?{parts.query}" if parts.query else ""
    return Target(
        chosen,
        f"{chosen} at {at}",
        _key(url),
        url=f"{scheme}://{at}{path}{query}",
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        host=host,
    )


def _mail(url: str, scheme: str, host: str, port: int | None, at: str) -> Target:
    parts = urlsplit(url)
    if parts.username or parts.password:
        raise TargetError(
            "smtp: the login goes into PACELINE_SMTP_USERNAME and PACELINE_SMTP_PASSWORD_FILE, not the address"
        )
    asked = parse_qs(parts.query)
    unknown = set(asked) - {"to", "from", "starttls"}
    if unknown or parts.path not in ("", "/"):
        raise TargetError("smtp: an address is smtp://HOST:PORT?to=A,B&from=C, and perhaps &starttls=never")
    recipients = tuple(one.strip() for held in asked.get("to", []) for one in held.split(",") if one.strip())
    sender = asked.get("from", [f"paceline@{host}"])[0]
    for address in (sender, *recipients):
        if len(address) > 254 or not _ADDRESS.fullmatch(address):
            raise TargetError(f"smtp: {visible(address)[:80]!r} is not a mail address")
    if not 0 < len(recipients) <= 50:
        raise TargetError("smtp: name 1 to 50 recipients, as in smtp://HOST:587?to=ops@example.org")
    starttls = asked.get("starttls", ["never" if host in LOOPBACK else "always"])[0]
    if starttls not in ("always", "never"):
        raise TargetError("smtp: starttls is always or never")
    over: Literal["none", "start"] = "start" if starttls == "always" else "none"
    return Target(
        "mail",
        f"mail at {at}",
        _key(url),
        host=host,
        port=port or (465 if scheme == "smtps" else 587),
        tls="whole" if scheme == "smtps" else over,
        sender=sender,
        recipients=recipients,
    )


def _key(*words: str) -> str:
    """A name for the state file from which the address cannot be told."""
    return hashlib.sha256("\0".join(words).encode(errors="replace")).hexdigest()[:24]
