"""The timeline: marks in, rows out; every nanosecond of a step goes to exactly one phase."""

import random

import pytest

from paceline.events import OP_INDEX
from paceline.sidecar.open_collectives import OpenCollectives
from paceline.sidecar.rank_rows import PARTS, Phase, RankRows, StepRow
from paceline.sidecar.timeline import Timeline
from paceline.training import marks
from paceline.training.marks import (
    BACKWARD,
    CHECKPOINT,
    COMMUNICATION,
    DATA,
    EVALUATION,
    FORWARD,
    ISSUED,
    LEAVE,
    OPTIMIZER,
    READY,
    REDUCER,
    STEP,
)

MS = 1_000_000


def told(row: StepRow) -> dict[str, float]:
    """Milliseconds by phase, forward and backward by micro-batch where there are several."""
    seconds = {name: took for name, took in zip(PARTS, row.seconds, strict=True) if took == took}
    for at, name in ((1, "forward"), (2, "backward")) if row.microbatches else ():
        split = {f"{name} {part[0]}": part[at] for part in row.microbatches if part[at] == part[at]}
        assert seconds.pop(name, 0.0) == pytest.approx(sum(split.values()))
        seconds |= split
    return {name: round(took * 1e3, 6) for name, took in (seconds | {"step": row.step_s}).items()}


class Run:
    """Feeds a timeline in milliseconds and reads its rows back."""

    def __init__(self) -> None:
        self.rows = RankRows()
        self.timeline = Timeline(self.rows, OpenCollectives(self.rows))
        self.now = 1000

    def at(self, ms: float, kind: int, payload: object = None) -> "Run":
        self.now = 1000 + ms
        self.timeline.feed(int(self.now * MS), kind, payload)
        return self

    def span(self, start: float, end: float, op: int, payload: object = None) -> "Run":
        return self.at(start, op, payload).at(end, LEAVE + op)

    def steps(self) -> list[dict[str, float]]:
        """Milliseconds by phase (and micro-batch) of each step that has been closed."""
        self.timeline.feed(int(self.now * MS), marks.QUEUED, None)
        report = self.rows.drain()
        return [told(row) for row in report.steps] if report is not None else []


def test_phases_of_a_plain_ddp_step() -> None:
    """Fetching, the way to the model, forward, backward, the wait for gradients and the optimizer are told apart."""
    run = Run().span(0, 2, DATA).span(3, 7, FORWARD).at(8, BACKWARD)
    run.at(12, ISSUED, ("default", 2, 0, "all_reduce", 64, REDUCER)).at(14, READY)
    run.at(20, LEAVE + BACKWARD).span(21, 24, OPTIMIZER)
    assert run.steps() == []
    run.at(25, DATA)
    assert run.steps() == [
        {
            "data": 2,
            "prepare": 1,
            "forward": 4,
            "other": 2,
            "backward": 6,
            "communication": 6,
            "optimizer": 3,
            "step": 24,
        }
    ]


def test_backward_without_a_reducer_is_all_backward() -> None:
    """Under no_sync nothing is issued, so nothing after the last gradient counts as waiting."""
    run = Run().span(0, 4, FORWARD).at(4, BACKWARD).at(8, READY).at(9, LEAVE + BACKWARD).span(9, 10, OPTIMIZER)
    run.timeline.end()
    assert run.steps() == [{"forward": 4, "backward": 5, "optimizer": 1, "step": 10}]


def test_microbatches_are_numbered() -> None:
    """With several forwards and backwards before the optimizer, their rows carry the micro-batch."""
    run = Run()
    for index in range(3):
        run.span(10 * index, 10 * index + 4, FORWARD).span(10 * index + 4, 10 * index + 10, BACKWARD)
    run.span(30, 31, OPTIMIZER).timeline.end()
    (step,) = run.steps()
    assert step == {
        **{f"forward {index}": 4 for index in range(3)},
        **{f"backward {index}": 6 for index in range(3)},
        "optimizer": 1,
        "step": 31,
    }


