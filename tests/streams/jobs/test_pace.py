"""The pace of a job that turns slow as a whole."""

import numpy as np
import pytest

from streams.jobs.pace import Pace, PaceConfig, said

RANKS = 4


@pytest.fixture
def run(make_tick):
    """Judge ticks of a second; (tick, state) of what is told, and the last episode."""

    def judge(seconds, op="forward", pace=None, accused=frozenset()):
        pace, told, last = pace or Pace(PaceConfig()), [], None
        rng = np.random.default_rng(0)
        for number, more in enumerate(seconds):
            phases = {"forward": 1.0 + 0.01 * rng.standard_normal(RANKS), "data": np.full(RANKS, 0.05)}
            phases[op] = phases[op] + more
            made = make_tick(number, **{name: values.tolist() for name, values in phases.items()})
            episode = pace.update(made, set(accused), staged=False)
            if episode is not None:
                told.append((number, episode.state))
                last = episode
        return told, last

    return judge


def test_it_fires_when_nearly_all_of_the_newest_ticks_are_slow(run):
    """A job that is a third slower from tick 40 on is told at tick 53, and confirmed at twice as many."""
    told, episode = run([0.0] * 40 + [0.35] * 40)
    assert told[:2] == [(53, "suspected"), (68, "confirmed")]
    assert episode.first_step == 39  # the first tick of the look that found it
    assert episode.measured.pace_s / episode.measured.usual_s == pytest.approx(1.33, abs=0.02)


def test_what_grew_most_is_the_cause(run):
    """Input that grows on every rank explains the whole job; computing does not."""
    assert run([0.0] * 40 + [0.35] * 20, op="data")[1].cause == "input_pipeline"
    assert run([0.0] * 40 + [0.35] * 20)[1].cause == "unknown"


@pytest.mark.parametrize("more", [0.0, 0.05])
def test_a_steady_job_and_a_small_change_are_no_news(run, more):
    """Less than the least slowdown is not told, however long it lasts."""
    assert run([0.0] * 40 + [more] * 60)[0] == []


def test_an_accused_rank_speaks_for_itself(run):
    """While a rank is known to be slow the job's pace says nothing."""
    assert run([0.0] * 40 + [0.35] * 40, accused={0})[0] == []


def test_it_recovers(run):
    """Back at its usual pace the episode is over."""
    told, _ = run([0.0] * 40 + [0.35] * 40 + [0.0] * 20)
    assert told[-1][1] == "recovered"


def test_restored_it_goes_on(run):
    """State is data."""
    pace, again = Pace(PaceConfig()), Pace(PaceConfig())
    run([0.0] * 40 + [0.35] * 20, pace=pace)
    again.load(pace.snapshot())
    assert run([0.35] * 20, pace=again)[0] == run([0.35] * 20, pace=pace)[0] != []


def test_its_words_name_both_paces(run):
    """The sentence gives milliseconds a step now and before, and what grew most."""
    told = said(run([0.0] * 40 + [0.35] * 20, op="data")[1], PaceConfig())
    assert "instead of 10" in told.summary
    assert "most of it in data" in told.summary
    assert [number.name for number in told.evidence] == ["pace", "grown_data"]
