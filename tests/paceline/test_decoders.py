"""Types that threads meet at the same time: services read the answers of several servers at once."""

import sys
import threading
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from paceline.decoders import convert, json_decoder, msgpack_decoder

PAGE = {"items": [{"meta": {"name": "a", "labels": {"b": "c"}}, "count": 1}], "by_name": {}}


def page() -> Any:
    """A type that nobody has met yet."""

    class Meta(msgspec.Struct):
        name: str = ""
        labels: dict[str, str] = {}
        ratio: float | None = None

    class Item(msgspec.Struct):
        meta: Meta
        count: int = 0

    class Page(msgspec.Struct):
        items: list[Item]
        by_name: dict[str, Item] = {}

    return Page


def read_json(kind: Any) -> Any:
    return json_decoder(kind).decode(msgspec.json.encode(PAGE))


def read_msgpack(kind: Any) -> Any:
    return msgpack_decoder(list[kind]).decode(msgspec.msgpack.encode([PAGE]))[0]


def read_plain(kind: Any) -> Any:
    return convert(PAGE, kind)


@pytest.fixture
def eager() -> Any:
    """Threads that take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("eager")
def test_threads_that_meet_a_type_at_the_same_time_all_read_it() -> None:
    """msgspec alone ends the process: it shows a type whose fields it has yet to read."""
    for _ in range(200):
        kind, begin, counts = page(), threading.Barrier(3), []

        def run(read: Callable[[Any], Any], kind: Any = kind, begin: Any = begin, counts: list[int] = counts) -> None:
            begin.wait()
            counts.append(read(kind).items[0].count)

        threads = [threading.Thread(target=run, args=[read]) for read in (read_json, read_msgpack, read_plain)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert counts == [1, 1, 1]


def test_a_decoder_is_built_once() -> None:
    kind = page()
    assert json_decoder(kind) is json_decoder(kind)
    assert msgpack_decoder(kind) is msgpack_decoder(kind)
    assert json_decoder(int, strict=False).decode(b'"1"') == 1
    with pytest.raises(msgspec.ValidationError):
        json_decoder(int).decode(b'"1"')


def test_what_msgspec_knows_no_decoder_for_is_refused() -> None:
    with pytest.raises(TypeError, match="multiple Struct types"):
        convert({}, page() | page())
