"""The probe on and off in turn: what counts as a step, what off means, and that nothing keeps it off."""

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from paceline import training
from paceline.training import alternation, marks
from paceline.training.hooks.groups import Group
from paceline.training.marks import WARM_UP
from paceline.training.overhead_windows import OverheadWindows, windows
from paceline.training.probe import Probe
from paceline.training.session import Session
from tests.paceline.training.script import Script
from tests.patience import PATIENCE_S


@pytest.fixture
def switches() -> list[int]:
    """An entry for each switch of the probe."""
    return []


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch, switches: list[int]) -> Script:
    return Script(monkeypatch, lambda probe: [OverheadWindows(probe, lambda: switches.append(1))])


def test_in_windows_that_are_off_only_the_ends_of_steps_are_written_down(script: Script, switches: list[int]) -> None:
    """And the first steps are all timed."""
    script.steps(WARM_UP - 1)
    assert marks.STEPPED not in script.kinds()
    script.steps(1)
    assert script.kinds()[-1] == marks.WINDOW_OFF
    script.steps(9)
    assert script.kinds() == [marks.STEPPED] * 9
    script.steps(1)
    assert script.kinds() == [marks.STEPPED, marks.WINDOW_ON]
    script.steps(1)
    assert script.kinds() == [
        marks.BACKWARD,
        marks.LEAVE + marks.BACKWARD,
        marks.OPTIMIZER,
        marks.LEAVE + marks.OPTIMIZER,
        marks.STEPPED,
    ]
    assert len(switches) == 2


def test_two_windows_in_a_row_with_the_probe_on_are_two(script: Script, switches: list[int]) -> None:
    """The second pair begins with it; nothing is switched, and nobody woken."""
    script.steps(WARM_UP + 20)
    script.kinds()
    assert len(switches) == 2
    script.probe.ring.clear()
    script.steps(10)
    assert script.kinds()[-1] == marks.WINDOW_OFF
    assert len(switches) == 3


@pytest.mark.long
def test_after_the_last_window_it_stays_on(script: Script) -> None:
    """A job of days is not half unheard for days."""
    script.steps(WARM_UP + sum(steps for _, steps in windows()))
    assert not script.probe.off
    assert script.probe.alternation is None
    assert script.kinds()[-1] == marks.WINDOW_ON
    script.steps(1)
    assert marks.STEPPED not in script.kinds()


@pytest.mark.parametrize("off", [False, True])
def test_gradient_accumulation_ends_one_step(script: Script, off: bool) -> None:
    """However often backward is called."""
    script.steps(WARM_UP + 10 * (not off))
    script.kinds()
    for _ in range(4):
        script.backward()
    script.optimize()
    assert script.kinds().count(marks.STEPPED) == 1


@pytest.mark.parametrize("off", [False, True])
def test_several_optimizers_in_a_row_end_one_step(script: Script, off: bool) -> None:
    """Those with a backward between them two, as the sidecar has it."""
    script.steps(WARM_UP + 10 * (not off))
    script.kinds()
    script.backward()
    script.optimize()
    script.optimize()
    assert script.kinds().count(marks.STEPPED) == 1
    for _ in range(2):
        script.backward()
        script.optimize()
    assert script.kinds().count(marks.STEPPED) == 2


@pytest.mark.parametrize("off", [False, True])
def test_an_optimizer_within_another_ends_no_step_of_its_own(script: Script, off: bool) -> None:
    script.steps(WARM_UP + 10 * (not off))
    script.kinds()
    script.backward()
    script.optimize(within=script.optimize)
    assert script.kinds().count(marks.STEPPED) == 1
    script.steps(1)
    assert script.kinds().count(marks.STEPPED) == 1


def test_where_the_script_says_that_a_step_ends_nothing_else_does(script: Script) -> None:
    """Two optimizers with a backward each, one call of ``step()``: one step, on and off."""
    training.step()
    for _ in range(WARM_UP + 9):
        script.steps(2)
        training.step()
    assert script.kinds().count(marks.STEPPED) == 10
    script.steps(2)
    assert marks.STEPPED not in script.kinds()


