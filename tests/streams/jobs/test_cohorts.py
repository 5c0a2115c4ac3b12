"""Who is compared with whom: ranks of a stage with each other, a lone rank with its own past."""

import numpy as np
import pytest

from streams.jobs.cohorts import PAST, Cohorts


@pytest.fixture
def pipeline():
    """Two pipelines of two stages: ranks 0 and 1 are stage 0, ranks 2 and 3 stage 1."""
    cohorts = Cohorts()
    cohorts.place([0, 1, 2, 3], [0, 0, 1, 1], [0, 1, 0, 1])
    return cohorts


@pytest.fixture
def lone():
    """Ranks 0 and 1 share stage 0; rank 2 is alone in stage 1."""
    cohorts = Cohorts()
    cohorts.place([0, 1, 2], [0, 0, 1], [0, 1, 0])
    return cohorts


def groups(cohorts, ranks):
    return [group.tolist() for group in cohorts.groups(ranks)]


def test_without_stages_all_ranks_are_peers():
    """Each is compared with the median of the others."""
    cohorts = Cohorts()
    assert not cohorts.staged
    assert groups(cohorts, 3) == [[0, 1, 2]]
    assert cohorts.peers(np.array([1.0, 1.0, 5.0])).tolist() == [3.0, 3.0, 1.0]
    assert cohorts.stage_of(0) is None


def test_ranks_of_one_stage_are_peers(pipeline):
    """A longer stage makes nobody late."""
    assert pipeline.staged
    assert groups(pipeline, 4) == [[0, 1], [2, 3]]
    assert pipeline.peers(np.array([1.0, 1.1, 2.0, 2.2])).tolist() == [1.1, 1.0, 2.2, 2.0]
    assert [pipeline.stage_of(rank) for rank in (0, 3, 99)] == [0, 1, None]


def test_the_order_of_placing_changes_nothing(pipeline):
    """Told backwards, twice, and rank by rank, the groups are the same."""
    other = Cohorts()
    for rank, stage, line in ((3, 1, 1), (0, 0, 0), (3, 1, 1), (2, 1, 0), (1, 0, 1)):
        other.place([rank], [stage], [line])
    assert groups(other, 4) == groups(pipeline, 4)


def test_a_rank_that_moves_to_another_stage_moves_its_cohort(pipeline):
    """What was worked out before is worked out again."""
    pipeline.groups(4)
    pipeline.place([1], [1], [1])
    assert groups(pipeline, 4) == [[0], [1, 2, 3]]
    assert {stage: ranks.tolist() for stage, ranks in pipeline.stages().items()} == {0: [0], 1: [1, 2, 3]}


def test_ranks_of_no_known_stage_are_one_cohort(pipeline):
    """A message without stages places nobody, and ranks that were never placed are compared with each other."""
    pipeline.place([4, 5], [], [])
    assert groups(pipeline, 6) == [[4, 5], [0, 1], [2, 3]]
    pipeline.place([4], [-1], [-1])
    assert pipeline.stage_of(4) is None


def test_one_rank_alone_has_no_peer():
    """NaN, which passes no bar."""
    assert np.isnan(Cohorts().peers(np.array([1.0]))).all()


def test_a_pipeline_shares_what_its_micro_batches_cost(pipeline):
    """The others of the same pipeline, whatever their stage; nothing without stages."""
    shared = pipeline.shared(np.array([0.0, 0.5, 0.0, 0.4]))
    assert shared.tolist() == [0.0, 0.4, 0.0, 0.5]
    assert np.isnan(Cohorts().shared(np.array([0.1, 0.2]))).all()
    assert np.isnan(pipeline.shared(np.array([0.1]))).all()


def test_a_lone_rank_is_expected_to_be_what_it_was_and_to_change_as_the_others_do(lone):
    """The first ticks are its past; later it is scaled by the median change of the others."""
    for _ in range(PAST):
        assert np.isnan(lone.expect(np.array([[[0.1, 0.1, 0.3]]]))).all()
    (expected,) = lone.expect(np.array([[[0.2, 0.2, 0.9]]]))
    assert np.isnan(expected[0, :2]).all()
    assert expected[0, 2] == pytest.approx(0.6)


def test_a_past_with_blanks_and_zeros_expects_nothing_impossible(lone):
    """Where the others took no time before, how much they have changed is not known."""
    for _ in range(PAST):
        lone.expect(np.array([[[0.0, np.nan, 0.3]]]))
    assert np.isnan(lone.expect(np.array([[[0.2, 0.2, 0.9]]]))).all()


def test_a_rank_that_joins_after_the_past_has_none(lone):
    """It is not compared, and the ranks that have a past still are."""
    for _ in range(PAST):
        lone.expect(np.array([[[0.1, 0.1, 0.3]]]))
    lone.place([3], [2], [0])
    (expected,) = lone.expect(np.array([[[0.1, 0.1, 0.3, 0.5]]]))
    assert expected[0, 2] == pytest.approx(0.3)
    assert np.isnan(expected[0, 3])


def test_restored_it_expects_the_same(lone):
    """State is data; what is derived of it is worked out again."""
    for _ in range(PAST):
        lone.expect(np.array([[[0.1, 0.1, 0.3]]]))
    again = Cohorts()
    again.groups(3)
    again.load(lone.state())
    rows = np.array([[[0.2, 0.2, 0.9]]])
    assert np.array_equal(again.expect(rows), lone.expect(rows), equal_nan=True)
    assert groups(again, 3) == [[0, 1], [2]]
