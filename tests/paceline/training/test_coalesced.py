"""Collectives issued together answer to one work: the wait for it is theirs, and they end with it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# Importing PyTorch alone takes a minute on a machine that is busy with other tests.
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]
#: What a step sleeps once it has waited for everything.
SLEEP_S = 0.05


@pytest.fixture(scope="module")
def rows(new_listener: Callable[[], Any], scripts: Path) -> list[list[Any]]:
    """The collectives of each step, by size: a received message of 12 bytes, sent ones of 8, 24 and 28 bytes."""
    listener = new_listener()
    done = listener.run(str(scripts / "coalesced.py"))
    assert (done.returncode, done.stderr) == (0, "")
    (heard,) = listener.heard
    assert len(heard.steps()) == 6
    return [[row for row in heard.collectives if row.step == step] for step in range(6)]


def sized(rows: list[Any], size: int, operation: str) -> Any:
    (row,) = [row for row in rows if (row.bytes, row.operation) == (size, operation)]
    return row


def test_messages_of_a_batch_end_when_their_work_has_been_waited_for(rows: list[list[Any]]) -> None:
    """Together, and the wait is told of the one that was received."""
    for step in rows[1:]:
        received, sent = sized(step, 12, "recv"), sized(step, 8, "send")
        assert received.wait_s > 0
        assert sent.wait_s == 0
        assert max(received.duration_s, sent.duration_s) < SLEEP_S


def test_collectives_that_are_coalesced_into_one_have_its_wait(rows: list[list[Any]]) -> None:
    """Whoever waits for it: the script, or the manager itself."""
    for step in rows[1:]:
        by_script = [row for row in step if row.operation == "all_reduce" and row.bytes == 48]
        by_itself = [row for row in step if row.operation == "all_reduce" and row.bytes == 20]
        assert [row.wait_s > 0 for row in by_script + by_itself] == [True] * 2
        assert all(row.duration_s < SLEEP_S for row in by_script + by_itself)


def test_a_batch_that_raised_swallows_nothing_that_follows(rows: list[list[Any]]) -> None:
    """The next message has its own work, and its own wait."""
    for step in rows[1:]:
        assert sized(step, 28, "send").wait_s > 0
        assert sized(step, 24, "send").duration_s < SLEEP_S
