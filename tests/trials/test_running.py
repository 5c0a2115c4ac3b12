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


class Slow(Waiting):
    """An executor whose first job waits, then runs; a person watches, and asks it to end."""

    def __init__(self, asks) -> None:
        super().__init__(asks)
        self._looks = 0

    def start(self, job: Job) -> None:
        """Nothing is started."""

    def poll(self, job: Job) -> Ended | None:
        self._looks += 1
        if self._looks == 2:
            self._asks()

    def waits(self, job: Job) -> str:
        return "PENDING: Resources" if self._looks == 1 else ""


def running(tmp_path, executor, stop, said, shown=None):
    candidates = expand(SPEC, COMMAND, None, None)
    costs = {one.number: one.cost for one in candidates.possible}
    halving = Halving(Config(costs, SPEC.rungs, SPEC.eta, SPEC.keep, SPEC.repeats, SPEC.seed))
    journal = Journal(tmp_path, SPEC.name, "fingerprint")
    return journal, Running(
        SPEC,
        COMMAND,
        candidates,
        executor,
        journal,
        halving,
        ("paceline",),
        tmp_path,
        said.append,
        stop,
        [].append if shown is None else shown.append,
    )


@pytest.mark.long
def test_what_waits_or_runs_is_shown_at_every_look(tmp_path):
    """A run takes half a minute or longer: nobody is to guess whether it hangs."""
    stop, shown = threading.Event(), []
    journal, made = running(tmp_path, Slow(stop.set), stop, [], shown)
    assert made.run() is False
    journal.close()

    waits, runs = (line.partition(": ")[2] for line in shown)
    assert waits.endswith("waits, 0 s")
    assert runs.endswith("runs, 0 s; about 35 s expected")


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
