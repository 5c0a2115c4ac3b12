"""What is kept from outside is counted in bytes."""

import tracemalloc
from typing import Any

import msgspec
import pytest

from paceline import wire
from paceline.events import RankPlace
from paceline.held_bytes import BoundedMapping, HeldBytes, size_of
from paceline.job_life import MOST_NAME_BYTES, MOST_NODES, JobLife
from tests.derived_events import described, finding, rank_window, suggestion

LONG = "x" * 100_000


@pytest.mark.parametrize("value", [LONG, [LONG], {LONG: 1}, {1: (LONG,)}, described(node=LONG), ("é" * 50_000,)])
def test_a_long_name_counts_wherever_it_stands(value: object) -> None:
    assert 100_000 < size_of(value) < 203_000


@pytest.mark.long
@pytest.mark.parametrize(
    "value",
    [
        described(),
        described(
            places=[RankPlace(rank=at, local_rank=at, node=f"node-{at}", device="cpu", pid=at) for at in range(64)]
        ),
        finding(),
        suggestion(),
        rank_window(0),
        {f"label-{at}": f"value-{at}" for at in range(44)},
        {"a": "b"},
        [[1.5]] * 100,
        [0.5] * 10_000,
        list(range(10_000)),
        ["\N{SNOWMAN}" * 200] * 10,
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_estimate_is_near_what_a_decoded_value_takes(value: Any) -> None:
    """Rather more than less; a long dictionary that has just grown takes some more."""
    raw, of = wire.encode(value), type(value)
    decoder = msgspec.json.Decoder(of)
    # What the interpreter keeps of objects that are gone, to use again, is used up.
    held = [decoder.decode(raw) for _ in range(200)]
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        held += [decoder.decode(raw) for _ in range(50)]
        taken = (tracemalloc.get_traced_memory()[0] - before) / 50
    finally:
        tracemalloc.stop()
    assert 0.8 * taken < size_of(held[0]) < 3 * taken


def test_what_was_noted_again_is_the_newest() -> None:
    """It goes last, and counts once; what is larger than all there is goes at once."""
    held = HeldBytes[int](1_000)
    assert [held.note(key, 336) for key in (1, 2, 1, 3)] == [[], [], [], [2]]
    assert held.bytes == 800
    assert held.note(9, 5_000) == [1, 3, 9]
    assert held.bytes == 0


@pytest.mark.parametrize("size", [0, 10, 10_000])
def test_a_mapping_counts_what_it_holds(size: int) -> None:
    """The same key again, what is taken away, and one that is larger than all there is."""
    mapping = BoundedMapping[str, int](most=5, most_bytes=40_000)
    for number in range(100):
        mapping.put(str(number % 7), number, size)
        mapping.remove(str(number % 3))
    assert 0 < mapping.bytes == sum(size + size_of(key) for key in mapping) <= 40_000
    assert mapping.put("huge", 1, 10**9) > 1
    assert (dict(mapping), mapping.bytes) == ({}, 0)


def test_what_was_renewed_stays_longer() -> None:
    mapping = BoundedMapping[str, int](most=3, most_bytes=10_000)
    for key in "abc":
        mapping.put(key, 1, 10)
    mapping.renew("a")
    assert mapping.put("d", 1, 10) == 1
    assert sorted(mapping) == ["a", "c", "d"]


def test_a_job_under_thousands_of_long_names_is_bounded_in_bytes() -> None:
    """Whoever is beyond it is passed over; who was known before still leaves, and its room is free again."""
    life = JobLife(0)
    life.update(described(node="node-1"))
    place = RankPlace(rank=0, local_rank=0, node="n", device="cpu", pid=1)
    for at in range(1_000):
        places = [msgspec.structs.replace(place, rank=at)]
        life.update(described(node=f"{at}{LONG}", places=places))
    held = [*life.nodes, *(teller for teller, _ in life.speakers.values())]
    assert sum(map(len, held)) < life.held_bytes < MOST_NAME_BYTES + 128 * MOST_NODES
    assert 35 < len(life.nodes) < 90
    life.update(described(node="node-1", ended_s=9.0))
    assert life.nodes["node-1"] == 9.0
    again = msgspec.convert(msgspec.to_builtins(life), JobLife)
    assert (again, again.held_bytes) == (life, life.held_bytes)
