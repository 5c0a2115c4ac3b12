"""Text from outside made harmless for a terminal and for a log.

Rule of this file: a name, a path or an error of a peer may hold an escape sequence, a line end or a mark that turns
the reading direction. Whoever shows text to a person shows ``visible`` of it. The escapes are JSON's, so that a line of
JSON stays the same JSON.
"""

import html
import re
from collections.abc import Iterable
from itertools import chain
from urllib.parse import unquote

#: C0, DEL and C1; marks of direction; separators of lines; halves of characters, which no terminal takes.
_UNSEEN = chain(
    range(0x20),
    range(0x7F, 0xA0),
    (0x61C, 0x200E, 0x200F),
    range(0x2028, 0x202F),
    range(0x2066, 0x206A),
    range(0xD800, 0xE000),
)
_ESCAPES = {code: f"\\u{code:04x}" for code in _UNSEEN} | {ord("\n"): r"\n", ord("\r"): r"\r", ord("\t"): r"\t"}

#: What may be a login by an address: all up to the last @ before a blank, for a password holds whatever it likes. A
#: path has one slash of two.
_LOGIN = re.compile(r"(:/{1,2})\S*@")
_SCHEME = re.compile(r"[\w+.-]*:?")


def without_logins(text: str) -> str:
    """``text`` without the names and passwords of the addresses in it; rather without more than that.

    >>> without_logins("no answer from http://ada:p/w'@host:9090/api")
    'no answer from http://(login)@host:9090/api'
    """
    return _LOGIN.sub(r"\1(login)@", text) if "@" in text else text


def without_login(address: str) -> str:
    """The one ``address`` without its login, blanks in it or not, well-formed or not.

    >>> without_login("//ada:p w@host"), without_login("ada:secret@kafka-1:9092,kafka-2:9092")
    ('//(login)@host', '(login)@kafka-1:9092,kafka-2:9092')
    >>> without_login("ada:p//w@host:9092")
    '(login)@host:9092'
    """
    before, slashes, rest = address.partition("//")
    if not slashes or not _SCHEME.fullmatch(before):
        before, slashes, rest = "", "", address
    return f"{before}{slashes}(login)@{rest.rpartition('@')[2]}" if "@" in rest else address


#: Words of paths that are no secret.
_ROUTES = frozenset(("alert", "alerts", "api", "hook", "hooks", "incoming", "services", "slack", "webhook", "webhooks"))
#: So many signs in a row of a secret give it away; one that is shorter counts whole.
_PIECE = 6


def repeats(text: str, secrets: Iterable[str]) -> bool:
    """Whether ``text`` holds a piece of one of ``secrets``, however it is spelled; words of routes are no secret.

    >>> repeats("Cannot POST &#x2F;hooks&#x2F;WQ3K9X%2Ds", ["hooks/wq3k9x-s"]), repeats("no_service", ["services/T"])
    (True, False)
    """
    told = {_plain(text), _plain(unquote(text)), _plain(html.unescape(unquote(text)))}
    words = (_plain(word) for secret in secrets for word in re.split(r"[/?&=;,]", unquote(secret)))
    return any(piece in one for word in words if word not in _ROUTES for piece in _pieces(word) for one in told)


def _pieces(word: str) -> list[str]:
    if len(word) < _PIECE:
        return [word] if len(word) > 2 else []
    return [word[place : place + _PIECE] for place in range(len(word) - _PIECE + 1)]


def _plain(text: str) -> str:
    """Letters and digits alone, in one case: what escapes and quotes leave as it is."""
    return "".join(sign for sign in text.casefold() if sign.isalnum())


def visible(text: str) -> str:
    """``text`` on one line, with what is not to be seen in it written out; it says the same as JSON inside a string."""
    return text if text.isprintable() else text.translate(_ESCAPES)
