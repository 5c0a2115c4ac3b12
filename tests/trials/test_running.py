"""A trial's loop: whoever asks it to end is obeyed also where its executor waits for somebody."""

import threading

import pytest

from trials.candidates import expand
from trials.executor import Ended, ExecutorError, Job
from trials.halving import Config, Halving
from trials.journal import Journal
from trials.running import Running
from trials.spec import read

SPEC = read("name: t\nseconds: 5\nexecutor: slurm\nplacements: {ranks: [1, 2]}")
COMMAND = ("train", "{ranks}")


class Waiting:
    """An executor whose machines are away; ``asks`` is what a person does meanwhile."""

    parallel, closed = 1, False

    def __init__(self, asks) -> None:
        self._asks = asks

    def start(self, job: Job) -> None:
        self._asks()
        raise ExecutorError("asked to end")

    def poll(self, job: Job) -> Ended | None:
        raise AssertionError("nothing was started")

    def close(self) -> None:
        self.closed = True


def running(tmp_path, executor, stop, said):
    candidates = expand(SPEC, COMMAND, None, None)
    costs = {one.number: one.cost for one in candidates.possible}
    halving = Halving(Config(costs, SPEC.rungs, SPEC.eta, SPEC.keep, SPEC.repeats, SPEC.seed))
    journal = Journal(tmp_path, SPEC.name, "fingerprint")
    return journal, Running(
        SPEC, COMMAND, candidates, executor, journal, halving, ("paceline",), tmp_path, said.append, stop
    )


def test_asked_to_end_while_the_executor_waits_it_ends_and_can_go_on(tmp_path):
    stop, said = threading.Event(), []
    executor = Waiting(stop.set)
    journal, made = running(tmp_path, executor, stop, said)
    assert made.run() is False
    assert executor.closed
    assert said == ["asked to end: what runs is ended, what was measured is kept"]
    journal.close()


def test_an_executor_that_fails_by_itself_ends_the_trial_with_its_words(tmp_path):
    executor = Waiting(lambda: None)
    journal, made = running(tmp_path, executor, threading.Event(), [])
    with pytest.raises(ExecutorError):
        made.run()
    assert executor.closed
    journal.close()
