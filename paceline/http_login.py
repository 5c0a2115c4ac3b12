"""How a login reaches an HTTP source (a Prometheus, a dcgm-exporter) without standing in a command or a message.

Rule of this file: the address that is shown never holds a login. One comes from the source's own setting or the file
that it names, from an address, or from a netrc file; it goes to that address alone.
"""

import base64
import netrc
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from paceline.settings import Setting


def parted(url: str) -> tuple[str, str]:
    """``url`` without its login, and that login as ``user:password``, or "".

    >>> parted("http://ada:p%40ss@host:9090/x"), parted("http://host")
    (('http://host:9090/x', 'ada:p@ss'), ('http://host', ''))
    """
    before, slashes, rest = url.partition("//")
    if not slashes or "@" not in rest:
        return url, ""
    login, _, address = rest.rpartition("@")
    user, _, password = login.partition(":")
    return f"{before}//{address}", f"{unquote(user)}:{unquote(password)}"


def authorization(url: str, login: Setting[str], environ: Mapping[str, str], home: Path | None = None) -> str | None:
    """The header for ``url``, which holds no login itself: ``Basic …`` or ``Bearer …``; None without any login.

    The setting holds ``user:password``, or ``Bearer TOKEN``. Else the host's entry in ``NETRC`` or ``~/.netrc`` counts.

    Raises:
        SettingError: the setting, or the file that it names, cannot be read.
    """
    told = login.read(environ)
    if told.lower().startswith("bearer "):
        return f"Bearer {told[7:].strip()}"
    return basic(told or _of_netrc(url, environ, home))


def basic(login: str) -> str | None:
    """The header of ``user:password``; None of none.

    >>> basic("prom:s3cret"), basic("")
    ('Basic cHJvbTpzM2NyZXQ=', None)
    """
    return f"Basic {base64.b64encode(login.encode()).decode()}" if login else None


def _of_netrc(url: str, environ: Mapping[str, str], home: Path | None) -> str:
    """The login of a netrc file for the host of ``url``; "" where there is none, or no such file that can be read."""
    try:
        host = urlsplit(url).hostname or ""
        path = environ.get("NETRC") or (home or Path.home()) / ".netrc"
        entry = netrc.netrc(path).authenticators(host)
    except (OSError, ValueError, RuntimeError, netrc.NetrcParseError):
        return ""
    return f"{entry[0]}:{entry[2] or ''}" if entry else ""