def test_passes_that_say_their_microbatch_are_told_by_it() -> None:
    """A pipeline runs them in an order of its own, and a backward in two parts; both parts are of one micro-batch."""
    run = Run().span(0, 3, FORWARD, 0).span(3, 6, FORWARD, 1).span(6, 8, COMMUNICATION)
    run.span(8, 12, BACKWARD, 0).span(12, 15, FORWARD, 2).span(15, 19, BACKWARD, 1).span(20, 22, BACKWARD, 0)
    run.span(22, 26, BACKWARD, 2).span(26, 27, OPTIMIZER).timeline.end()
    assert run.steps() == [
        {
            **{f"forward {number}": 3 for number in range(3)},
            "backward 0": 6,
            "backward 1": 4,
            "backward 2": 4,
            "communication": 2,
            "other": 1,
            "optimizer": 1,
            "step": 27,
        }
    ]


def test_a_single_numbered_microbatch_is_none() -> None:
    """As where nobody numbers it; the time before its backward is no forward."""
    run = Run().span(0, 3, FORWARD, 0).span(5, 9, BACKWARD, 0).span(9, 10, OPTIMIZER)
    run.timeline.end()
    assert run.steps() == [{"forward": 3, "other": 2, "backward": 4, "optimizer": 1, "step": 10}]


def test_a_stage_without_a_forward_of_its_own_still_has_backward() -> None:
    """What a gap before the first backward was, nobody knows: the passes of a pipeline are all told."""
    run = Run().span(0, 2, COMMUNICATION).span(3, 7, BACKWARD, 5).span(7, 8, OPTIMIZER)
    run.timeline.end()
    assert run.steps() == [{"backward 5": 4, "optimizer": 1, "step": 5}]


def test_a_message_after_the_optimizer_belongs_to_the_step_to_come() -> None:
    """A stage begins by waiting for the one before it; what all exchange there is what the optimizer updated."""
    run = Run().span(0, 4, FORWARD).span(4, 6, BACKWARD).span(6, 7, OPTIMIZER)
    for seq, (operation, start) in enumerate((("all_gather", 7), ("recv", 8))):
        run.at(start, COMMUNICATION).at(start, ISSUED, ("default", 2, seq, operation, 64, marks.PYTHON))
        run.at(start + 1, LEAVE + COMMUNICATION)
    run.span(9, 12, FORWARD).span(12, 14, BACKWARD).span(14, 15, OPTIMIZER)
    run.timeline.end()
    report = run.rows.drain()
    assert report is not None
    assert [(row.operation, row.step) for row in report.collectives] == [("all_gather", 0), ("recv", 1)]


def test_two_losses_on_one_forward_are_one_microbatch() -> None:
    """A second backward with no forward between is no new micro-batch."""
    run = Run().span(0, 4, FORWARD).span(4, 6, BACKWARD).span(6, 9, BACKWARD).span(9, 10, OPTIMIZER)
    run.timeline.end()
    assert run.steps() == [{"forward": 4, "backward": 5, "optimizer": 1, "step": 10}]


def test_optimizers_in_a_row_are_one_step() -> None:
    """What two optimizers do one after the other, with an exchange between them, is one step."""
    run = Run().span(0, 4, FORWARD).span(4, 6, BACKWARD).span(6, 7, OPTIMIZER).span(8, 9, COMMUNICATION)
    run.span(9, 11, OPTIMIZER).at(12, DATA)
    assert run.steps() == [{"forward": 4, "backward": 2, "optimizer": 3, "other": 1, "communication": 1, "step": 11}]


def test_time_after_the_optimizer_belongs_to_the_next_step() -> None:
    """Clearing gradients and logging happen in the step to come."""
    run = Run()
    for start in (0, 20):
        run.span(start, start + 4, FORWARD).span(start + 4, start + 9, BACKWARD).span(start + 9, start + 10, OPTIMIZER)
    run.timeline.end()
    assert [step["step"] for step in run.steps()] == [10, 20]


