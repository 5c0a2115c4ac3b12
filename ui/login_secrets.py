"""What Streamlit needs to log people in: its secrets file, and the packages behind it.

Rule of this file: pure but for ``missing``, which looks whether files and packages are there. It tells what lacks
before the page starts, so that a page that shall ask for a login never runs without.
"""

import tomllib
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from paceline.install import install

#: Where Streamlit looks, the later before the earlier.
PLACES = (Path.home() / ".streamlit" / "secrets.toml", Path(".streamlit") / "secrets.toml")
SHARED = ("redirect_uri", "cookie_secret")
OF_A_PROVIDER = ("client_id", "client_secret", "server_metadata_url")
#: A cookie secret that is shorter can be guessed.
SHORTEST_SECRET = 32
CALLBACK = "/oauth2callback"


def providers(auth: Mapping[str, Any]) -> list[str | None]:
    """The providers that the section names; None is the one without a name.

    >>> providers({"client_id": "a", "okta": {"client_id": "b"}})
    [None, 'okta']
    """
    named = [name for name, value in auth.items() if isinstance(value, Mapping) and "client_id" in value]
    return [*([None] if "client_id" in auth else []), *named]


def problem(secrets: Mapping[str, Any]) -> str:
    """What the section ``auth`` lacks; "" where nothing.

    >>> problem({}), problem({"auth": {"redirect_uri": "http://127.0.0.1:8501/oauth2callback", "cookie_secret": "x"}})
    ('it has no section [auth]', 'cookie_secret has fewer than 32 characters')
    """
    auth = secrets.get("auth")
    if not isinstance(auth, Mapping):
        return "it has no section [auth]"
    if lacking := [name for name in SHARED if not auth.get(name)]:
        return f"[auth] lacks {', '.join(lacking)}"
    if not str(auth["redirect_uri"]).endswith(CALLBACK):
        return f"redirect_uri does not end with {CALLBACK}"
    if len(str(auth["cookie_secret"])) < SHORTEST_SECRET:
        return f"cookie_secret has fewer than {SHORTEST_SECRET} characters"
    if not providers(auth):
        return "[auth] names no provider: client_id, client_secret, server_metadata_url"
    for provider in providers(auth):
        section = auth if provider is None else auth[provider]
        if lacking := [name for name in OF_A_PROVIDER if not section.get(name)]:
            return f"[auth{f'.{provider}' if provider else ''}] lacks {', '.join(lacking)}"
    return ""


def missing(places: Iterable[Path] = PLACES) -> str:
    """Why nobody could log in here; "" where people can."""
    if find_spec("authlib") is None:
        return f"a login needs Authlib; {install('ui')}"
    there = [place for place in places if place.is_file()]
    if not there:
        return f"a login needs Streamlit's secrets file, {' or '.join(str(place) for place in places)}"
    try:
        said = problem(tomllib.loads(there[-1].read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        said = str(error)
    return f"{there[-1]}: {said}" if said else ""
