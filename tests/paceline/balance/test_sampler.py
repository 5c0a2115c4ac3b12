"""BalancedSampler: every sample once over all ranks, the same batches whatever is fetched ahead, clear refusals."""

import importlib
from itertools import islice
from typing import Any

import pytest

from paceline.balance.errors import BalanceError
from paceline.balance.worker import SplitError

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("pytorch")]


@pytest.fixture(scope="module")
def several() -> Any:
    """Makes samplers; it needs PyTorch, which collecting tests must not load."""
    return importlib.import_module("tests.paceline.balance.samplers")


def together(all_of: list[Any]) -> list[list[list[int]]]:
    """Batch by batch what each rank takes of an epoch."""
    return [list(batch) for batch in zip(*all_of, strict=True)]


def test_each_sample_is_seen_once_over_all_ranks(several: Any) -> None:
    """With shares that change in the middle, and in each epoch in another order."""
    ranks = several.samplers(3, 120, 12, weights=[1, 2, 3])
    orders = []
    for epoch in range(3):
        for sampler in ranks:
            sampler.set_epoch(epoch)
        batches = []
        for number, batch in enumerate(zip(*ranks, strict=True)):
            batches.append([index for part in batch for index in part])
            if number == 4:
                several.install(ranks, [6 - epoch, 1, 5 + epoch])
        orders.append([index for batch in batches for index in batch])
        assert sorted(orders[-1]) == list(range(120))
        assert all(len(batch) == 12 for batch in batches)
    assert orders[0] != orders[1] != orders[2]


def test_the_batch_does_not_depend_on_how_it_is_shared_out(several: Any) -> None:
    """Batch k has the same samples for one rank and for five, whatever the shares."""
    one = [set(batch[0]) for batch in together(several.samplers(1, 100, 20, seed=4))]
    five = together(several.samplers(5, 100, 20, seed=4, weights=[5, 1, 1, 1, 9]))
    assert [set().union(*batch) for batch in five] == one


def test_weights_are_starting_shares(several: Any) -> None:
    assert [len(part) for part in together(several.samplers(4, 64, 32, weights=[1, 1, 2, 4]))[0]] == [4, 4, 8, 16]
    assert [len(part) for part in together(several.samplers(3, 64, 32))[0]] == [11, 11, 10]


def test_without_shuffling_samples_come_in_their_own_order(several: Any) -> None:
    flat = [index for batch in together(several.samplers(2, 10, 4, shuffle=False)) for part in batch for index in part]
    assert flat == list(range(8))


def test_the_seed_makes_the_order(several: Any) -> None:
    """Seed and epoch do not stand for one another."""
    first, second = several.samplers(1, 50, 10, seed=0)[0], several.samplers(1, 50, 10, seed=1)[0]
    assert list(first) != list(second)
    first.set_epoch(1)
    assert list(first) != list(second)
    assert list(several.samplers(1, 50, 10, seed=1)[0]) == list(several.samplers(1, 50, 10, seed=1)[0])


@pytest.mark.parametrize(("drop_last", "batches"), [(True, 3), (False, 4)])
def test_its_length_is_the_batches_of_an_epoch(several: Any, drop_last: bool, batches: int) -> None:
    ranks = several.samplers(4, 50, 16, drop_last=drop_last)
    assert [len(sampler) for sampler in ranks] == [batches] * 4
    assert len(together(ranks)) == batches


def test_a_short_last_batch_is_shared_out(several: Any) -> None:
    """Who has none of it loads one sample, which counts nothing."""
    ranks = several.samplers(4, 18, 16, drop_last=False)
    for sampler in ranks:
        sampler.handout.followed = True
    last = together(ranks)[1]
    assert [len(part) for part in last] == [1, 1, 1, 1]
    pieces = [[sampler.handout.take() for _ in range(2)][1] for sampler in ranks]
    assert sum(piece.counted for piece in pieces) == 2
    counted = [part[0] for part, piece in zip(last, pieces, strict=True) if piece.counted]
    assert len(set(counted)) == 2


