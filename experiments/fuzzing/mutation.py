"""Changes of structured inputs: one value, field or row at a time, so that what comes out is still JSON or MessagePack.

Rule of this file: pure; chance is an argument. Flipped bits alone seldom pass a strict decoder, and what is behind it
would never be tried.
"""

import json
from random import Random
from typing import Any

import msgspec

from paceline.columns import SIZES

from .target import Form

_DEEP: Any = []
for _ in range(60):
    _DEEP = [_DEEP]
#: What replaces a value.
ODD: tuple[Any, ...] = (
    None, True, False, "", "\x00", "\x1b[2J\n", "é\u202e", "a" * 300, "-1", "nan", 0, 1, -1, 2, 255, 65_536, 2**20 - 1,
    2**20, 2**31, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), 2**64 - 1, 0.0, -0.0, 0.5, 1e-300, 1e11, 1e15, 1e30, 1e300,
    -1e30, -1e11, [], [None], [[]], {}, {"": None}, _DEEP,
)  # fmt: skip
_MOST_CHANGES = 4


def mutated(form: Form, data: bytes, rng: Random) -> bytes | None:
    """``data`` with some of its values changed; None where it is not of that form."""
    try:
        if form == "json":
            return _json(data, rng)
        if form == "json lines":
            return _lines(data, rng)
        if form == "msgpack":
            return _msgpack(data, rng)
    except (ValueError, TypeError, OverflowError, RecursionError, msgspec.MsgspecError):
        return None
    return None


def _json(data: bytes, rng: Random) -> bytes:
    return json.dumps(_changed(json.loads(data), rng), ensure_ascii=rng.random() < 0.5, allow_nan=False).encode()


def _lines(data: bytes, rng: Random) -> bytes:
    """A line is changed, dropped, repeated or moved."""
    lines = data.split(b"\n")
    at = rng.randrange(len(lines))
    action = rng.randrange(6)
    if action == 0:
        del lines[at]
    elif action == 1:
        lines.insert(rng.randrange(len(lines) + 1), lines[at])
    elif action == 2:
        other = rng.randrange(len(lines))
        lines[at], lines[other] = lines[other], lines[at]
    else:
        lines[at] = _json(lines[at], rng)
    return b"\n".join(lines)


def _msgpack(data: bytes, rng: Random) -> bytes:
    """Arrays of a snapshot are MessagePack within MessagePack: one in three changes goes on inside."""

    def inside(value: Any) -> Any:
        if isinstance(value, msgspec.msgpack.Ext) and rng.random() < 0.3:
            return msgspec.msgpack.Ext(value.code, _msgpack(bytes(value.data), rng))
        return value

    return msgspec.msgpack.encode(_changed(msgspec.msgpack.decode(data), rng, inside))


def _changed(value: Any, rng: Random, inside: Any = lambda value: value) -> Any:
    """``value`` with one to four of its places changed."""
    root = [value]
    for _ in range(rng.randint(1, _MOST_CHANGES)):
        holder, at = _somewhere(root, rng)
        if _is_column(holder[at]) and rng.random() < 0.8:
            kind, data = holder[at]
            holder[at] = [kind, _changed_column(data, SIZES[kind], rng)]
            continue
        holder[at] = inside(holder[at])
        _change(holder, at, rng)
    return root[0] if root else None


def _somewhere(root: list[Any], rng: Random) -> tuple[Any, Any]:
    """A place, all depths alike."""
    holder: Any = root
    at: Any = 0
    while isinstance(holder[at], dict | list) and holder[at] and not _is_column(holder[at]) and rng.random() < 0.85:
        holder = holder[at]
        at = rng.choice(list(holder)) if isinstance(holder, dict) else rng.randrange(len(holder))
    return holder, at


def _is_column(value: Any) -> bool:
    """Whether it is numbers of one type as bytes, which any other bytes are, too."""
    return isinstance(value, list) and len(value) == 2 and value[0] in SIZES and isinstance(value[1], bytes)


def _changed_column(data: bytes, size: int, rng: Random) -> bytes:
    """One of its numbers is another: of the column, of any bits, or with all or none of them set."""
    if len(data) < size:
        return data
    at, other = (size * rng.randrange(len(data) // size) for _ in range(2))
    number = rng.choice((bytes(size), b"\xff" * size, rng.randbytes(size), data[other : other + size]))
    return data[:at] + number + data[at + size :]


def _change(holder: Any, at: Any, rng: Random) -> None:
    value, action = holder[at], rng.randrange(8)
    if action == 0 and isinstance(holder, dict):
        del holder[at]
    elif action == 1 and isinstance(value, list) and value:
        value.extend(value[: rng.randint(1, 8)])
    elif action == 2 and isinstance(value, list) and value:
        del value[rng.randrange(len(value)) :]
    elif action == 3 and isinstance(value, int | float) and not isinstance(value, bool):
        holder[at] = rng.choice((value + 1, value - 1, -value, value * 2, value * 1000, value // 2))
    elif action == 4 and isinstance(holder, list) and len(holder) > 1:
        other = rng.randrange(len(holder))
        holder[at], holder[other] = holder[other], holder[at]
    elif action == 5 and isinstance(value, str) and value:
        cut = rng.randrange(len(value))
        holder[at] = value[:cut] + rng.choice(("", " ", "\x00", value, "9", "-", ",", ";")) + value[cut:]
    elif action >= 5 and isinstance(value, bytes) and value:
        cut = rng.randrange(len(value))
        holder[at] = value[:cut] + rng.choice((b"", rng.randbytes(4), b"\xff" * 8)) + value[cut + 4 :]
    else:
        holder[at] = _copy(rng.choice(ODD))


def _copy(value: Any) -> Any:
    return json.loads(json.dumps(value)) if isinstance(value, dict | list) else value
