"""What a sidecar does when it is asked to: full rows, for the job that is meant, on the batcher's own clock."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from paceline.command_rules import CommandRules, Reader
from paceline.events import AuditEntry, Command
from paceline.sidecar.actions import actions
from paceline.sidecar.batch import Batcher, Origin
from paceline.sidecar.captures import Captures
from paceline.training.messages import Hello

NOW_S, TICK_S = 1_763_720_000.0, 500.0


class Batches(Batcher):
    """A batcher that notes what was asked of it."""

    def __init__(self, *jobs: tuple[str, int]) -> None:
        super().__init__(Origin("lab", "n1", "p"))
        self.asked: list[tuple[tuple[str, int], float]] = []
        hello = Hello(
            rank=0,
            world_size=1,
            local_rank=0,
            pid=1,
            device="cpu",
            backend="gloo",
            framework="torch",
            job="j",
            attempt=0,
            started_s=0.0,
        )
        for job, attempt in jobs:
            self.join(replace(hello, job=job, attempt=attempt))

    def send_full_rows(self, key: tuple[str, int], until_s: float) -> None:
        super().send_full_rows(key, until_s)
        self.asked.append((key, until_s))


def ask(batches: Batches, arguments: dict[str, Any]) -> AuditEntry:
    command = Command(
        id="1",
        cluster="lab",
        target="job:a",
        action="full_rows",
        arguments=arguments,
        expires_s=NOW_S + 60,
        issuer="ada",
    )
    captures = Captures("lab", "n1", Path("nowhere"), lambda: TICK_S)
    known = actions(batches, lambda: TICK_S, captures)
    rules = CommandRules(Reader("sidecar", "n1", "lab"), known, obeys=True, since_s=0.0)
    entry = rules.judge(command, NOW_S, {"job:a", "job:b"})
    assert entry is not None
    return entry


def test_full_rows_of_a_job_are_those_of_its_attempts_that_are_here() -> None:
    """Until so many seconds from now on, by the clock that `tick` is given."""
    batches = Batches(("a", 0), ("a", 1), ("b", 0))
    entry = ask(batches, {"seconds": 60})
    assert (entry.outcome, entry.reason) == ("accepted", "every collective is sent for 60 s")
    assert batches.asked == [(("a", 0), TICK_S + 60), (("a", 1), TICK_S + 60)]


@pytest.mark.parametrize("seconds", [0, 0.5, 3600.5, -60, 2**60, 1e30, True, "60", None])
def test_seconds_lie_between_one_and_an_hour(seconds: object) -> None:
    """Else nothing is done, and the entry says what is allowed."""
    batches = Batches(("a", 0))
    entry = ask(batches, {"seconds": seconds})
    assert entry.outcome == "refused"
    assert "seconds" in entry.reason
    assert batches.asked == []


def test_a_job_that_has_just_gone_is_told_as_such() -> None:
    """Its last rank left between the command's way and its turn."""
    batches = Batches(("a", 0))
    batches.leave(("a", 0), 0, 1000.0)
    entry = ask(batches, {"seconds": 60})
    assert (entry.outcome, entry.reason) == ("failed", "LookupError: none of its ranks is here any more")
