"""Backward passes: where they find the device, and which gradients are a pass of training."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from paceline import training
from paceline.training import alternation, marks
from tests.paceline.training.script import Script

loop: list[object] = []
loop += [loop] * 100
BACKWARD = [marks.BACKWARD, marks.LEAVE + marks.BACKWARD]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    made = Script(monkeypatch)
    made.probe.idle, made.probe.alternation = False, None
    return made


def tensor(device: str) -> Any:
    return SimpleNamespace(device=SimpleNamespace(type=device))


@pytest.mark.parametrize(
    "given",
    [
        (tensor("cuda"),),
        ([tensor("cuda")],),
        ([None, (None, tensor("cuda"))],),
        ({"loss": tensor("cuda")},),
        ([tensor("cpu"), tensor("cuda")],),
        ([SimpleNamespace(node=object(), output_nr=0)], [None, tensor("cuda")]),
    ],
    ids=["tensor", "list", "nested", "dict", "beside the host's", "edges and gradients"],
)
def test_the_device_is_found_in_whatever_backward_is_given(script: Script, given: tuple[object, ...]) -> None:
    """A pipeline hands over lists, and edges of a graph in place of tensors that it has released."""
    found: list[object] = []
    script.probe.device_found = lambda: found.append(script.probe.device)
    script.backward(*given)
    assert [getattr(device, "type", None) for device in found] == ["cuda"]


@pytest.mark.parametrize("given", [(), (None,), ([object()] * 10_000,), (loop,)])
def test_where_there_is_none_training_goes_on_unharmed(script: Script, given: tuple[object, ...]) -> None:
    """And the search is bounded."""
    script.backward(*given)
    assert script.probe.device is None
    assert script.kinds() == BACKWARD


def test_a_gradient_that_training_steps_by_is_a_backward(script: Script) -> None:
    """A zero-bubble pipeline and a functional loop never call ``backward``; it finds the device, too."""
    script.grad(tensor("cpu"))
    assert script.kinds() == BACKWARD
    assert script.probe.device.type == "cpu"


@pytest.mark.parametrize("where", ["graph", "forward", "phase", "mode", "tracing", "backward", "thread"])
def test_other_gradients_are_part_of_what_they_are_taken_in(script: Script, where: str) -> None:
    """To be differentiated again, within a forward or a backward, by a compiler, on a thread that does not train."""
    if where == "graph":
        script.grad(create_graph=True)
    elif where == "phase":
        with training.phase("evaluation"):
            script.grad()
        assert script.kinds() == [marks.EVALUATION, marks.LEAVE + marks.EVALUATION]
        script.grad()
        assert script.kinds() == BACKWARD
    elif where == "thread":
        thread = threading.Thread(target=script.grad)
        thread.start()
        thread.join()
    elif where == "backward":
        script.backward(within=script.grad)
        assert script.kinds() == BACKWARD
    else:
        script.probe.in_forward = object() if where == "forward" else None
        script.modes, script.tracing = int(where == "mode"), where == "tracing"
        script.grad()
    assert script.kinds() == []


def test_the_exchange_is_left_to_the_backward_that_makes_it(script: Script) -> None:
    """A gradient taken between a forward and its backward fills none of the reducer's buckets."""
    seen: list[bool] = []
    script.probe.reducing = True
    script.grad(within=lambda: seen.append(script.probe.reducing))
    script.backward(within=lambda: seen.append(script.probe.reducing))
    assert seen == [False, True]
    assert not script.probe.reducing


def test_an_error_leaves_nothing_open(script: Script) -> None:
    """And is told: what the backward stood in has no result."""

    def fail() -> None:
        raise ValueError("no graph")

    for run in (script.grad, script.backward):
        with pytest.raises(ValueError, match="no graph"):
            run(within=fail)
    script.backward()
    raised = [BACKWARD[0], marks.RAISED, *BACKWARD[1:]]
    assert script.kinds() == raised * 2 + BACKWARD


def test_steps_made_of_such_gradients_are_counted_with_the_probe_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with ``backward``: a rank that counts otherwise is on where others are off."""
    script = Script(monkeypatch)
    script.probe.idle = False
    for _ in range(alternation.WARM_UP + 20):
        script.grad()
        script.optimize()
    assert script.kinds().count(marks.STEPPED) == 20