def test_a_plan_is_for_batches_that_nobody_has_handed_out(several: Any) -> None:
    """However far each rank has fetched ahead, batch n has the same shares on all."""
    ranks = several.samplers(2, 200, 10)
    passes = [iter(sampler) for sampler in ranks]
    ahead = [list(islice(each, count)) for each, count in zip(passes, (7, 2), strict=True)]
    assert several.install(ranks, [8, 2]) == 7
    found = [[len(part) for part in [*before, *rest]] for before, rest in zip(ahead, passes, strict=True)]
    assert found == [[5] * 7 + [8] * 13, [5] * 7 + [2] * 13]


def test_after_a_break_ranks_begin_at_one_number(several: Any) -> None:
    """Each had fetched another number of batches ahead; a plan that counts later still does."""
    ranks = several.samplers(2, 200, 10)
    passes = [iter(sampler) for sampler in ranks]
    for sampler in ranks:
        sampler.handout.followed = True
    for each, count in zip(passes, (9, 5), strict=True):
        assert len(list(islice(each, count))) == count
    for sampler in ranks:
        assert [sampler.handout.take().batch.number for _ in range(4)] == [0, 1, 2, 3]
    assert several.install(ranks, [7, 3]) == 9
    for sampler, each in zip(ranks, passes, strict=True):
        each.close()
        sampler.set_epoch(1)
    again = [[len(part) for part in sampler] for sampler in ranks]
    assert again == [[5] * 5 + [7] * 15, [5] * 5 + [3] * 15]
    assert [sampler.handout.take().batch.number for sampler in ranks] == [4, 4]


def test_a_newer_plan_that_begins_earlier_replaces_one_that_never_began(several: Any) -> None:
    ranks = several.samplers(2, 200, 10)
    passes = [iter(sampler) for sampler in ranks]
    for sampler, each in zip(ranks, passes, strict=True):
        sampler.handout.followed = True
        next(each)
    next(passes[0])
    several.install(ranks, [7, 3])
    for sampler in ranks:
        sampler.handout.begin()
    assert several.install(ranks, [2, 8]) == 0
    assert [[len(part) for part in sampler] for sampler in ranks] == [[2] * 20, [8] * 20]


def test_a_look_at_one_batch_on_one_rank_moves_nothing(several: Any) -> None:
    ranks = several.samplers(2, 40, 10)
    for sampler in ranks:
        sampler.handout.followed = True
    next(iter(ranks[0]))
    parts = [next(iter(sampler)) for sampler in ranks]
    assert [sampler.handout.take().batch.number for sampler in ranks] == [0, 0]
    assert len(set(parts[0] + parts[1])) == 10


def test_two_loops_over_one_sampler_are_refused(several: Any) -> None:
    sampler = several.samplers(1, 40, 10)[0]
    first, second = iter(sampler), iter(sampler)
    next(first)
    next(second)
    with pytest.raises(BalanceError, match="give the other loop a sampler of its own"):
        next(first)


@pytest.mark.parametrize("world", [2, 5])
@pytest.mark.parametrize("batch", [12, 30])
def test_training_goes_on_behind_the_batch_trained_on_last(several: Any, world: int, batch: int) -> None:
    """Not behind what was handed out; also with other ranks and another global batch, each sample once."""
    before = several.samplers(3, 120, 12, weights=[1, 2, 3], seed=9)
    seen: list[int] = []
    for sampler in before:
        sampler.handout.followed = True
        sampler.set_epoch(6)
        parts = list(islice(iter(sampler), 7))
        for part in parts[:5]:
            sampler.handout.take()
            seen += part
    states = [sampler.state_dict() for sampler in before]
    assert states[0] == states[1] == states[2]
    after = several.samplers(world, 120, batch, seed=9)
    for sampler in after:
        sampler.load_state_dict(states[0])
        sampler.set_epoch(6)
    rest = [index for parts in together(after) for part in parts for index in part]
    assert len(seen) == 60
    assert sorted(seen + rest) == list(range(120))
    assert after[0].handout.next == 5 + 60 // batch


