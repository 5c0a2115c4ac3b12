"""What is said about a job, as it comes off the bus: that its steps came, and each revision once."""

from paceline import wire
from paceline.commands.findings import Watch
from paceline.events import StepTimings
from paceline.topics import OP
from tests.timings import numbers, speakers


def timings(steps: int, job: str = "train") -> bytes:
    """A message with so many steps of one rank."""
    at, lasted = [0.5 * step for step in range(steps)], [0.5] * steps
    rows = {"rank": [0] * steps, "step": list(range(steps)), "start_s": at, "step_s": lasted}
    columns = {name: numbers(values) for name, values in rows.items()}
    about = {"cluster": "c", "producer": "p", "sequence": 0, "job": job, "attempt": 0, "node": "n", "t0_s": 1e9}
    return wire.encode(StepTimings(**about, speakers=speakers([0]), phases={}, **columns))


def test_a_job_has_begun_with_its_first_step() -> None:
    """A node reports its ranks before that, too; and it is said once, however many steps come."""
    watch = Watch("train")
    assert watch.hear(OP.name, timings(0)) is None
    assert watch.hear(OP.name, timings(2, job="other")) is None
    assert isinstance(watch.hear(OP.name, timings(2)), StepTimings)
    assert watch.hear(OP.name, timings(2)) is None
