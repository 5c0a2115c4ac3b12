"""A real two-process run of a script that knows nothing of Paceline: what each rank tells, and that nothing changes."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from experiments.forking import Forking

pytestmark = [pytest.mark.landing, pytest.mark.e2e, pytest.mark.xdist_group("pytorch")]
LAUNCH = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
OVERLAYS = ("gc", "cpu_wait", "step")


class Seen(NamedTuple):
    ranks: list[Any]
    stderr: str
    weights: list[bytes]


@pytest.fixture(scope="module")
def seen(new_listener: Callable[[], Any], scripts: Path, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """The run with the probe."""
    listener, folder = new_listener(), tmp_path_factory.mktemp("run")
    done = listener.run(*LAUNCH, str(scripts / "every_kind.py"), str(folder))
    assert done.returncode == 0, done.stderr
    return Seen(listener.heard, done.stderr, weights(folder))


def weights(folder: Path) -> list[bytes]:
    return [(folder / f"weights-{rank}").read_bytes() for rank in (0, 1)]


def test_ranks_and_nobody_else_report(seen: Seen) -> None:
    """Two ranks say hello and goodbye; the launcher and the loaders' workers stay silent."""
    assert [heard.hello.rank for heard in seen.ranks if heard.hello] == [0, 1]
    assert all(heard.hello and heard.hello.world_size == 2 and heard.hello.backend == "gloo" for heard in seen.ranks)
    assert all(heard.bye for heard in seen.ranks)


def test_training_is_bitwise_the_same_without_the_probe(
    seen: Seen, python: Callable[..., Any], two_ranks: Callable[[], Forking], scripts: Path, tmp_path: Path
) -> None:
    """The weights of every rank are equal to the last bit, and nothing was printed."""
    forked = two_ranks()
    done = python(*forked.command, str(scripts / "every_kind.py"), str(tmp_path), environ=forked.environ)
    assert done.returncode == 0, forked.said()
    assert seen.weights == weights(tmp_path)
    assert "paceline" not in seen.stderr


def test_phases_add_up_to_each_step(seen: Seen) -> None:
    """The disjoint phases make up the step within one per cent."""
    for heard in seen.ranks:
        steps = heard.steps()
        assert len(steps) == 13
        for step in steps:
            parts = sum(duration for op, duration in step.items() if op not in OVERLAYS)
            assert parts == pytest.approx(step["step"], rel=0.01)


def test_steps_follow_one_another_without_a_gap(seen: Seen) -> None:
    """A step begins where the one before it ended."""
    for earlier, later in pairwise(sorted(seen.ranks[0].rows)):
        assert later.start_s == pytest.approx(earlier.start_s + earlier.step_s, abs=1e-5)


def test_micro_batches_are_told_apart(seen: Seen) -> None:
    """Accumulating steps have a row for each forward and backward; a step of one batch has none."""
    steps = seen.ranks[1].steps()
    for step in steps[:8]:
        assert {"forward 0", "backward 0", "forward 1", "backward 1", "optimizer", "data", "communication"} <= set(step)
    assert {"forward", "backward"} <= set(steps[8])


def test_evaluation_and_checkpoint_are_no_training(seen: Seen) -> None:
    """The pause before step 8 is evaluation on every rank, with a checkpoint on the one that saved."""
    assert all(heard.steps()[8]["evaluation"] > 0 for heard in seen.ranks)
    assert "checkpoint" in seen.ranks[0].steps()[8]
    assert "checkpoint" not in seen.ranks[1].steps()[8]
    assert not any("evaluation" in step for step in seen.ranks[0].steps()[:8])


def test_collectives_have_the_same_numbers_on_every_rank(seen: Seen) -> None:
    """Group by group, both ranks tell the same operations and sizes under the same numbers, with no hole."""
    told = [
        {(row.group, row.seq): (row.operation, row.bytes, row.group_size) for row in heard.collectives}
        for heard in seen.ranks
    ]
    assert told[0] == told[1]
    for group in {group for group, _ in told[0]}:
        numbers = sorted(seq for name, seq in told[0] if name == group)
        assert numbers == list(range(len(numbers)))
    assert len({group for group, _ in told[0]}) == 2


def test_gradients_are_exchanged_once_an_accumulating_step(seen: Seen) -> None:
    """Under no_sync nothing is exchanged; the wait told for the exchange is no longer than the step's."""
    heard = seen.ranks[0]
    for index in range(1, 8):
        exchanged = [row for row in heard.collectives if row.step == index and row.operation == "all_reduce"]
        assert exchanged
        assert sum(row.wait_s for row in exchanged) <= heard.steps()[index]["communication"] + 1e-6


def test_sharded_models_are_seen(seen: Seen) -> None:
    """FSDP's steps have forward and backward, and its gathers and scatters are told."""
    heard = seen.ranks[0]
    for index in range(9, 13):
        assert {"forward", "backward", "communication", "optimizer"} <= set(heard.steps()[index])
        operations = {row.operation for row in heard.collectives if row.step == index}
        assert {"all_gather", "reduce_scatter", "all_reduce"} <= operations


@pytest.mark.exactly_once
def test_messages_are_small_and_nothing_is_lost(seen: Seen) -> None:
    """No message comes near the limit of a socket, and the ring dropped nothing."""
    assert all(max(heard.sizes) < 100_000 and heard.lost == 0 for heard in seen.ranks)