@pytest.mark.parametrize("drop_last", [True, False])
def test_ranks_end_an_epoch_together_though_one_has_fetched_its_end(several: Any, drop_last: bool) -> None:
    """A plan that leaves samples out could give the epoch one more batch, for the ranks that fetch less alone."""
    left = 254 if drop_last else 0
    ranks = several.samplers(2, 4 * 256 + left, 256, drop_last=drop_last)
    for sampler in ranks:
        sampler.handout.followed = True
    drawn = [iter(sampler) for sampler in ranks]
    lengths = [len(list(islice(one, ahead))) for one, ahead in zip(drawn, (8, 2), strict=True)]
    several.install(ranks, [150, 102])
    assert [length + len(list(one)) for length, one in zip(lengths, drawn, strict=True)] == [4, 4]


def test_a_look_after_a_restart_moves_nothing(several: Any) -> None:
    before = several.samplers(1, 40, 10)[0]
    next(iter(before))
    after = several.samplers(1, 40, 10)[0]
    after.handout.followed = True
    after.load_state_dict(before.state_dict())
    assert next(iter(after)) == next(iter(after)) == list(before)[1]


def test_shares_go_on_where_ranks_are_as_many(several: Any) -> None:
    before = several.samplers(2, 40, 10)
    several.install(before, [8, 2])
    list(before[0])
    after = several.samplers(2, 40, 10)[0]
    after.load_state_dict(before[0].state_dict())
    assert after.handout.plan.shares == (8, 2)
    assert after.handout.plan.version == 2


def test_another_epoch_begins_at_its_start(several: Any) -> None:
    before = several.samplers(1, 40, 10)[0]
    next(iter(before))
    after = several.samplers(1, 40, 10)[0]
    after.load_state_dict(before.state_dict())
    after.set_epoch(1)
    assert len(list(after)) == 4


def test_a_checkpoint_of_other_data_is_refused(several: Any) -> None:
    with pytest.raises(BalanceError, match="of a dataset of 40 samples, and this one has 41"):
        several.samplers(1, 41, 10)[0].load_state_dict(several.samplers(1, 40, 10)[0].state_dict())


@pytest.mark.parametrize("name", ["epoch", "samples", "batch", "version"])
@pytest.mark.parametrize("number", [-1, 1.5, "3", None, True])
def test_a_checkpoint_whose_numbers_are_none_is_refused(several: Any, name: str, number: object) -> None:
    state = several.samplers(1, 40, 10)[0].state_dict()
    with pytest.raises(BalanceError, match=f"the checkpoint's {name} is"):
        several.samplers(1, 40, 10)[0].load_state_dict({**state, name: number})


@pytest.mark.parametrize("shares", [[0, 10], [5, 6], [-5, 15], [2**60, 1], ["5", 5], [5.0, 5.0], [5, 5, 0], []])
def test_shares_of_a_checkpoint_that_are_none_start_anew(several: Any, shares: list[Any]) -> None:
    sampler = several.samplers(2, 40, 10)[0]
    sampler.load_state_dict({**sampler.state_dict(), "shares": shares})
    assert sampler.handout.plan.shares == (5, 5)
    assert len(list(sampler)) == 4


@pytest.mark.parametrize("version", [2**52, 2**53, 2**53 + 1, 10**30])
def test_a_checkpoint_of_any_version_leaves_versions_for_the_run(several: Any, version: int) -> None:
    sampler = several.samplers(2, 40, 10)[0]
    sampler.load_state_dict({**sampler.state_dict(), "version": version})
    assert 1 <= sampler.handout.plan.version < 2**53 - 2**51


class Endless:
    def __getitem__(self, index: int) -> int:
        return index


