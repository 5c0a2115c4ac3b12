"""What control keeps of the bus is bounded in bytes, whatever names and sizes come."""

from typing import Any

import msgspec
import pytest

from control import book as books
from control.api.gswarm import FRESH_S, Fresh
from control.book import Book, Shelf
from paceline import topics, wire
from paceline.events import AuditEntry, BalancePlan
from tests.control.conftest import node_described


def test_inventories_take_no_more_than_their_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 64 made-up nodes with half a megabyte each the newest are kept."""
    monkeypatch.setattr(books, "INVENTORY_BYTES", 4 * 2**20)
    book = Book()
    for number in range(64):
        event = msgspec.structs.replace(node_described(f"made-up-{number}", "p", number), cpu_model="x" * 2**19)
        raw = wire.encode(event)
        book.update(topics.NODE, "k", event, raw, 0.0)
    held = book.inventory()
    assert sum(map(len, held)) <= 4 * 2**20
    assert len(held) == 7
    assert b"made-up-63" in held[-1]


def test_plans_are_counted_as_they_are_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of numbers is several times its text."""
    monkeypatch.setattr(books, "PLAN_BYTES", 8 * 2**20)
    book = Book()
    for number in range(40):
        plan = BalancePlan(
            cluster="c", job=f"j{number}", attempt=0, time_s=1.0, version=1, shares=[1000] * 16384, made_by="streams"
        )
        book.update(topics.PLAN, "k", plan, wire.encode(plan), 0.0)
    kept = [number for number in range(40) if book.plan(f"j{number}") is not None]
    assert kept == list(range(40 - len(kept), 40))
    assert len(kept) * 16384 * 40 <= 8 * 2**20


def entry(command: str, reason: str) -> AuditEntry:
    return AuditEntry(
        command_id=command,
        cluster="c",
        target="t",
        action="a",
        issuer="i",
        time_s=1.0,
        service="s",
        node="n",
        outcome="accepted",
        reason=reason,
    )


def test_answers_are_bounded_for_one_command_and_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(books, "ANSWER_BYTES", 2**20)
    book = Book()
    for number in range(1000):
        one = entry("same" if number % 2 else f"c{number}", "r" * 400)
        book.update(topics.AUDIT, "k", one, wire.encode(one), 0.0)
    assert len(book.answers("same")) == 100
    assert 0 < len(book.audit(10_000)) < 1000
    assert book.answers("c0") == []


@pytest.mark.parametrize("size", [0, 10, 10_000])
def test_a_shelf_counts_what_it_holds(size: int) -> None:
    """The same key again, what is taken away, and one that is larger than all there is."""
    shelf = Shelf[Any](most=5, most_bytes=40_000)
    for number in range(100):
        shelf.put(str(number % 7), number, size)
        shelf.pop(str(number % 3))
    assert shelf.bytes == sum(1024 + 1 + size for _ in shelf.items()) <= 40_000
    shelf.put("huge", 1, 10**9)
    assert (list(shelf.items()), shelf.bytes) == ([], 0)


def test_a_frame_is_made_once_a_second() -> None:
    now_s, made = [0.0], []

    def make() -> dict[str, Any]:
        made.append(now_s[0])
        return {"time": now_s[0]}

    frame = Fresh(make, lambda: now_s[0])
    assert [frame.get() for _ in range(100)] == [{"time": 0.0}] * 100
    now_s[0] = FRESH_S
    assert frame.get() == {"time": FRESH_S}
    assert made == [0.0, FRESH_S]
