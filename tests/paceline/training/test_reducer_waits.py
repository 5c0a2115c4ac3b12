"""Waits for a gradient reducer's buckets: stamped around the very gradient that issues one, or not at all."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from paceline.training import marks
from paceline.training.hooks import reducer_waits
from paceline.training.hooks.reducer_waits import LEARNED, MOST_LESSONS, ReducerWaits
from paceline.training.probe import Probe


class Node:
    """Where a gradient is accumulated, with the hooks before and behind that."""

    def __init__(self) -> None:
        self.before: dict[int, Callable[..., None]] = {}
        self.behind: dict[int, Callable[..., None]] = {}

    def register_prehook(self, hook: Callable[..., None]) -> Any:
        return self._register(self.before, hook)

    def register_hook(self, hook: Callable[..., None]) -> Any:
        return self._register(self.behind, hook)

    def _register(self, hooks: dict[int, Callable[..., None]], hook: Callable[..., None]) -> Any:
        hooks[id(hook)] = hook
        return SimpleNamespace(remove=lambda: hooks.pop(id(hook)))


class Model:
    """A wrapped model with so many weights, and what its reducer does in a backward."""

    def __init__(self, weights: int) -> None:
        self.nodes = [Node() for _ in range(weights)]

    def parameters(self) -> list[Any]:
        return [SimpleNamespace(requires_grad=True, node=node) for node in self.nodes]


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> ReducerWaits:
    monkeypatch.setattr(reducer_waits, "skip_frame", lambda _: None)
    edges = SimpleNamespace(get_gradient_edge=lambda weights: SimpleNamespace(node=weights.node))
    return ReducerWaits(Probe(), SimpleNamespace(autograd=SimpleNamespace(graph=edges)))


def backward(waits: ReducerWaits, model: Model, ends: set[int], *, after: int = 0) -> list[int]:
    """A backward in which the gradients ``ends`` issue a bucket, and ``after`` more come at its end; kinds of marks."""
    waits.follow(model)
    for place, node in enumerate(model.nodes):
        for before in list(node.before.values()):
            before(())
        if place in ends:
            waits.issues()
        for behind in list(node.behind.values()):
            behind((), ())
    for _ in range(after):
        waits.issues()
    kinds = [mark[1] for mark in waits._probe.ring]
    waits._probe.ring.clear()
    return kinds


WAIT = [marks.COMMUNICATION, marks.LEAVE + marks.COMMUNICATION]


def test_each_bucket_is_stamped_on_both_sides(waits: ReducerWaits) -> None:
    """And after a few backwards only the gradients that end one have hooks."""
    model = Model(6)
    for _ in range(LEARNED + 3):
        assert backward(waits, model, {2, 5}) == WAIT * 2
    assert [place for place, node in enumerate(model.nodes) if node.before or node.behind] == [2, 5]


def test_a_bucket_whose_gradient_has_no_hook_is_not_stamped(waits: ReducerWaits) -> None:
    """What follows another gradient is behind computing, too, and that is nobody's waiting; it is learned anew."""
    model = Model(6)
    for _ in range(LEARNED + 1):
        backward(waits, model, {2, 5})
    assert backward(waits, model, {1, 5}) == WAIT
    for _ in range(LEARNED + 1):
        assert backward(waits, model, {1, 5}) == WAIT * 2


def test_buckets_that_are_issued_at_the_end_are_none_of_a_gradients(waits: ReducerWaits) -> None:
    """Those of weights without a gradient, always; and the lessons about them come to an end."""
    model = Model(6)
    lessons = 0
    for _ in range(10 * LEARNED * MOST_LESSONS):
        hooked = sum(bool(node.before) for node in model.nodes)
        assert backward(waits, model, {5}, after=2) == WAIT
        lessons += sum(bool(node.before) for node in model.nodes) > hooked
    assert lessons <= MOST_LESSONS
    assert sum(bool(node.before) for node in model.nodes) == 1


def test_models_do_not_disturb_each_other(waits: ReducerWaits) -> None:
    """Two wrapped models in turn; one that has gone takes what is known of it along."""
    first, second = Model(4), Model(3)
    for _ in range(LEARNED + 2):
        assert backward(waits, first, {3}) == WAIT
        assert backward(waits, second, {0, 2}) == WAIT * 2
    del second
    assert len(waits._models) == 1


def test_while_the_probe_is_off_nothing_is_written_down(waits: ReducerWaits) -> None:
    model = Model(2)
    waits._probe.pause()
    assert backward(waits, model, {1}) == []
