"""What goes wrong is said in a sentence that tells what to change, and never ends in wrong weights or a hang."""

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("pytorch")]
COMPILED = ("compiled_inside", "compiled_in_place", "compiled_outside")


@pytest.fixture(scope="module")
def found(ranks: Callable[..., Any]) -> dict[str, list[Any]]:
    names = ("first_step", "first_step_static", "sharded", "skipped", "repeated", "sliced", "bare", "evaluated")
    return ranks(
        "mishaps.py",
        2,
        *names,
        "normalised",
        "capped",
        "too_small",
        "unlike",
        "in_step",
        "left_out",
        "viewed",
        "restarted",
        "strange_checkpoints",
        *COMPILED,
        "micro_batches",
    ).found  # type: ignore[no-any-return]


@pytest.mark.parametrize("case", ["first_step", "first_step_static"])
def test_where_no_step_can_be_skipped_the_next_start_begins_lower(found: dict[str, list[Any]], case: str) -> None:
    """The error is PyTorch's own kind; ``max_batch`` overrules what was kept."""
    for rank, (failed, next_start, overruled) in enumerate(found[case]):
        assert failed[0] == "OutOfMemoryError"
        assert failed[1].startswith(f"rank {rank} ran out of memory with 32 samples")
        assert "The next start gives it 28 at most" in failed[1]
        assert next_start[0] == "BalanceError"
        assert "can take at most 56 samples and the global batch is 64" in next_start[1]
        assert overruled == [32, 32]


def test_a_step_that_was_left_out_takes_no_other_with_it(found: dict[str, list[Any]]) -> None:
    """Where no rank steps after one ran out of memory, the step that follows is taken."""
    assert found["left_out"] == [[True, False, True]] * 2


@pytest.mark.parametrize("case", ["sharded", "in_step", "viewed"])
def test_where_it_was_no_pass_of_ddp_it_ends_with_the_sentence(found: dict[str, list[Any]], case: str) -> None:
    for kind, sentence in found[case]:
        assert kind == "OutOfMemoryError"
        assert sentence.count("that takes DDP, mode='adaptive', a step before it") == 1


@pytest.mark.parametrize(
    ("case", "says"),
    [
        ("skipped", "Call balancer.backward once for each batch that the loader gives, in that order"),
        ("repeated", "called more often than batches were drawn from the BalancedSampler"),
        ("sliced", "balancer.backward(loss, samples=len(x))"),
        ("bare", "Wrap it in DistributedDataParallel, fully_shard or FullyShardedDataParallel"),
        ("too_small", "can take at most 14 samples and the global batch is 64"),
    ],
)
def test_a_wrong_use_is_told(found: dict[str, list[Any]], case: str, says: str) -> None:
    for kind, sentence in found[case]:
        assert kind == "BalanceError"
        assert says in sentence


def test_ranks_that_were_given_different_things_are_told(found: dict[str, list[Any]]) -> None:
    for told in found["unlike"]:
        for kind, sentence in told:
            assert kind == "BalanceError"
            assert "ranks were given different data or arguments" in sentence


def test_training_goes_on_from_a_checkpoint(found: dict[str, list[Any]]) -> None:
    """Loaded before or after ``balance``: shares go on where they follow speeds, and weights are as without a stop."""
    for told in found["restarted"]:
        assert [mode for mode, _, _ in told] == ["adaptive", "adaptive", "static", "static", "uniform", "uniform"]
        assert [begins for _, begins, _ in told[:2]] == [told[0][1]] * 2
        assert [begins for _, begins, _ in told[2:]] == [[32, 32]] * 4
        assert all(far <= 1e-12 for _, _, far in told)


def test_no_checkpoints_version_or_shares_keep_a_run_from_going_on(found: dict[str, list[Any]]) -> None:
    """Loaded before or after ``balance``; shares that do not fit this run, or its memory, are replaced."""
    for told in found["strange_checkpoints"]:
        assert [begins for _, begins, _, _ in told[:8]] == [[50, 14]] * 4 + [[32, 32]] * 4
        assert all(low and exact for low, _, _, exact in told)
        assert all(sum(shares) == 64 for _, _, shares, _ in told)
        assert all(max(shares) <= 40 for _, _, shares, _ in told[10:])


def test_evaluation_changes_nothing(found: dict[str, list[Any]]) -> None:
    assert max(found["evaluated"]) <= 1e-12


def test_batch_norm_is_warned_of_once(found: dict[str, list[Any]]) -> None:
    """SyncBatchNorm, LayerNorm and equal shares are not."""
    for warned in found["normalised"]:
        assert len(warned["batch"]) == 1
        assert "module.2: BatchNorm" in warned["batch"][0]
        assert "convert_sync_batchnorm(model)" in warned["batch"][0]
        assert warned["layer"] == warned["synced"] == warned["uniform"] == []


def test_what_a_rank_says_that_fits_is_kept(found: dict[str, list[Any]]) -> None:
    assert found["capped"] == [[7, 57], [7, 57]]


@pytest.mark.parametrize("case", COMPILED)
def test_shares_of_compiled_models_are_in_tiles(found: dict[str, list[Any]], case: str) -> None:
    """Whether the model was compiled before it was wrapped, in place, or behind."""
    sizes = [each[0] for each in found[case]]
    assert all(size % 8 == 0 for rank in sizes for size in rank)
    assert sizes[1][-1] < 32
    assert all(each[1] <= 1e-12 for each in found[case])


def test_micro_batches_keep_their_size(found: dict[str, list[Any]]) -> None:
    """From the first agreement on a plan changes how many there are."""
    for sizes, far in found["micro_batches"]:
        assert all(size % 4 == 0 for size in sizes[20:])
        assert far <= 1e-12


def test_a_rank_that_dies_in_an_exchange_ends_the_others(ranks: Callable[..., Any]) -> None:
    """With gloo's own error, at once."""
    ended = ranks("mishaps.py", 3, "dies", check=False)
    assert ended.ended == [3, -9, 3]
    for rank in (0, 2):
        kind, sentence = ended.found["dies"][rank]
        assert kind == "RuntimeError"
        assert "gloo" in sentence
