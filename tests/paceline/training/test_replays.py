"""Replays of graphs: what was captured with marks is what a replay does, on the training thread alone."""

import threading
from types import SimpleNamespace

import pytest

from paceline.training import marks
from paceline.training.hooks import graphs
from paceline.training.probe import Probe


class Graph:
    """As much of a graph as is wrapped."""

    def capture_begin(self) -> None:
        """Nothing is captured: the marks say what would be."""

    def capture_end(self) -> None:
        """... and what has been."""

    def replay(self) -> None:
        self.replays = getattr(self, "replays", 0) + 1


STEP = [marks.BACKWARD, marks.LEAVE + marks.BACKWARD, marks.OPTIMIZER, marks.LEAVE + marks.OPTIMIZER]


@pytest.fixture
def probe() -> Probe:
    return Probe()


@pytest.fixture
def kind(probe: Probe) -> type[Graph]:
    """A class of graphs that the probe hears of."""
    pytest.importorskip("torch")  # whose compiler is told to leave the hooks alone

    class Heard(Graph):
        capture_begin, capture_end, replay = Graph.capture_begin, Graph.capture_end, Graph.replay

    graphs.install(probe, SimpleNamespace(cuda=SimpleNamespace(CUDAGraph=Heard), accelerator=None))
    return Heard


def captured(probe: Probe, kind: type[Graph], *kinds: int) -> Graph:
    graph = kind()
    graph.capture_begin()
    probe.captures.kinds.update(kinds)
    graph.capture_end()
    return graph


def told(probe: Probe) -> list[int]:
    kinds = [mark[1] for mark in probe.ring]
    probe.ring.clear()
    return kinds


pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("pytorch")]


def test_a_replay_is_what_was_captured(probe: Probe, kind: type[Graph]) -> None:
    """A whole step, a step without its optimizer; a part of a pass is a part of what is heard around it."""
    whole = captured(probe, kind, marks.FORWARD, marks.BACKWARD, marks.OPTIMIZER)
    passes = captured(probe, kind, marks.BACKWARD)
    part = captured(probe, kind, marks.FORWARD)
    for graph, kinds in ((whole, STEP), (passes, STEP[:2]), (part, []), (captured(probe, kind), [])):
        graph.replay()
        assert told(probe) == kinds
        assert graph.replays == 1


def test_a_replay_within_a_pass_or_on_another_thread_is_none_of_its_own(probe: Probe, kind: type[Graph]) -> None:
    """A graphed callable's backward is replayed by autograd; a thread that serves replays beside training."""
    graph = captured(probe, kind, marks.BACKWARD)
    probe.in_backward = True
    graph.replay()
    probe.in_backward, probe.in_forward = False, object()
    graph.replay()
    probe.in_forward = None
    thread = threading.Thread(target=graph.replay)
    thread.start()
    thread.join()
    assert told(probe) == []
    assert graph.replays == 3


def test_replays_are_counted_while_the_probe_is_off(probe: Probe, kind: type[Graph]) -> None:
    """Or it would never be turned on again."""
    ended: list[int] = []
    probe.alternation = SimpleNamespace(optimizer_stepped=lambda: ended.append(1))
    graph = captured(probe, kind, marks.BACKWARD, marks.OPTIMIZER)
    probe.pause()
    graph.replay()
    graph.replay()
    assert (told(probe), len(ended)) == ([], 2)


def test_a_graph_that_is_captured_anew_is_what_it_holds_then(probe: Probe, kind: type[Graph]) -> None:
    """Not what it held before, nor what was marked in a capture that another graph was of."""
    graph = captured(probe, kind, marks.BACKWARD)
    graph.capture_begin()
    graph.capture_end()
    graph.replay()
    assert told(probe) == []