def test_forward_of_an_unwrapped_model_is_the_time_before_backward() -> None:
    """Where no wrapper announces a forward, it lasts from the data until backward."""
    run = Run().span(0, 2, DATA).span(7, 12, BACKWARD).span(13, 15, COMMUNICATION).span(15, 16, OPTIMIZER)
    run.timeline.end()
    assert run.steps() == [
        {"data": 2, "forward": 5, "backward": 5, "other": 1, "communication": 2, "optimizer": 1, "step": 16}
    ]


def test_evaluation_takes_its_data_with_it() -> None:
    """Fetches before and between evaluating forwards are evaluation, though they ran with gradients on."""
    run = Run().span(0, 4, FORWARD).span(4, 6, BACKWARD).span(6, 7, OPTIMIZER)
    for start in (10, 20, 30):
        run.span(start, start + 2, DATA).span(start + 3, start + 8, EVALUATION)
    run.span(40, 42, DATA).span(43, 47, FORWARD).span(47, 49, BACKWARD).span(49, 50, OPTIMIZER).timeline.end()
    assert run.steps()[1] == {
        "other": 5,
        "evaluation": 28,
        "data": 2,
        "prepare": 1,
        "forward": 4,
        "backward": 2,
        "optimizer": 1,
        "step": 43,
    }


def test_waiting_inside_an_evaluation_is_communication() -> None:
    """The innermost span counts: a rank that waits for others in an evaluation waits."""
    run = Run().span(0, 4, FORWARD).span(4, 6, BACKWARD).span(6, 7, OPTIMIZER)
    run.at(7, EVALUATION).span(8, 11, COMMUNICATION).at(12, LEAVE + EVALUATION)
    run.span(12, 13, FORWARD).span(13, 14, BACKWARD).span(14, 15, OPTIMIZER).timeline.end()
    step = run.steps()[1]
    assert (step["evaluation"], step["communication"]) == (2, 3)


def test_activations_computed_again_are_backward() -> None:
    """A forward inside a backward is part of it."""
    run = Run().span(0, 4, FORWARD).at(4, BACKWARD).span(5, 7, FORWARD).at(9, LEAVE + BACKWARD).span(9, 10, OPTIMIZER)
    run.timeline.end()
    assert run.steps() == [{"forward": 4, "backward": 5, "optimizer": 1, "step": 10}]


def test_a_closure_inside_an_optimizer_keeps_its_phases() -> None:
    """An optimizer that runs forward and backward itself is one step with all three phases."""
    run = Run().at(0, OPTIMIZER).span(1, 4, FORWARD).span(4, 8, BACKWARD).at(10, LEAVE + OPTIMIZER).at(11, DATA)
    assert run.steps() == [{"optimizer": 3, "forward": 3, "backward": 4, "step": 10}]


def test_an_optimizer_inside_backward_ends_the_step_after_it() -> None:
    """Optimizers fused into backward end the step when backward returns."""
    run = Run().span(0, 4, FORWARD).at(4, BACKWARD).span(5, 6, OPTIMIZER).span(7, 8, OPTIMIZER)
    run.at(9, LEAVE + BACKWARD).at(10, DATA)
    assert run.steps() == [{"forward": 4, "backward": 3, "optimizer": 2, "step": 9}]


def test_a_forward_that_raised_does_not_swallow_what_follows() -> None:
    """After a forward that never ended, the next fetch starts afresh."""
    run = Run().at(0, FORWARD).span(5, 6, DATA).span(6, 8, FORWARD).span(8, 9, BACKWARD).span(9, 10, OPTIMIZER)
    run.timeline.end()
    assert run.steps() == [{"forward": 7, "data": 1, "backward": 1, "optimizer": 1, "step": 10}]


def test_a_compiled_optimizer_is_the_time_after_the_exchange() -> None:
    """It is not heard of: a step then ends with the first new work after gradients were exchanged."""
    run = Run()
    for start in (0, 20):
        run.span(start, start + 2, FORWARD).span(start + 2, start + 5, BACKWARD).span(start + 5, start + 7, FORWARD)
        run.at(start + 7, BACKWARD).at(start + 8, ISSUED, ("default", 2, 0, "all_reduce", 64, REDUCER))
        run.at(start + 10, LEAVE + BACKWARD).at(start + 11, marks.COMPILED)
    run.at(40, FORWARD)
    expected = {"forward 0": 2, "backward 0": 3, "forward 1": 2, "backward 1": 1, "communication": 2, "optimizer": 10}
    assert run.steps() == [{**expected, "step": 20}, {**expected, "step": 20}]