@pytest.mark.parametrize(
    ("dataset", "batch", "world", "more", "says"),
    [
        (Endless(), 4, 2, {}, "a Endless has no length"),
        (range(3), 4, 4, {}, "3 samples for 4 ranks"),
        (range(0), 1, 1, {}, "0 samples for 1 ranks"),
        (range(8), 16, 4, {}, "fewer than one global_batch of 16"),
        (range(99), 3, 4, {}, "global_batch 3 is smaller than the number of ranks, 4"),
        (range(99), 0, 1, {}, "takes a whole number from 1 on"),
        (range(99), -8, 1, {}, "takes a whole number from 1 on"),
        (range(99), 8.0, 1, {}, "global_batch is 8.0"),
        (range(99), True, 1, {}, "global_batch is True"),
        (range(99), 8, 2, {"weights": [1.0]}, "1 weights for 2 ranks"),
        (range(99), 8, 2, {"weights": [1.0, float("nan")]}, "rank 1's weight is nan"),
        (range(99), 8, 2, {"weights": [0.0, 1.0]}, "rank 0's weight is 0.0"),
        (range(99), 8, 2, {"weights": [1.0, float("inf")]}, "rank 1's weight is inf"),
        (range(99), 8, 2, {"weights": [-1.0, 1.0]}, "a weight is a speed, above 0"),
    ],
)
def test_what_makes_no_batches_is_refused(
    several: Any, dataset: Any, batch: Any, world: int, more: dict[str, Any], says: str
) -> None:
    """The sentence names what is wrong."""
    with pytest.raises(BalanceError, match=says):
        several.sampler_of(0, world, dataset, batch, **more)


def test_a_stream_is_refused_with_the_way_out(several: Any) -> None:
    with pytest.raises(BalanceError, match=r"IterableDataset has no indices .* let each rank read its own part"):
        several.sampler_of(0, 2, several.Stream(), 4)


def test_a_dataset_smaller_than_the_batch_makes_one_where_it_is_kept(several: Any) -> None:
    assert [len(part) for part in together(several.samplers(2, 5, 16, drop_last=False))[0]] == [2, 3]


def test_huge_weights_still_leave_each_rank_a_sample(several: Any) -> None:
    assert [len(part) for part in together(several.samplers(2, 64, 32, weights=[1e-300, 1e300]))[0]] == [1, 31]


def test_caps_that_cannot_hold_the_batch_are_refused(several: Any) -> None:
    with pytest.raises(SplitError):
        several.samplers(2, 64, 32)[0].starting_shares([4, 4])


def test_alone_it_needs_no_process_group(several: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert several.place() == (0, 1)
    assert len(list(several.BalancedSampler(range(20), 5))) == 4


def test_one_of_several_needs_one(several: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(BalanceError, match="init_process_group before"):
        several.BalancedSampler(range(20), 5)


@pytest.mark.parametrize("persistent", [False, True])
def test_loaders_with_workers_take_the_same_batches_epoch_after_epoch(several: Any, persistent: bool) -> None:
    """Two ranks whose loaders fetch ahead unlike, with a break in the middle of an epoch."""
    ranks = several.samplers(2, 160, 8, seed=2)
    ahead = zip(ranks, (1, 3), strict=True)
    loaders = [
        several.DataLoader(
            range(160), batch_sampler=sampler, num_workers=2, prefetch_factor=count, persistent_workers=persistent
        )
        for sampler, count in ahead
    ]
    for sampler in ranks:
        sampler.handout.followed = True
    for epoch, stop in ((0, 20), (1, 6), (1, 20), (2, 3), (3, 20)):
        for sampler in ranks:
            sampler.set_epoch(epoch)
        batches = []
        for both in zip(*loaders, strict=True):
            numbers = {sampler.handout.take().batch.number for sampler in ranks}
            assert len(numbers) == 1
            batches += [index for part in both for index in part.tolist()]
            if len(batches) == 24 and epoch == 1:
                several.install(ranks, [6, 2] if stop == 6 else [1, 7])
            if len(batches) == 8 * stop:
                break
        assert len(batches) == len(set(batches)) == 8 * stop
