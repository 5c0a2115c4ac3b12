"""State by declaration: both ways of it follow from the types, and what is of another type is refused."""

from collections import Counter, OrderedDict, deque
from typing import NamedTuple

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from paceline.sequences import Sequences
from streams.snapshots import pack, unpack
from streams.stored import Kept, Stored, StoredDecision


class Look(NamedTuple):
    at_s: float
    sizes: NDArray[np.float64]


class Verdict(msgspec.Struct):
    rank: int
    words: list[str]


class Inner(Stored):
    last: Kept[OrderedDict[str, int]]

    def __init__(self):
        self.last = OrderedDict()
        self.newest = ""

    def loaded(self):
        self.newest = next(reversed(self.last), "")


class Outer(Stored):
    count: Kept[int]
    at_s: Kept[float | None]
    by: Kept[dict[tuple[str, int], list[float]]]
    ranks: Kept[set[int]]
    groups: Kept[dict[str, set[int]]]
    numbers: Kept[NDArray[np.int64]]
    look: Kept[Look | None]
    verdicts: Kept[dict[int, Verdict]]
    votes: Kept[Counter[int]]
    newest: Kept[deque[float]]
    inner: Kept[Inner]
    parts: Kept[dict[str, Inner]]

    def __init__(self):
        self.count, self.at_s, self.by, self.ranks, self.groups = 0, None, {}, set(), {}
        self.numbers, self.look, self.verdicts = np.empty(0, dtype=np.int64), None, {}
        self.votes, self.newest, self.inner, self.parts = Counter(), deque(), Inner(), {}
        self.derived = "mine"


@pytest.fixture
def outer():
    made = Outer()
    made.count, made.at_s, made.by, made.ranks = 3, 0.5, {("ring", 2): [1.0, 2.0]}, {7, 3, 300, 11}
    made.groups, made.numbers, made.look = {"dp": {9, 1, 1000}}, np.array([4, 5]), Look(1.0, np.array([0.25]))
    made.verdicts, made.votes, made.newest = {4: Verdict(4, ["slow"])}, Counter([8, 8, 4]), deque([3.0, 1.0])
    made.inner.last["b"], made.inner.last["a"] = 2, 1
    made.parts["x"] = Inner()
    made.parts["x"].last["y"] = 5
    return made


def told(state):
    """The state, to bytes and back."""
    return unpack(1, pack(1, state.state()))


def test_what_was_stored_is_read_back(outer):
    """In every type, in its order; what is no state is what the constructor made of it."""
    again = Outer()
    again.load(told(outer))
    for name in ("count", "at_s", "by", "ranks", "groups", "verdicts", "votes", "newest"):
        assert (getattr(again, name), type(getattr(again, name))) == (getattr(outer, name), type(getattr(outer, name)))
    assert again.numbers.tolist() == [4, 5]
    assert (again.look.at_s, again.look.sizes.tolist()) == (1.0, [0.25])
    assert list(again.inner.last.items()) == [("b", 2), ("a", 1)]
    assert again.parts["x"].last == {"y": 5}
    assert again.derived == "mine"


def test_what_follows_from_it_is_worked_out_again(outer):
    again = Outer()
    again.load(told(outer))
    assert (again.inner.newest, again.parts["x"].newest) == ("a", "y")


def test_stored_again_it_is_the_same_to_a_byte(outer):
    """Sets have no order of their own."""
    again = Outer()
    again.load(told(outer))
    assert pack(1, again.state()) == pack(1, outer.state())


def test_a_state_that_was_not_packed_is_read_as_well(outer):
    """And neither shares what may change with the other."""
    again = Outer()
    again.load(outer.state())
    outer.by[("ring", 2)].append(3.0)
    outer.verdicts[5] = Verdict(5, [])
    assert again.by == {("ring", 2): [1.0, 2.0]}
    assert again.verdicts == {4: Verdict(4, ["slow"])}


@pytest.mark.parametrize(
    ("name", "odd"),
    [
        ("count", "three"),
        ("count", 2.5),
        ("at_s", [1]),
        ("by", {"ring": [1.0]}),
        ("ranks", 7),
        ("numbers", [4, 5]),
        ("look", [1.0]),
        ("look", [1.0, [0.25]]),
        ("verdicts", {4: {"rank": 4}}),
        ("votes", [8]),
        ("newest", {"a": 1}),
        ("inner", {"last": [1]}),
        ("parts", {"x": {"last": 1}}),
    ],
)
def test_a_part_of_another_type_is_refused_by_its_name(outer, name, odd):
    with pytest.raises(ValueError, match="not a snapshot") as refused:
        Outer().load(told(outer) | {name: odd})
    assert name.split(".")[0] in str(refused.value) or "last" in str(refused.value)


def test_a_part_that_is_missing_is_told(outer):
    state = told(outer)
    del state["votes"]
    with pytest.raises(KeyError, match="votes"):
        Outer().load(state)


class Scale(Stored):
    """Knows nothing without its size, which is stored with it."""

    size: Kept[int]
    seen: Kept[float]

    def __init__(self, size):
        self.size, self.seen = size, 0.0


class Weights(StoredDecision):
    layout = 4
    scales: Kept[dict[tuple[str, int], Scale]]
    levels: Kept[list[Scale]]
    numbers: Kept[Sequences]

    def __init__(self, limit=1.0):
        self.limit = limit
        self.scales, self.levels, self.numbers = {}, [Scale(1), Scale(2)], Sequences(most=2)

    def element(self, kind, data):
        return kind(data["size"])


@pytest.fixture
def weights():
    made = Weights()
    made.scales["a", 8] = Scale(8)
    made.scales["a", 8].seen = made.levels[1].seen = 0.5
    made.numbers.admit("node-1", 7)
    return made


def test_a_decision_is_read_back_with_what_it_is_made_with(weights):
    """Its parts are made for their state where that takes something, and loaded in place where they are there."""
    again = Weights.restore(weights.snapshot(), 2.0)
    assert again.snapshot() == weights.snapshot()
    assert [(key, one.size, one.seen) for key, one in again.scales.items()] == [(("a", 8), 8, 0.5)]
    assert [one.seen for one in again.levels] == [0.0, 0.5]
    assert (again.limit, again.numbers.admit("node-1", 7)) == (2.0, False)


@pytest.mark.parametrize(
    "odd",
    [
        {"scales": {("a", 8): {"seen": 0.5}}},
        {"scales": {("a", 8): 8}},
        {"levels": [{"size": 1, "seen": 0.0}]},
        {"levels": 2},
        {"numbers": []},
        {"numbers": {"last": {"node-1": "seven"}, "missing": 0}},
    ],
)
def test_a_damaged_decision_is_refused(weights, odd):
    with pytest.raises(ValueError, match=r"not a snapshot|not the numbers"):
        Weights.restore(pack(4, weights.state() | odd))


def test_a_decision_of_another_version_is_refused(weights):
    with pytest.raises(ValueError, match="layout 3, this version reads 4"):
        Weights.restore(pack(3, weights.state()))
