"""Text from outside as a database takes it: without NUL, and, where it is a key or stands in an index, not too long.

Rule of this file: pure. PostgreSQL refuses NUL in text and JSON, and a row of an index that is longer than 2,704 bytes;
SQLite takes both. What is kept is the same in both, so both have what the stricter one takes: NUL becomes U+2400 (␀),
a long name is cut and ends with a hash of the whole, so that no two names become one.
"""

import hashlib
from typing import Any

import msgspec

#: No name is longer, in bytes: four of them in one index stay below what a page of PostgreSQL holds.
MOST_NAME_BYTES = 600
#: No sentence is longer, in letters; the event holds it whole.
MOST_LETTERS = 4_000
_HASH_LETTERS = 16
#: What stands in place of NUL, and how msgspec writes NUL.
NUL_SIGN, _NUL_WRITTEN = "\u2400", b"\\u0000"


def clean(text: str) -> str:
    """``text`` without NUL.

    >>> clean("a" + chr(0) + "b")
    'a␀b'
    """
    return text.replace("\0", NUL_SIGN)


def name(text: str) -> str:
    """``text`` as a key: itself, unless it holds NUL or is too long.

    >>> name("resnet-50"), len(name("x" * 5000)), name("x" * 5000) == name("x" * 5001)
    ('resnet-50', 600, False)
    >>> name("a" + chr(0)) == name("a" + NUL_SIGN)
    False
    """
    held = text.encode()
    if len(held) <= MOST_NAME_BYTES and "\0" not in text:
        return text
    mark = hashlib.sha256(held).hexdigest()[:_HASH_LETTERS]
    start = clean(text).encode()[: MOST_NAME_BYTES - _HASH_LETTERS - 1].decode(errors="ignore")
    return f"{start}~{mark}"


def sentence(text: str) -> str:
    """``text`` for people to read in a table, cut where it is too long.

    >>> len(sentence("x" * 1_000_000))
    4000
    """
    kept = clean(text)
    return kept if len(kept) <= MOST_LETTERS else f"{kept[: MOST_LETTERS - 1]}…"


def document(value: Any) -> msgspec.Raw:
    """``value``, plain data, as JSON without NUL in any text or key of it.

    >>> bytes(document({"a": ["b" + chr(0)]})).decode()
    '{"a":["b␀"]}'
    """
    written = msgspec.json.encode(value)
    return msgspec.Raw(msgspec.json.encode(_cleaned(value)) if _NUL_WRITTEN in written else written)


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(key): _cleaned(one) for key, one in value.items()}
    return [_cleaned(one) for one in value] if isinstance(value, list) else value