def test_explicit_steps_take_over() -> None:
    """Once step() is called, it alone ends steps, and what precedes it belongs to the step it ends."""
    run = Run().span(0, 2, DATA).span(2, 4, OPTIMIZER).at(6, STEP)
    run.span(6, 7, DATA).span(7, 9, OPTIMIZER).span(9, 12, FORWARD).span(12, 13, OPTIMIZER).at(14, STEP)
    assert run.steps() == [
        {"data": 2, "optimizer": 2, "other": 2, "step": 6},
        {"data": 1, "optimizer": 3, "forward": 3, "other": 1, "step": 8},
    ]


def test_collections_of_garbage_overlay_the_step_they_ran_in() -> None:
    """A collection after the optimizer counts for the next step; it adds to no phase."""
    run = Run().at(0, FORWARD).at(1, marks.GC_START).at(2, marks.GC_STOP).at(4, LEAVE + FORWARD)
    run.span(4, 5, OPTIMIZER).at(6, marks.GC_START).at(9, marks.GC_STOP)
    run.span(10, 11, FORWARD).span(11, 12, OPTIMIZER).timeline.end()
    assert [step["gc"] for step in run.steps()] == [1, 3]


def test_waiting_for_a_processor_overlays_own_work_only() -> None:
    """Run-queue time goes to the work since the last reading, never to the time spent waiting for others."""
    run = Run().at(0, marks.QUEUED, 1 * MS).span(0, 4, FORWARD).span(4, 9, COMMUNICATION)
    run.span(9, 10, BACKWARD).span(10, 11, OPTIMIZER).span(11, 13, FORWARD).at(13, marks.QUEUED, 5 * MS)
    run.span(13, 14, OPTIMIZER).at(14, marks.QUEUED, 25 * MS).timeline.end()
    assert [step["cpu_wait"] for step in run.steps()] == [3, 2]


def test_a_long_phase_loses_no_waiting_for_a_processor_to_the_readings_in_it() -> None:
    """What has been waited by a reading goes to what is still being worked on, and is not counted again at its end."""
    run = Run().at(0, marks.QUEUED, 0).at(0, FORWARD).at(300, marks.QUEUED, 250 * MS).at(600, marks.QUEUED, 520 * MS)
    run.at(700, LEAVE + FORWARD).span(700, 710, OPTIMIZER).at(710, FORWARD).at(720, marks.QUEUED, 620 * MS)
    run.at(730, LEAVE + FORWARD).span(730, 740, OPTIMIZER).at(740, marks.QUEUED, 635 * MS).timeline.end()
    told = [step["cpu_wait"] for step in run.steps()]
    assert sum(told) == pytest.approx(635, abs=0.01)
    assert told[0] == pytest.approx(620, abs=10)


def test_a_wait_for_a_processor_that_a_reading_falls_into_is_counted_whole() -> None:
    """The kernel tells of it when it ends: the reading comes short of it, and the next tells more than was worked."""
    run = Run().at(0, marks.QUEUED, 0).at(0, FORWARD).at(200, marks.QUEUED, 170 * MS).at(400, marks.QUEUED, 395 * MS)
    run.at(600, marks.QUEUED, 570 * MS).at(610, LEAVE + FORWARD).span(610, 620, OPTIMIZER)
    run.at(620, marks.QUEUED, 570 * MS).timeline.end()
    assert [step["cpu_wait"] for step in run.steps()] == [pytest.approx(570, abs=0.01)]


def test_only_so_much_of_a_wait_for_a_processor_can_have_been_in_the_middle() -> None:
    """What others' threads, or a broken kernel, add up beyond it is nobody's."""
    run = Run().at(0, marks.QUEUED, 0).at(0, FORWARD).at(200, marks.QUEUED, 0).at(400, marks.QUEUED, 10_000 * MS)
    run.at(1000, LEAVE + FORWARD).span(1000, 1010, OPTIMIZER).at(1010, marks.QUEUED, 10_000 * MS).timeline.end()
    assert [step["cpu_wait"] for step in run.steps()] == [pytest.approx(300, abs=0.01)]


