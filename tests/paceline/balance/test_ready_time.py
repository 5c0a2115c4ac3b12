"""Compute-ready time: from the call of the model to its last gradient, by the host's clock or a device's events."""

import importlib
from typing import Any

import pytest

from tests.paceline.training.fake_accelerator import accelerator
from tests.paceline.training.fake_cuda import FakeCuda, Stream

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("pytorch")]


@pytest.fixture(scope="module")
def torch() -> Any:
    return importlib.import_module("torch")


@pytest.fixture
def clock(torch: Any) -> Any:
    """The clock of a small model on the host."""
    module = importlib.import_module("paceline.balance.ready_time")
    wrapping = importlib.import_module("paceline.balance.wrapping")
    return module.ReadyTime(wrapping.Wrapping(torch.nn.Linear(4, 4), 1))


def one_pass(torch: Any, clock: Any) -> None:
    weight = torch.ones(4, requires_grad=True)
    clock.begin()
    loss = (weight * 2).sum()
    clock.backward(loss)
    loss.backward()
    clock.end()


def test_a_pass_is_timed(torch: Any, clock: Any) -> None:
    one_pass(torch, clock)
    clock.close(version=3, batch=9, passes=1, batches=1)
    (ready,) = clock.read()
    assert (ready.version, ready.batch) == (3, 9)
    assert ready.seconds > 0
    assert clock.read() == []


def test_it_ends_before_gradients_of_others_are_waited_for(torch: Any, clock: Any) -> None:
    """A wrapper waits in a callback that it queues while gradients are computed: that is after ours."""
    ends: list[bool] = []
    weight = torch.ones(4, requires_grad=True)

    def wait(_: Any) -> None:
        torch.autograd.Variable._execution_engine.queue_callback(lambda: ends.append(clock._ready is not None))

    weight.register_hook(wait)
    clock.begin()
    loss = (weight * 2).sum()
    clock.backward(loss)
    loss.backward()
    assert ends == [True]


def test_accumulated_passes_are_added_up(torch: Any, clock: Any) -> None:
    """And told a batch."""
    for _ in range(4):
        one_pass(torch, clock)
    total = sum(end - start for start, end in clock._spans)
    clock.close(version=0, batch=3, passes=4, batches=2)
    assert clock.read()[0].seconds == pytest.approx(total / 2)


def test_a_round_with_a_pass_that_was_not_timed_is_not_told(torch: Any, clock: Any) -> None:
    """As where memory ran out in it."""
    one_pass(torch, clock)
    clock.close(version=0, batch=1, passes=2, batches=2)
    one_pass(torch, clock)
    clock.forget()
    clock.close(version=0, batch=2, passes=1, batches=1)
    assert clock.read() == []


def test_collectives_of_a_sharded_model_are_taken_off(torch: Any) -> None:
    module = importlib.import_module("paceline.balance.ready_time")
    wrapping = importlib.import_module("paceline.balance.wrapping").Wrapping(torch.nn.Linear(4, 4), 1)
    moments = iter(range(100))

    class Group:
        def unshard(self) -> None:
            self.wait_for_unshard()

        def wait_for_unshard(self) -> None:
            pass

    wrapping.groups = [Group()]
    clock = module.ReadyTime(wrapping)
    clock._now = lambda: next(moments)
    wrapping.groups[0].unshard()  # not in a pass: 0 moments
    clock.begin()
    wrapping.groups[0].unshard()
    wrapping.groups[0].wait_for_unshard()
    clock._stamp()
    clock.end()
    clock.close(version=0, batch=0, passes=1, batches=1)
    assert clock.read()[0].seconds == 5 - 2


def test_a_device_is_asked_and_never_waited_for(clock: Any) -> None:
    """Its time is that between two events on its stream, and is told once it has got there."""
    cuda = FakeCuda()
    clock._accelerator = accelerator(cuda)
    for version in (1, 2):
        cuda.current_stream().launch(5)
        clock.begin()
        cuda.current_stream().launch(40)
        clock._stamp()
        clock.end()
        clock.close(version=version, batch=version, passes=1, batches=1)
    assert clock.read() == []
    cuda.advance(45)
    assert [(ready.version, ready.seconds) for ready in clock.read()] == [(1, 0.04)]
    cuda.advance(45)
    assert [(ready.version, ready.seconds) for ready in clock.read()] == [(2, 0.04)]


def test_a_device_that_hangs_costs_no_memory(clock: Any) -> None:
    cuda = FakeCuda()
    clock._accelerator = accelerator(cuda)
    cuda.current_stream().launch(1e9)
    for batch in range(500):
        clock.begin()
        clock._stamp()
        clock.end()
        clock.close(version=0, batch=batch, passes=1, batches=1)
    assert clock.read() == []
    assert len(clock._held) <= 64


def test_nothing_is_recorded_into_a_graph(clock: Any) -> None:
    """A captured step has no time of its own."""
    cuda = FakeCuda()
    clock._accelerator = accelerator(cuda)
    with cuda.stream(Stream(cuda)):
        cuda.begin_capture("global")
        clock.begin()
        clock._stamp()
        clock.end()
        clock.close(version=0, batch=0, passes=1, batches=1)
        assert clock.read() == []
        cuda.end_capture()
