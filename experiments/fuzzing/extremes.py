"""Messages with extreme numbers in every pair of fields that the wire lets pass, amid sound ones.

Rule of this file: pure; which numbers a field may hold is asked of the wire itself, and so is whether a pair may pass.
"""

import copy
import itertools
from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

import msgspec
import numpy as np

from paceline import wire
from paceline.columns import SIZES
from paceline.topics import Topic

Place = tuple[str | int, ...]
#: Whole numbers and others; of those that a field may hold, it is given the ends, and what is near an end.
_WHOLE = (-(2**63), -(2**31), -1, 0, 1, 2, 2**16, 2**20 - 1, 2**20, 2**31, 2**40, 2**53, 2**63 - 1)
_OTHER = (-1e30, -1e11, 1e-9, 0.001, 0.5, 0.999, 1e3, 1e6, 1e9, 1e11, 1e30)
#: Numbers that order a producer's messages, and what a message is about: other messages would be about something else.
_ORDER = {"schema_version", "sequence", "attempt"}
#: How many seconds later the second of two messages is.
_LATER_S = 61.0


class Odd(NamedTuple):
    """A place of a message, and what it is set to."""

    at: Place
    value: Any


def plain(topic: Topic, data: bytes) -> Any:
    """A message as plain data that can be changed."""
    return msgspec.json.decode(data) if topic.encoding == "json" else msgspec.msgpack.decode(data)


def packed(topic: Topic, whole: Any) -> bytes:
    """``whole`` as a message of ``topic``."""
    return msgspec.json.encode(whole) if topic.encoding == "json" else msgspec.msgpack.encode(whole)


def passes(topic: Topic, whole: Any) -> bool:
    """Whether the wire lets ``whole`` pass."""
    try:
        wire.decode(topic, packed(topic, whole))
    except (wire.WireError, OverflowError):
        return False
    return True


def bases(whole: Any) -> list[Any]:
    """``whole``, and the same with every switch the other way."""
    flipped = copy.deepcopy(whole)
    places = [at for at, value in _leaves(flipped) if isinstance(value, bool)]
    for at in places:
        _holder(flipped, at)[at[-1]] = not _value(flipped, at)
    return [whole, flipped] if places else [whole]


def pairs(topic: Topic, whole: Any, rng: Random, most: int) -> Iterator[tuple[Odd, Odd]]:
    """Every pair of fields, with ``most`` of the pairs of what they may be set to."""
    odd = [_allowed(topic, whole, at, value) for at, value in places(whole)]
    for one, other in itertools.combinations(odd, 2):
        every = list(itertools.product(one, other))
        yield from rng.sample(every, min(most, len(every)))


def some_pairs(topic: Topic, whole: Any, rng: Random, most: int) -> Iterator[tuple[Odd, Odd]]:
    """``most`` pairs of fields, or every one, each with one pair of what they may be set to."""
    every = list(itertools.combinations(places(whole), 2))
    for pair in rng.sample(every, min(most, len(every))):
        one, other = (_allowed(topic, whole, at, value) for at, value in pair)
        if one and other:
            yield rng.choice(one), rng.choice(other)


def places(whole: Any) -> list[tuple[Place, Any]]:
    """The fields that are set to extreme numbers, and what they hold."""
    return [(at, value) for at, value in _fields(whole) if at[-1] not in _ORDER]


def _allowed(topic: Topic, whole: Any, at: Place, value: Any) -> list[Odd]:
    """What a field may be set to: two at either end of it."""
    allowed = [odd for odd in _possible(at, value) if passes(topic, with_odd(whole, odd))]
    return [*allowed[:2], *allowed[-2:]] if len(allowed) > 4 else allowed


def messages(whole: Any, odd: tuple[Odd, ...]) -> Iterator[Any]:
    """Five: sound, odd, odd and later, odd and later again with its first row unlike the others, and sound again."""
    changed = whole
    for one in odd:
        changed = with_odd(changed, one)
    yield from (
        {**whole, "sequence": 0},
        {**changed, "sequence": 1},
        {**_later(changed), "sequence": 2},
        {**_unlike(_later(_later(changed))), "sequence": 3},
        {**_later(_later(_later(whole))), "sequence": 4},
    )


def with_odd(whole: Any, odd: Odd) -> Any:
    """A copy of ``whole`` with ``odd`` in its place."""
    changed = copy.deepcopy(whole)
    _holder(changed, odd.at)[odd.at[-1]] = odd.value
    return changed


def _possible(at: Place, value: Any) -> Iterator[Odd]:
    if _is_column(value):
        yield from _columns(at, value)
    else:
        for number in sorted((*_WHOLE, *_OTHER)):
            yield Odd(at, [number] * len(value) if isinstance(value, list) else number)


def _columns(at: Place, value: Any) -> Iterator[Odd]:
    kind, data = value
    count = len(data) // SIZES[kind]
    if kind.startswith("f"):
        ends: list[float] = [-1e11, 0.0, 1e-9, 1e6, 1e11, 1e30]
    else:
        info = np.iinfo("<" + kind)
        ends = sorted({info.min, 0, 1, min(2**20 - 1, info.max), min(2**31, info.max), info.max})
    for number in ends:
        yield Odd(at, [kind, np.full(count, number, dtype="<" + kind).tobytes()])


def _later(whole: Any) -> Any:
    """The next message of the same producer: a while later, and further on."""
    changed = copy.deepcopy(whole)
    for name in ("t0_s", "time_s", "now_s"):
        if isinstance(changed.get(name), int | float) and changed[name] + _LATER_S <= 1e11:
            changed[name] += _LATER_S
    for name in ("batch", "version"):
        if isinstance(changed.get(name), int) and changed[name] < 2**53:
            changed[name] += 1 if name == "batch" else 0
    return changed


def _unlike(whole: Any) -> Any:
    """The first of every list of measured times is far from the others: somebody is slow."""
    changed = copy.deepcopy(whole)
    for at, value in _fields(changed):
        if str(at[-1]).endswith("_s") and isinstance(value, list) and not _is_column(value) and value:
            _holder(changed, at)[at[-1]] = [min((value[0] or 0.0) * 100.0, 1e9), *value[1:]]
    return changed


def _fields(value: Any, at: Place = ()) -> Iterator[tuple[Place, Any]]:
    """The numbers, lists of numbers and columns in ``value``."""
    if _is_column(value) or _is_number(value):
        yield at, value
    elif isinstance(value, dict):
        for name, one in value.items():
            yield from _fields(one, (*at, name))
    elif isinstance(value, list):
        if any(map(_is_number, value)) and all(one is None or _is_number(one) for one in value):
            yield at, value
        else:
            for index, one in enumerate(value[:2]):
                yield from _fields(one, (*at, index))


def _leaves(value: Any, at: Place = ()) -> Iterator[tuple[Place, Any]]:
    if isinstance(value, dict | list):
        for name, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(one, (*at, name))
    else:
        yield at, value


def _is_column(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and isinstance(value[1], bytes) and value[0] in SIZES


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _holder(whole: Any, at: Place) -> Any:
    return _value(whole, at[:-1])


def _value(whole: Any, at: Place) -> Any:
    for name in at:
        whole = whole[name]
    return whole
