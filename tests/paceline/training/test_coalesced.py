"""Collectives issued together answer to one work: the wait for it is theirs, and they end with it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("pytorch")]
#: What a step sleeps once it has waited for everything, but for what clocks are rounded by.
SLEEP_S = 0.049


class Step(NamedTuple):
    """Its collectives, and until when all of them have been waited for."""

    rows: list[Any]
    waited_s: float

    def sized(self, size: int, operation: str) -> Any:
        """The one of so many bytes; it has ended in time."""
        (row,) = [row for row in self.rows if (row.bytes, row.operation) == (size, operation)]
        assert row.start_s + row.duration_s < self.waited_s
        return row


@pytest.fixture(scope="module")
def steps(new_listener: Callable[[], Any], scripts: Path) -> list[Step]:
    """Its collectives go by their size: a received message of 12 bytes, sent ones of 8, 24 and 28 bytes."""
    listener = new_listener()
    done = listener.run(str(scripts / "coalesced.py"))
    assert (done.returncode, done.stderr) == (0, "")
    (heard,) = listener.heard
    assert len(heard.rows) == 6
    ends = {row.step: row.start_s + row.step_s - SLEEP_S for row in heard.rows}
    return [Step([row for row in heard.collectives if row.step == step], ends[step]) for step in range(1, 6)]


def test_messages_of_a_batch_end_when_their_work_has_been_waited_for(steps: list[Step]) -> None:
    """Together, and the wait is told of the one received; the other's ``isend`` was imported before the hooks."""
    for step in steps:
        assert step.sized(12, "recv").wait_s > 0
        assert step.sized(8, "send").wait_s == 0


def test_collectives_that_are_coalesced_into_one_have_its_wait(steps: list[Step]) -> None:
    """Whoever waits for it: the script, or the manager itself."""
    for step in steps:
        assert step.sized(48, "all_reduce").wait_s > 0
        assert step.sized(20, "all_reduce").wait_s > 0


def test_a_batch_that_raised_swallows_nothing_that_follows(steps: list[Step]) -> None:
    """The next message has its own work, and its own wait."""
    for step in steps:
        assert step.sized(28, "send").wait_s > 0
        assert step.sized(24, "send").wait_s == 0
