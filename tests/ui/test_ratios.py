import numpy as np

from ui.ratios import against_median, own_time, slowest_first, thin


def rows(*values):
    return np.array(values, np.float32)


def test_own_time_is_the_step_without_waiting():
    """Waiting for others is not a rank's own."""
    assert np.allclose(own_time(rows([1.0, 1.0]), rows([0.75, np.nan])), rows([0.25, 1.0]))


def test_the_slow_rank_stands_out_though_steps_are_equal():
    """All steps take 1 s; who waits least is the slow one."""
    own = own_time(rows([1], [1], [1]), rows([0.5], [0.5], [0.0]))
    assert against_median(own)[:, 0].tolist() == [1.0, 1.0, 2.0]


def test_a_longer_stage_is_not_slow_and_a_rank_behind_its_own_stage_is():
    """The verdict compares ranks of equal work; so does the picture."""
    own = rows([1.0], [1.0], [1.3], [1.3], [1.3], [1.95])
    ratio = against_median(own, np.array([0, 0, 1, 1, 1, 1]))
    assert np.allclose(ratio[:, 0], [1.0, 1.0, 1.0, 1.0, 1.0, 1.5])
    assert np.allclose(against_median(own)[:2, 0], [1 / 1.3] * 2)


def test_a_rank_alone_in_its_stage_is_compared_with_itself():
    """It has no peer of equal work: what stands out is that it changed."""
    own = rows([1.0, 1.0, 1.0, 1.0, 1.0], [1.3, 1.3, 1.3, 1.3, 2.6])
    ratio = against_median(own, np.array([0, 1]))
    assert np.allclose(ratio, [[1, 1, 1, 1, 1], [1, 1, 1, 1, 2]])


def test_ranks_of_unknown_stages_are_a_cohort_and_few_of_a_stage_are_none():
    own = rows([1.0], [2.0], [np.nan], [np.nan], [4.0], [4.0])
    ratio = against_median(own, np.array([0, 0, 0, 0, -1, -1]))
    assert np.isnan(ratio[:4]).all()
    assert np.allclose(ratio[4:], 1.0)


def test_no_ratio_where_few_ranks_were_heard():
    """One rank of four is its own median: that says nothing."""
    own = rows([1.0], [np.nan], [np.nan], [np.nan])
    assert np.isnan(against_median(own)).all()


def test_no_ratio_to_a_median_of_nothing():
    """A median of 0 s divides nothing."""
    assert np.isnan(against_median(rows([0.0], [0.0]))).all()


def test_nothing_heard_is_nothing_shown():
    """No rank, no step: empty."""
    assert against_median(np.empty((0, 0), np.float32)).shape == (0, 0)


def test_thinning_keeps_at_most_the_columns_and_the_newest_step():
    """The last column ends with the newest step."""
    steps, values, width = thin(np.arange(1000), np.arange(1000, dtype=np.float32)[None, :], columns=300)
    assert width == 4
    assert values.shape == (1, 250)
    assert values[0, -1] == 997.5
    assert steps[-1] == 996


def test_thinning_an_uneven_number_leaves_the_first_column_short():
    """The first column holds the rest."""
    steps, values, width = thin(np.arange(10, 17), np.ones((2, 7), np.float32), columns=3)
    assert (steps.tolist(), values.shape, width) == ([10, 11, 14], (2, 3), 3)


def test_slowest_first_puts_the_unheard_last():
    """Order by recent median ratio."""
    ratio = rows([1.0, 1.0], [np.nan, np.nan], [2.0, 2.0])
    assert slowest_first(ratio).tolist() == [2, 0, 1]