def test_an_optimizer_that_is_compiled_from_the_first_step_on_is_never_off(script: Script) -> None:
    """Its steps cannot be counted; only the script can say where they end."""
    script.tracing = True
    script.optimize()
    script.tracing = False
    for _ in range(100):
        script.backward()
    assert not script.probe.off
    assert marks.STEPPED not in script.kinds()
    for _ in range(WARM_UP):
        training.step()
    assert script.probe.off


def test_one_that_is_compiled_later_turns_it_on_for_good(script: Script) -> None:
    """Nothing else would ever end the window that is off."""
    script.steps(WARM_UP)
    assert script.probe.off
    script.tracing = True
    script.optimize()
    script.tracing = False
    assert not script.probe.off
    assert script.probe.alternation is None
    assert script.kinds()[-2:] == [marks.WINDOW_ON, marks.COMPILED]


def test_what_is_stopped_for_good_is_not_turned_on_again(script: Script, capsys: pytest.CaptureFixture[str]) -> None:
    """Timing that failed in a window that is off stays off, with its one line, and nothing piles up."""
    script.steps(WARM_UP)
    script.probe.fail(ValueError("odd"))
    script.steps(100)
    assert script.probe.off
    assert list(script.probe.ring) == []
    assert "timing stopped: ValueError: odd" in capsys.readouterr().err


def test_what_begins_while_it_is_off_is_nothing_that_it_waits_for(script: Script) -> None:
    """A forward that was open when it was turned off, a call that had not returned: forgotten."""
    probe = script.probe
    script.steps(WARM_UP)
    probe.in_forward, probe.waiting, probe.reducing = object(), True, True
    script.steps(10)
    assert (probe.off, probe.in_forward, probe.waiting, probe.reducing) == (False, None, False, False)


def test_a_job_that_stands_still_while_it_is_off_says_where(
    script: Script, monkeypatch: pytest.MonkeyPatch, until: Callable[..., Any]
) -> None:
    """Once, and only where its thread is in a collective; the time is when the step should have ended."""
    monkeypatch.setattr(alternation, "STILL_NS", 0)
    monkeypatch.setattr(alternation, "STILL_TIMES", 1)
    script.steps(WARM_UP + 3)
    watched = script.probe.alternation
    assert watched is not None
    script.kinds()
    watched.look()
    assert script.kinds() == []
    script.stands = ("default", 4, 7, "collective", 0, marks.PYTHON)  # type: ignore[assignment]
    until(lambda: watched.look() or len(script.probe.ring) > 0)
    watched.look()
    ((due_ns, kind, payload),) = script.probe.ring
    assert (kind, payload) == (marks.STANDING, script.stands)
    assert due_ns <= alternation.perf_counter_ns()
    monkeypatch.setattr(alternation, "STILL_NS", 10**18)
    script.steps(1)
    script.kinds()
    watched.look()
    assert script.kinds() == []


def test_where_a_rank_stands_is_read_from_its_stack() -> None:
    """In a hook in which it waits for others: the collective that the whole world would count next. Else nowhere."""
    probe, entered, over = Probe(), threading.Event(), threading.Event()

    def hook(wait: Callable[[], object]) -> None:
        wait()

    def stand() -> None:
        entered.set()
        over.wait()

    probe.waits_in(hook)
    session = Session(probe)
    session.groups = SimpleNamespace(world=lambda: Group("default", 4, 1))
    assert session._standing() is None
    thread = threading.Thread(target=hook, args=(stand,))
    thread.start()
    try:
        assert entered.wait(PATIENCE_S)
        probe.thread = thread.ident or 0
        assert session._standing() == ("default", 4, 0, "collective", 0, marks.PYTHON)
    finally:
        over.set()
        thread.join()