def test_waiting_for_a_processor_in_a_long_wait_for_others_goes_to_no_work() -> None:
    """Neither at a reading in the middle of it, nor where a backward turns out to have waited after its gradients."""
    run = Run().at(0, marks.QUEUED, 0).span(0, 10, FORWARD).at(10, COMMUNICATION).at(400, marks.QUEUED, 200 * MS)
    run.at(500, LEAVE + COMMUNICATION).span(500, 510, OPTIMIZER).at(510, marks.QUEUED, 300 * MS)
    run.at(520, BACKWARD).at(530, ISSUED, ("default", 2, 0, "all_reduce", 64, REDUCER)).at(530, READY)
    run.at(900, marks.QUEUED, 690 * MS).at(930, LEAVE + BACKWARD).span(930, 940, OPTIMIZER)
    run.at(940, marks.QUEUED, 690 * MS).timeline.end()
    assert [step["cpu_wait"] <= work for step, work in zip(run.steps(), (20, 30), strict=True)] == [True, True]


def test_a_kernel_that_does_not_count_waiting_for_a_processor() -> None:
    """No row: not measured is not zero."""
    run = Run().at(0, marks.QUEUED, None).span(0, 4, FORWARD).span(4, 5, OPTIMIZER).at(6, DATA)
    assert run.at(7, marks.QUEUED, None).steps() == [{"forward": 4, "optimizer": 1, "step": 5}]


def test_nothing_is_reported_of_a_step_that_never_ended() -> None:
    """A process that stops in the middle of a step says nothing of it."""
    run = Run().span(0, 4, FORWARD).at(4, BACKWARD)
    run.timeline.end()
    assert run.steps() == []


@pytest.mark.parametrize("seed", range(20))
def test_phases_add_up_to_the_step(seed: int) -> None:
    """Whatever happens, in whatever order, the phases of a step are disjoint and make up all of it."""
    chance, run, now, opened = random.Random(seed), Run(), 0.0, []
    spans = [DATA, FORWARD, BACKWARD, OPTIMIZER, COMMUNICATION, EVALUATION, CHECKPOINT]
    instants = [READY, ISSUED]
    for _ in range(400):
        now += chance.random() * chance.choice([0, 1, 5])
        draw = chance.random()
        if draw < 0.45 and len(opened) < 4:
            opened.append(chance.choice(spans))
            run.at(now, opened[-1])
        elif draw < 0.85 and opened:
            run.at(now, LEAVE + opened.pop(chance.choice([-1, -1, -1, 0])))
        else:
            run.at(now, chance.choice(instants), ("default", 2, 0, "all_reduce", 64, chance.randrange(3)))
    run.timeline.end()
    steps = run.steps()
    assert steps
    for step in steps:
        whole = step.pop("step")
        assert sum(step.values()) == pytest.approx(whole, rel=1e-6, abs=1e-4)


def plain(run: Run, start: float) -> Run:
    """A step of 10 ms."""
    run.span(start, start + 4, FORWARD).span(start + 4, start + 8, BACKWARD)
    return run.span(start + 8, start + 10, OPTIMIZER)


def numbers(run: Run) -> list[int]:
    """The steps that have rows."""
    run.timeline.feed(int(run.now * MS), marks.QUEUED, None)
    report = run.rows.drain()
    return list(dict.fromkeys(row.step for row in report.steps)) if report is not None else []


def test_steps_of_a_window_without_the_probe_are_counted_and_not_told() -> None:
    """Nor is a step in which it was switched; those after it have the numbers that the rank's peers have."""
    run = Run()
    for start in (0, 10, 20):
        plain(run, start)
    run.at(30, marks.STEPPED).at(30, marks.WINDOW_OFF, 3)
    for end in (40, 50, 60, 70):
        run.at(end, marks.STEPPED)
    run.at(70, marks.WINDOW_ON, 7)
    for start in (70, 80, 90):
        plain(run, start)
    assert numbers(run) == [0, 1, 7, 8]
    run.timeline.end()
    assert numbers(run) == [9]


