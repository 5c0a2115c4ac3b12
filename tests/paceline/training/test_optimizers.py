"""Optimizer steps: each iteration ends once, whoever calls the optimizers, whatever becomes of them."""

import threading

import pytest

from paceline.sidecar.open_collectives import OpenCollectives
from paceline.sidecar.rank_rows import PARTS, RankRows, StepRow
from paceline.sidecar.timeline import Timeline
from paceline.training import alternation, marks
from tests.paceline.training.script import Scaler, Script

OPTIMIZER, BACKWARD = marks.OPTIMIZER, marks.BACKWARD
HUNDREDS = 300


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    made = Script(monkeypatch)
    made.probe.idle, made.probe.alternation = False, None
    return made


def rows(script: Script) -> list[StepRow]:
    """The steps that a sidecar makes of what has been written down since the last call."""
    found = RankRows()
    timeline = Timeline(found, OpenCollectives(found))
    for mark in script.probe.ring:
        timeline.feed(*mark)
    script.probe.ring.clear()
    timeline.end()
    report = found.drain()
    return report.steps if report is not None else []


def many(script: Script) -> None:
    for _ in range(HUNDREDS):
        script.optimize()


def test_optimizers_that_autograds_thread_runs_within_a_backward_end_one_step(script: Script) -> None:
    """On a GPU hooks run on a thread of its own; however many optimizers there are, few marks are written."""
    for _ in range(5):
        script.backward(within=script.on_device_thread(lambda: many(script)))
    assert len(script.probe.ring) == 5 * 4
    assert len(rows(script)) == 5


def test_so_do_those_that_run_on_the_training_thread(script: Script) -> None:
    """On a CPU autograd runs hooks where backward was called."""
    for _ in range(5):
        script.backward(within=lambda: many(script))
    assert len(script.probe.ring) == 5 * 4
    assert len(rows(script)) == 5


def test_a_backward_in_which_none_steps_ends_none(script: Script) -> None:
    """Gradients are accumulated: optimizers step in the last backward alone."""
    for _ in range(4):
        for _ in range(3):
            script.backward()
        script.backward(within=script.on_device_thread(lambda: many(script)))
    assert [len(row.microbatches) for row in rows(script)] == [4] * 4


def test_one_more_after_the_backward_belongs_to_the_same_step(script: Script) -> None:
    """Some parameters are left to an ordinary optimizer."""
    for _ in range(4):
        script.backward(within=script.on_device_thread(lambda: many(script)))
        script.optimize()
    assert len(rows(script)) == 4


def test_another_threads_optimizer_is_none_of_ours(script: Script) -> None:
    """It is no part of any backward, though it steps while one runs."""

    def other() -> None:
        thread = threading.Thread(target=script.optimize)
        thread.start()
        thread.join()

    script.backward(within=other)
    assert script.kinds() == [BACKWARD, marks.LEAVE + BACKWARD]


@pytest.mark.long
@pytest.mark.parametrize("on_thread", [False, True])
def test_windows_with_and_without_the_probe_count_them_alike(
    monkeypatch: pytest.MonkeyPatch, *, on_thread: bool
) -> None:
    """One step a backward, on and off, and never in the middle of one."""
    script = Script(monkeypatch)
    script.probe.idle = False
    within = script.on_device_thread(lambda: many(script)) if on_thread else lambda: many(script)
    for _ in range(alternation.WARM_UP + 20):
        script.backward(within=within)
    kinds = script.kinds()
    assert kinds.count(marks.STEPPED) == 20
    assert kinds.index(marks.WINDOW_ON) - kinds.index(marks.WINDOW_OFF) == 11


def test_an_undistributed_process_becomes_a_rank_by_them(script: Script) -> None:
    """On the thread that called backward, never on autograd's."""
    begun: list[int] = []
    script.probe.idle = True
    script.probe.begin = lambda: begun.append(threading.get_ident())
    script.backward(within=script.on_device_thread(script.optimize))
    assert begun == [threading.get_ident()]


def raising() -> None:
    raise ValueError("out of memory")


def stumble(script: Script) -> None:
    with pytest.raises(ValueError, match="out of memory"):
        script.optimize(within=raising)


def test_a_step_that_raised_ends_its_iteration_and_no_other(script: Script) -> None:
    """A script that catches the error goes on: its steps are as many as those of ranks where nothing was raised."""
    for index in range(6):
        script.backward()
        if index == 2:
            stumble(script)
        else:
            script.optimize()
    assert len(rows(script)) == 6


def test_one_that_is_tried_again_is_the_same_step(script: Script) -> None:
    for _ in range(3):
        script.backward()
        stumble(script)
        script.optimize()
    assert len(rows(script)) == 3


def test_what_a_closure_runs_within_an_optimizer_ends_nothing(script: Script) -> None:
    """A backward, and another optimizer, within one that is under way."""

    def closure() -> None:
        script.backward()
        script.optimize()

    script.optimize(within=closure)
    assert script.kinds() == [OPTIMIZER, BACKWARD, marks.LEAVE + BACKWARD, marks.LEAVE + OPTIMIZER]


def test_one_that_survives_the_error_of_another_ends_its_own_step(script: Script) -> None:
    """The inner one's end was never heard."""
    script.optimize(within=lambda: stumble(script))
    assert script.kinds() == [OPTIMIZER, marks.LEAVE + OPTIMIZER]


@pytest.mark.parametrize("skipped", [(), (0, 1, 4), range(6)])
def test_a_step_that_a_scaler_skips_is_a_step(script: Script, skipped: object) -> None:
    """Gradients overflow on some ranks' models in the first steps, and now and then: every rank counts them."""
    scaler = Scaler()
    for index in range(6):
        script.backward()
        scaler.step(script.optimize, overflow=index in skipped)
    found = rows(script)
    assert len(found) == 6
    assert all(row.seconds[PARTS.index("optimizer")] >= 0 for row in found)


def test_several_optimizers_of_one_scaler_end_one_step(script: Script) -> None:
    """One of which it skips."""
    scaler = Scaler()
    for _ in range(4):
        script.backward()
        scaler.step(script.optimize)
        scaler.step(script.optimize, overflow=True)
    assert len(rows(script)) == 4


def test_windows_count_what_a_scaler_skips(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the probe and without."""
    script, scaler = Script(monkeypatch), Scaler()
    script.probe.idle = False
    for index in range(alternation.WARM_UP + 20):
        script.backward()
        scaler.step(script.optimize, overflow=index % 3 == 0)
    assert script.kinds().count(marks.STEPPED) == 20


def test_an_error_within_a_scaler_ends_the_step_too(script: Script) -> None:
    scaler = Scaler()
    for _ in range(3):
        script.backward()
        with pytest.raises(ValueError, match="out of memory"):
            scaler.step(raising)
    assert len(rows(script)) == 3
