"""Real pipelines of ``torch.distributed.pipelining`` over gloo, whose second rank takes three times as long."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from experiments.forking import Forking

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("pytorch")]
STEPS, MICROBATCHES = 6, 4
#: Seconds that each rank's passes take at least, for each of its stages.
TOOK_S = (0.01, 0.03)


@pytest.fixture(scope="module", params=["Schedule1F1B", "ScheduleZBVZeroBubble"])
def ranks(
    request: pytest.FixtureRequest,
    new_listener: Callable[[], Any],
    two_ranks: Callable[[], Forking],
    scripts: Path,
) -> list[Any]:
    """What both ranks told of a run; ZBV has two stages a rank, and its backward in two parts."""
    listener, forked = new_listener(), two_ranks()
    done = listener.run(*forked.command, str(scripts / "pipeline.py"), request.param, "1", environ=forked.environ)
    assert done.returncode == 0, forked.said()
    assert "paceline" not in done.stderr + forked.said()
    return list(listener.heard)


def test_each_step_has_the_passes_of_every_micro_batch(ranks: list[Any]) -> None:
    """Whatever order the schedule runs them in, and however many parts its backward has."""
    for rank, heard in enumerate(ranks):
        assert len(heard.steps()) == STEPS
        for step in heard.steps():
            passes = {f"{name} {number}" for name in ("forward", "backward") for number in range(MICROBATCHES)}
            assert {name for name in step if name.startswith(("forward", "backward"))} == passes
            assert all(step[name] >= TOOK_S[rank] for name in passes)


def test_what_is_no_pass_is_waiting_or_little(ranks: list[Any]) -> None:
    """The phases add up to the step, and the faster rank waits for the other.

    A busy machine makes waits longer, of either rank, and seldom all of them shorter: the longest of the one is
    compared with the shortest of the other, so that one undisturbed step of each is enough. Which part a moment belongs
    to is tested mark by mark, with made-up times, in ``tests/paceline/sidecar/test_decode.py``.
    """
    for heard in ranks:
        for step in heard.steps():
            parts = sum(took for name, took in step.items() if name not in ("gc", "cpu_wait", "step"))
            assert parts == pytest.approx(step["step"], rel=0.01)
    fast, slow = ([step["communication"] for step in heard.steps()] for heard in ranks)
    assert max(fast) >= TOOK_S[1]
    assert max(fast) > min(slow)


def test_waits_are_told_of_the_message_that_was_waited_for(ranks: list[Any]) -> None:
    """Each message by its pair, numbered alike by both, with a wait that the step's communication holds.

    Between the marks of a message and those of the phase a busy machine may stop either rank: in one step they agree.
    """
    pairs = [{(row.group, row.seq) for row in heard.collectives} for heard in ranks]
    assert pairs[0] == pairs[1]
    for heard in ranks:
        later = list(enumerate(heard.steps()))[1:]  # before the first, stages exchange shapes
        waited = [sum(row.wait_s for row in heard.collectives if row.step == number) for number, _ in later]
        told = [step["communication"] for _, step in later]
        assert all(0 < part <= whole + 1e-6 for part, whole in zip(waited, told, strict=True))
        assert any(part == pytest.approx(whole, rel=0.2, abs=0.01) for part, whole in zip(waited, told, strict=True))


def test_ranks_say_which_stage_they_are(ranks: list[Any]) -> None:
    """Without a device mesh: stages are compared with themselves, not with others that have other work."""
    assert [heard.hello.pp for heard in ranks] == [0, 1]