def test_explicit_steps_go_on_counting_too() -> None:
    """There the step before the switch has ended already, and the one after it is the first of a time without rows."""
    run = Run()
    for start in (0, 10):
        plain(run, start).at(start + 10, STEP)
    run.at(20, marks.WINDOW_OFF, 2).at(30, marks.STEPPED).at(40, marks.STEPPED).at(40, marks.WINDOW_ON, 4)
    for start in (40, 50):
        plain(run, start).at(start + 10, STEP)
    assert numbers(run) == [0, 1, 5]


def test_several_optimizers_around_a_switch_are_one_step() -> None:
    """The second of the step that ended with the first is heard, and is no step of its own."""
    run = Run()
    plain(run, 0).span(11, 12, OPTIMIZER)
    plain(run, 12).at(22, marks.WINDOW_OFF, 2).at(32, marks.WINDOW_ON, 3).span(33, 34, OPTIMIZER)
    plain(run, 34).span(45, 46, OPTIMIZER)
    plain(run, 46)
    assert numbers(run) == [0, 3]


def test_an_optimizer_inside_backward_may_be_where_it_is_switched() -> None:
    """Spans that were open then are never closed, and swallow nothing."""
    run = Run()
    for start in (0, 10):
        run.span(start, start + 4, FORWARD).at(start + 4, BACKWARD).span(start + 6, start + 8, OPTIMIZER)
        if start:
            run.at(18, marks.WINDOW_OFF, 2)
        run.at(start + 9, LEAVE + BACKWARD)
    run.at(28, marks.WINDOW_ON, 3).at(29, LEAVE + BACKWARD)
    plain(run, 30)
    plain(run, 40)
    assert numbers(run) == [0, 3]


def test_what_was_open_when_the_probe_was_turned_off_is_nobodys_wait() -> None:
    """A work that nobody has waited for yet would stand open for ever, and look like a hang."""
    run = Run()
    plain(run, 0).at(10, ISSUED, ("default", 2, 0, "all_reduce", 64, marks.PYTHON)).at(10, marks.BOUND, 77)
    run.at(11, marks.WINDOW_OFF, 1)
    assert run.timeline._collectives.open() == []
    run.at(20, COMMUNICATION, 77).at(30, LEAVE + COMMUNICATION).at(40, marks.WINDOW_ON, 3)
    plain(run, 40)
    plain(run, 50)
    assert numbers(run) == [3]


def test_a_rank_that_stands_still_while_the_probe_is_off_is_in_a_collective_until_a_step_ends() -> None:
    run = plain(Run(), 0).at(10, marks.WINDOW_OFF, 1)
    run.at(20, marks.STANDING, ("default", 2, 5, "collective", 0, marks.PYTHON))
    assert [(one.group, one.seq) for one in run.timeline._collectives.open()] == [("default", 5)]
    run.at(30_000, marks.STEPPED)
    assert run.timeline._collectives.open() == []


def test_the_wait_for_a_processor_of_a_time_without_the_probe_goes_to_no_step() -> None:
    """The reading at the switch is where the next begins."""
    run = plain(Run(), 0).at(10, marks.QUEUED, 0).at(10, marks.WINDOW_OFF, 1)
    run.at(20, marks.QUEUED, 9 * MS).at(30, marks.WINDOW_ON, 3).at(30, marks.QUEUED, 18 * MS)
    for start in (30, 40, 50):
        plain(run, start)
    run.timeline.feed(int(run.now * MS), marks.QUEUED, 19 * MS)
    assert sum(step.get("cpu_wait", 0) for step in run.steps()) <= 1


def test_a_rank_that_turns_its_probe_on_twice_or_counts_backwards_is_heard_on() -> None:
    """No rank does; what the socket brings may."""
    run = plain(Run(), 0).at(10, marks.WINDOW_ON, 9).at(10, marks.STANDING, ("default", 2, 5, "x", 0, marks.PYTHON))
    run.at(10, marks.WINDOW_OFF, 5).at(10, marks.WINDOW_OFF, 6).at(20, marks.WINDOW_ON, 2)
    for start in (20, 30, 40):
        plain(run, start)
    assert numbers(run) == [2]


