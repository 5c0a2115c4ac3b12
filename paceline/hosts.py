"""Under which names a service answers: a browser that another site's name has led here is not answered.

Rule of this file: it decides on headers alone, for every service alike. A page of a foreign site can make its visitor's
browser ask a service that only the visitor reaches: by a name that is foreign here (DNS rebinding), or by its right one
for a picture, a script or a frame, which costs work although the page never sees the answer.
"""

import socket
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import urlsplit

from .settings import ALLOWED_HOSTS

LOOPBACK = ("127.0.0.1", "localhost", "::1")
#: What it means to listen on every address.
EVERYWHERE = ("", "0.0.0.0", "::")  # noqa: S104 - compared, never bound
#: Whence the kernel is asked which address it would send from; nothing is sent. The networks are for documentation.
ELSEWHERE = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))


def answered(address: str, further: Iterable[str] = ()) -> tuple[str, ...]:
    """The names of a service that listens on ``address``: loopback's, its own, and those of the setting."""
    own = _of_this_machine() if address in EVERYWHERE else [address]
    return tuple(dict.fromkeys(name.lower() for name in (*LOOPBACK, *own, *further)))


def refusal(headers: Mapping[str, str], names: Sequence[str]) -> tuple[str, str] | None:
    """The header that is foreign and what to do about it; None where a request may be answered.

    ``headers`` are asked by names in small letters.
    """
    if not _among(_name(f"//{headers.get('host') or ''}"), names):
        return "host", f"not a name of this service; {ALLOWED_HOSTS.name} adds one"
    origin = headers.get("origin")
    if origin is not None:
        if not _among(_name(origin), names):
            return "origin", f"a page of another site may not ask here; {ALLOWED_HOSTS.name} adds a name"
    elif headers.get("sec-fetch-site") == "cross-site" and not _is_visit(headers) and "*" not in names:
        return "sec-fetch-site", "a page of another site may not ask here; open the address itself"
    return None


def _is_visit(headers: Mapping[str, str]) -> bool:
    """Whether a person follows a link, and no page loads a part of itself."""
    return headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"


def _name(url: str) -> str:
    if not url.isprintable():  # Of some such characters the parser takes no notice.
        return ""
    try:
        parts = urlsplit(url)
        # The port is asked for because one that is no number is found only then.
        foreign = parts.username is not None or parts.path not in ("", "/") or parts.port == 0
        return "" if foreign else (parts.hostname or "").rstrip(".")
    except ValueError:
        return ""


def _among(name: str, names: Sequence[str]) -> bool:
    if not name:
        return False
    return any(each in ("*", name) or (each.startswith("*.") and name.endswith(each[1:])) for each in names)


def _of_this_machine() -> list[str]:
    """Its host name, and the addresses that it has by that name and towards elsewhere."""
    name = socket.gethostname()
    names = [name]
    try:
        names += [str(each[4][0]) for each in socket.getaddrinfo(name, None)]
    except OSError:
        names = [name]  # A name that nobody resolves is still its name.
    for family, elsewhere in ELSEWHERE:
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((elsewhere, 9))
                names.append(str(probe.getsockname()[0]))
        except OSError:
            continue
    return names
