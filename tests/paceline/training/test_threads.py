"""Which thread trains: the one that joined the process group, or another that a framework trains in."""

import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from paceline.training import marks
from paceline.training.hooks.autograd import Backward
from paceline.training.hooks.forward import Forward
from paceline.training.probe import ELSEWHERE, Probe

TORCH = SimpleNamespace(compiler=SimpleNamespace(is_dynamo_compiling=lambda: False), is_grad_enabled=lambda: True)
STEPS = 6


def run_in_thread(action: Callable[[], Any]) -> None:
    """``action`` on a thread of its own, which has ended then."""
    thread = threading.Thread(target=action)
    thread.start()
    thread.join()


def joined() -> tuple[Probe, Callable[[], None]]:
    """The probe of a process that this thread has made a rank, and a backward pass."""
    probe = Probe()
    probe.idle, probe.device = False, "cpu"
    timed = Backward(probe, TORCH)

    def backward() -> None:
        if timed.enter(()):
            timed.run(lambda: None)

    return probe, backward


def kinds(probe: Probe) -> list[int]:
    return [kind for _, kind, _ in probe.ring]


def test_a_thread_that_trains_where_none_has_is_the_one() -> None:
    """A framework joins the process group in one thread and trains in another, from its first forward on."""
    probe, backward = joined()
    module = SimpleNamespace(training=True)

    def train() -> None:
        forward = Forward(probe, TORCH)
        forward.enter(module)
        forward.leave(module)
        backward()

    run_in_thread(train)
    assert kinds(probe) == [marks.FORWARD, marks.LEAVE + marks.FORWARD, marks.BACKWARD, marks.LEAVE + marks.BACKWARD]


def test_the_kernel_is_asked_of_the_thread_that_trains() -> None:
    """Waiting for a processor is told of the thread that took over."""
    probe, backward = joined()
    tasks: list[int] = []
    run_in_thread(lambda: (backward(), tasks.append(threading.get_native_id())))
    assert [probe.task] == tasks


def test_other_threads_are_foreign_to_one_that_trains() -> None:
    """What a thread computes now and then beside the one that trains is none of its time."""
    probe, backward = joined()
    for _ in range(2 * ELSEWHERE):
        backward()
        run_in_thread(backward)
        run_in_thread(lambda: Forward(probe, TORCH).enter(SimpleNamespace(training=True)))
    assert kinds(probe) == [marks.BACKWARD, marks.LEAVE + marks.BACKWARD] * 2 * ELSEWHERE


def test_training_that_goes_on_in_another_thread_is_followed() -> None:
    """Once the thread that trained has done nothing for some passes of another, as in a second training."""
    probe, backward = joined()
    backward()
    probe.ring.clear()
    run_in_thread(lambda: [backward() for _ in range(ELSEWHERE + 3)])
    assert kinds(probe).count(marks.BACKWARD) == 3


def test_no_thread_takes_over_within_a_backward() -> None:
    """A backward that another runs within is none of its own, whichever thread is asked."""
    probe, backward = joined()
    probe.in_backward = True
    run_in_thread(backward)
    assert (probe.thread, kinds(probe)) == (threading.get_ident(), [])


@pytest.mark.parametrize(
    ("wrapper", "wrapped", "kind"),
    [(True, True, marks.FORWARD), (False, True, marks.FORWARD), (False, False, marks.EVALUATION)],
)
def test_a_wrapper_is_in_training_mode_where_what_it_wraps_is(wrapper: bool, wrapped: bool, kind: int) -> None:
    """Lightning puts its module into training mode and leaves DDP around it alone."""
    probe, _ = joined()
    Forward(probe, TORCH).enter(SimpleNamespace(training=wrapper, module=SimpleNamespace(training=wrapped)))
    assert kinds(probe) == [kind]


@pytest.mark.xdist_group("pytorch")
@pytest.mark.e2e
def test_a_training_function_in_a_thread_is_told_whole(new_listener: Callable[[], Any], scripts: Path) -> None:
    """As in the actor of a framework, which trains again with a thread of its own: every step with its passes."""
    listener = new_listener()
    done = listener.run(str(scripts / "in_thread.py"), str(STEPS))
    assert (done.returncode, done.stderr) == (0, "")
    assert len(listener.heard) == 2
    for heard in listener.heard:
        told = heard.steps()
        assert len(told) == STEPS
        assert all({"forward", "backward", "optimizer"} <= set(step) for step in told)
