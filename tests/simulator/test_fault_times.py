"""Faults given by time hit the steps that start in that time."""

from dataclasses import replace

import numpy as np
import pytest

from simulator.fault import Fault
from simulator.fault_times import TimedFault, placed
from simulator.job import Job
from simulator.spec import Spec

#: Few enough that a job takes many runs of steps.
CELLS = 2000


def run(timed, until_s, **options):
    """The job with its faults placed, and when each of its steps starts."""
    spec = Spec(**{"ranks": 8, "steps": 10_000, **options})
    job = Job(replace(spec, faults=placed(spec, timed, until_s, CELLS)), until_s, CELLS)
    messages = list(job.messages())
    return job, np.concatenate([[0.0], job.left]), messages


def test_boundaries_are_exact_though_earlier_faults_move_later_steps():
    """Each fault's first step is the first that starts in it, its last the last, in whichever run of steps."""
    timed = [
        TimedFault(Fault("compute", (1,), 2.0), 20.0, 60.0),
        TimedFault(Fault("input", (2,), 0.5), 50.0, 55.0),
        TimedFault(Fault("gc", (3,), 0.5), 90.25, 110.0),
    ]
    job, starts, _ = run(timed, 120.0)
    assert len(job.spec.faults) == 3
    for one, fault in zip(timed, job.spec.faults, strict=True):
        inside = np.flatnonzero((starts[:-1] >= one.begin_s) & (starts[:-1] < one.end_s))
        assert (fault.first, fault.last) == (inside[0], inside[-1])


def test_a_job_ends_in_time_and_an_open_fault_with_it():
    """No step ends later than the job may, the next one would have; a fault to the end ends with the last step."""
    job, starts, _ = run([TimedFault(Fault("cpu", (0,), 0.5), 10.0, 60.0)], 60.0)
    assert 58 < starts[-1] <= 60.0
    (truth,) = job.truth().faults
    assert truth.last_step == job.left.size - 1
    assert truth.ended_s - job.spec.began_s == pytest.approx(starts[-1])


def test_a_fault_in_which_no_step_starts_is_left_out():
    """It hits nothing, so it is none."""
    assert run([TimedFault(Fault("gc", (0,), 0.5), 30.01, 30.02)], 60.0)[0].spec.faults == ()


def test_a_hang_begins_at_its_time():
    """The steps end there, whatever was slow before."""
    timed = [TimedFault(Fault("compute", (1,), 1.0), 5.0, 30.0), TimedFault(Fault("hang", (2,), seconds=9), 40.0, 49.0)]
    job, starts, _ = run(timed, 100.0)
    assert starts[-1] == pytest.approx(40.0, abs=1.5)
    assert job.ended_s == pytest.approx(49.0, abs=2.5)


def test_a_job_may_hang_from_its_first_step_on():
    """It tells no step at all, and where its ranks stand."""
    job, starts, messages = run([TimedFault(Fault("hang", (2,), seconds=9), 0.0, 9.0)], 100.0)
    assert starts.tolist() == [0.0]
    assert {message.topic.short for message in messages} == {"job", "op"}
    assert not any(message.event.rank.data for message in messages if message.topic.short == "op")
    (truth,) = job.truth().faults
    assert (truth.first_step, truth.lost_s) == (0, 9.0)


@pytest.mark.parametrize("options", [{}, {"ranks": 16}, {"step_s": 9.0}, {"ranks": 16, "pp": 2}], ids=str)
def test_messages_are_in_order_across_runs_of_steps(options):
    """What one run of steps sends late does not come after what the next sends early."""
    until_s = 60 * options.get("step_s", 0.5)
    _, _, messages = run([], until_s, **options)
    times = [message.time_s for message in messages]
    assert times == sorted(times)