@pytest.mark.long
def test_loops_that_never_end_a_step_take_bounded_room() -> None:
    """Serving from a graph that holds no backward, with a loader: nothing names this time, but that it goes by."""
    run = Run()
    for number in range(15_000):
        run.at(3 * number, DATA).at(3 * number + 1, LEAVE + DATA)
    assert len(run.timeline._unnamed) <= 10_000
    run.span(45_000, 45_001, BACKWARD).span(45_001, 45_002, OPTIMIZER).at(45_003, FORWARD)
    (step,) = run.steps()
    assert step["data"] == 15_000
    assert step["step"] == 45_002


def host_bound(run: Run) -> list[float | None]:
    return [step.get("host_bound") for step in run.steps()]


def test_a_device_that_waited_for_its_host_is_told_with_its_step() -> None:
    """Several pieces of one step are added; zero is told, and nothing is nothing; the phases stay what they are."""
    run = Run()
    run.at(30, marks.HOST_BOUND, 12 * MS).span(0, 30, FORWARD)
    run.at(40, marks.HOST_BOUND, 12 * MS).at(40, OPTIMIZER).at(50, marks.HOST_BOUND, 5 * MS).at(50, LEAVE + OPTIMIZER)
    run.span(50, 70, FORWARD).at(70, OPTIMIZER).at(80, marks.HOST_BOUND, 0).at(80, LEAVE + OPTIMIZER)
    run.span(80, 90, FORWARD).span(90, 99, OPTIMIZER).at(100, FORWARD)
    assert run.steps() == [
        {"forward": 30, "optimizer": 10, "other": 10, "host_bound": 17, "step": 50},
        {"forward": 20, "optimizer": 10, "host_bound": 0, "step": 30},
        {"forward": 10, "optimizer": 9, "step": 19},
    ]


def test_a_device_waits_no_longer_than_the_step() -> None:
    """Whatever a rank says, each time or in all."""
    run = Run()
    run.at(0, FORWARD).at(20, marks.HOST_BOUND, 15 * MS).at(30, LEAVE + FORWARD)
    run.at(30, OPTIMIZER).at(40, marks.HOST_BOUND, 2**53).at(40, LEAVE + OPTIMIZER).at(41, FORWARD)
    assert host_bound(run) == [40]


def test_a_device_that_waited_before_anything_began_is_not_told() -> None:
    """There is no step that it could belong to."""
    run = Run().at(0, marks.HOST_BOUND, 5 * MS).span(10, 20, FORWARD).span(20, 30, OPTIMIZER).at(30, FORWARD)
    assert host_bound(run) == [None]


def left_out(run: Run) -> dict[int, int]:
    """The steps that have rows, with how many are left out after each."""
    run.timeline.feed(int(run.now * MS), marks.QUEUED, None)
    report = run.rows.drain()
    return {row.step: row.left_out for row in report.steps} if report is not None else {}


def sampled(run: Run, start: float, ended: int, leaves: int = 3) -> Run:
    """The probe goes on, a plain step is told, and the first new work turns it off."""
    run.at(start, marks.SAMPLE_ON, ended)
    return plain(run, start).at(start + 11, marks.SAMPLE_OFF, leaves)


def test_a_step_among_those_that_are_left_out_is_told_whole() -> None:
    """With the number that its peers have, and how many follow that are not told."""
    run = Run()
    for start in (0, 10, 20):
        plain(run, start)
    run.at(31, marks.SAMPLE_OFF, 1)
    sampled(run, 40, 1)
    sampled(run, 80, 3)
    assert left_out(run) == {0: 0, 1: 0, 2: 1, 4: 3, 8: 3}


