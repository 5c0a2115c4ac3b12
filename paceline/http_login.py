"""How a login reaches an HTTP source (a Prometheus, a dcgm-exporter) without standing in a command or a message.

Rule of this file: the address that is shown never holds a login. One comes from the source's own setting or the file
that it names, from an address, or from a netrc file; it goes to that address alone.
"""

import base64
import http.client
import netrc
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from paceline.settings import Setting

#: Of an address that cannot be read: nothing of it.
UNREADABLE = "the address, or a proxy's, cannot be read: a login writes / as %2F, @ as %40"


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


def cause(error: Exception) -> str:
    """Why a question over HTTP failed, without a piece of an address.

    Of an address that they cannot read, libraries quote the place where they lost their way: the end of a password
    with a slash in it, say.

    >>> cause(http.client.InvalidURL("nonnumeric port: 's3cr'")) == UNREADABLE, cause(OSError(111, "refused"))
    (True, 'refused')
    """
    reason = getattr(error, "strerror", None) or getattr(error, "reason", None)
    text = str(reason or error) or type(error).__name__
    of_address = isinstance(error, ValueError | http.client.InvalidURL) and not isinstance(error, OSError)
    return UNREADABLE if of_address and "'" in text else text
