"""Data cut unevenly: forward and backward of the same micro-batch that vary together."""

import numpy as np
import pytest

from streams.jobs.data_imbalance import DataConfig, DataImbalance, said

RANKS, PASSES = 4, 20


@pytest.fixture
def detector():
    """With the thresholds as they are."""
    return DataImbalance(DataConfig())


def pair_sums(forward, backward):
    """Sums over pairs of shape (passes, ranks): count, f, b, ff, bb, fb."""
    return np.array(
        [
            np.full(forward.shape[1], float(len(forward))),
            *(forward.sum(0), backward.sum(0)),
            *((forward**2).sum(0), (backward**2).sum(0), (forward * backward).sum(0)),
        ]
    )


def lengths(seed=0, spread=0.2, ranks=RANKS, passes=PASSES):
    """Lengths of sequences around 1."""
    return 1 + spread * np.random.default_rng(seed).uniform(-1, 1, (passes, ranks))


def judge(detector, make_sums, pairs, windows=3, held_back_s=0.2, accused=frozenset()):
    """The states that are told of windows of 1 s, and the last episode."""
    ranks = pairs.shape[1]
    sums = [make_sums(n, pairs=pairs, held_back_s=held_back_s, forward=[1.0] * ranks) for n in range(windows)]
    episodes = [episode for one in sums if (episode := detector.update(one, set(accused)))]
    return [episode.state for episode in episodes], episodes[-1] if episodes else None


def test_lengths_that_show_in_both_passes_are_told(detector, make_sums):
    """Suspected, then confirmed, with spread and correlation."""
    states, episode = judge(detector, make_sums, pair_sums(lengths(), lengths()))
    assert states == ["suspected", "confirmed"]
    assert (episode.cause, episode.measured.alike) == ("sequence_length", pytest.approx(1.0))
    assert episode.measured.lost_ratio == pytest.approx(0.25)
    words = said(episode, DataConfig())
    assert "(correlation 1.00): their sequences differ in length, since about step 0" in words.summary
    assert words.subject.ranks == ()
    assert detector.suspects()


def test_passes_that_vary_apart_are_noise(detector, make_sums):
    """Long in one pass and not in the other is no length."""
    assert judge(detector, make_sums, pair_sums(lengths(1), lengths(2)))[0] == []
    assert not detector.suspects()


def test_a_small_spread_and_one_that_costs_nothing_are_no_news(detector, make_sums):
    """Each has its bar."""
    assert judge(detector, make_sums, pair_sums(lengths(spread=0.05), lengths(spread=0.05)))[0] == []
    assert judge(detector, make_sums, pair_sums(lengths(), lengths()), held_back_s=0.0)[0] == []


def test_equal_lengths_have_no_correlation_and_no_error(detector, make_sums):
    """A spread of 0.0 is a value, and divides nothing."""
    even = np.ones((PASSES, RANKS))
    with np.errstate(all="raise"):
        assert judge(detector, make_sums, pair_sums(even, even))[0] == []


def test_a_rank_that_is_slow_for_good_is_no_matter_of_the_data(detector, make_sums):
    """Within each rank nothing varies."""
    slow = np.ones((PASSES, RANKS)) * [1.0, 1.0, 1.0, 3.0]
    assert judge(detector, make_sums, pair_sums(slow, slow))[0] == []


def test_too_few_pairs_or_ranks_say_nothing(detector, make_sums):
    """A single rank, two pairs a rank, all but one accused, and a window without pairs."""
    one = lengths(ranks=1, passes=100)
    few = lengths(passes=2)
    assert judge(detector, make_sums, pair_sums(one, one))[0] == []
    assert judge(detector, make_sums, pair_sums(few, few))[0] == []
    assert judge(detector, make_sums, pair_sums(lengths(), lengths()), accused={0, 1, 2})[0] == []
    assert judge(detector, make_sums, np.zeros((6, RANKS)))[0] == []


def test_an_accused_rank_beyond_the_table_is_ignored(detector, make_sums):
    """Ranks join later, and numbers may be absurd."""
    assert judge(detector, make_sums, pair_sums(lengths(), lengths()), accused={99, 10**9})[0]


def test_restored_it_confirms_in_the_next_window(detector, make_sums):
    """State is data."""
    judge(detector, make_sums, pair_sums(lengths(), lengths()), windows=2)
    again = DataImbalance(DataConfig())
    again.load(detector.state())
    assert judge(again, make_sums, pair_sums(lengths(), lengths()), windows=1)[0] == ["confirmed"]