def test_a_told_step_lasts_from_where_the_one_before_ended() -> None:
    """Its phases are those of a step that is told among others."""
    whole, run = Run(), Run()
    for start in (0, 10, 20):
        plain(whole, start)
    for start in (0, 10):
        plain(run, start)
    run.at(21, marks.SAMPLE_OFF, 1)
    sampled(run, 40, 1)
    plain(whole, 30)
    assert run.steps()[-1] == whole.steps()[-1]


def test_explicit_steps_that_are_told_are_told_whole() -> None:
    """From one call of ``step()`` to the next."""
    run = Run()
    plain(run, 0).at(10, STEP).at(10, marks.SAMPLE_OFF, 3)
    for start in (40, 80):
        plain(run.at(start, marks.SAMPLE_ON, 3), start).at(start + 10, STEP).at(start + 10, marks.SAMPLE_OFF, 3)
    assert left_out(run) == {0: 3, 4: 3, 8: 3}


def test_several_optimizers_around_told_steps() -> None:
    """The second of the step before is no part of the told one; its own second one is."""
    run = Run()
    plain(run, 0).at(11, marks.SAMPLE_OFF, 1)
    run.at(20, marks.SAMPLE_ON, 1).span(21, 22, OPTIMIZER)
    plain(run, 22).span(33, 34, OPTIMIZER).at(35, marks.SAMPLE_OFF, 1)
    rows = run.steps()
    assert len(rows) == 2
    assert rows[1]["step"] == 12


def test_a_collective_that_nobody_waited_for_ends_with_the_told_step() -> None:
    """Nothing more will be heard of it."""
    run = Run()
    plain(run, 0).at(10, ISSUED, ("default", 2, 0, "all_reduce", 64, marks.PYTHON)).at(10, marks.BOUND, 77)
    run.at(11, marks.SAMPLE_OFF, 3)
    assert run.timeline._collectives.open() == []
    report = run.rows.drain()
    assert report is not None
    assert [(row.group, row.seq) for row in report.collectives] == [("default", 0)]


def test_told_steps_take_their_share_of_the_wait_for_a_processor() -> None:
    """10 of 40 ms between two readings were told: a quarter of the waiting goes to them."""
    run = plain(Run(), 0).at(10, marks.SAMPLE_OFF, 3).at(40, marks.QUEUED, 0)
    run.at(40, marks.SAMPLE_ON, 3)
    plain(run, 40).at(50, marks.SAMPLE_OFF, 3).at(80, marks.QUEUED, 8 * MS)
    report = run.rows.drain()
    assert report is not None
    assert told(report.steps[-1])["cpu_wait"] == pytest.approx(2.0, abs=0.5)


def test_marks_of_samples_that_no_rank_sends_cost_only_that_rank() -> None:
    """Turned on while on, off while off, more steps than there are: no number goes back."""
    run = plain(Run(), 0).at(10, marks.SAMPLE_ON, 9)
    run.at(11, marks.SAMPLE_OFF, 3).at(12, marks.SAMPLE_OFF, 5).at(13, marks.WINDOW_OFF, 2)
    run.at(20, marks.SAMPLE_ON, 2**40).at(20, marks.SAMPLE_ON, 2**40)
    for start in (20, 30, 40):
        plain(run, start)
    steps = list(left_out(run))
    assert steps == sorted(set(steps))
    assert steps[-1] <= 2**41


def test_what_lies_inside_a_step_is_never_longer_than_it():
    """However it was counted: collections and waiting for a processor are in the step, and so for the device's."""
    rows = RankRows()
    inside = [Phase(OP_INDEX[name], -1, 5_000_000_000) for name in ("gc", "cpu_wait", "host_bound")]
    rows.append_step(0, 0, 250_000_000, [Phase(OP_INDEX["forward"], -1, 250_000_000), *inside])
    rows.append_step(1, 250_000_000, 500_000_000, [Phase(OP_INDEX["gc"], -1, 1_000_000)])
    first, second = rows.drain().steps
    found = {name: took for name, took in zip(PARTS, first.seconds, strict=True) if took == took}
    assert found == {"forward": 0.25, "gc": 0.25, "cpu_wait": 0.25, "host_bound": 0.25}
    assert [took for took in second.seconds if took == took] == [0.001]
