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
            phases[op] = phases.get(op, np.full(RANKS, 0.1)) + more
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
    assert told[:2] == [(53, "suspected"), (69, "confirmed")]
    assert episode.first_step == 40
    assert episode.measured.pace_s / episode.measured.usual_s == pytest.approx(1.33, abs=0.02)


@pytest.mark.long
def test_what_grew_most_is_the_cause(run):
    """Input that grows on every rank explains the whole job; computing does not."""
    assert run([0.0] * 40 + [0.35] * 20, op="data")[1].cause == "input_pipeline"
    assert run([0.0] * 40 + [0.35] * 20)[1].cause == "unknown"


@pytest.mark.long
@pytest.mark.parametrize("more", [0.0, 0.05])
def test_a_steady_job_and_a_small_change_are_no_news(run, more):
    """Less than the least slowdown is not told, however long it lasts."""
    assert run([0.0] * 40 + [more] * 60)[0] == []


@pytest.mark.long
def test_a_smaller_change_takes_a_longer_look(run):
    """A job that is an eighth slower is told by the look of 30 ticks, not by that of 15."""
    told, episode = run([0.0] * 60 + [0.13] * 40)
    assert told[0] == (80, "suspected")
    assert episode.measured.pace_s / episode.measured.usual_s == pytest.approx(1.125, abs=0.02)


def uneven(seed, ticks=120, ranks=16):
    """Seconds of each rank in each tick, for four sequences each: the longest rank's go up and down by a seventh."""
    length = np.exp(0.3 * np.random.default_rng(seed).standard_normal((ticks, ranks, 4)))
    return (length + length**2).mean(axis=2) / 2


def follow(make_tick, seconds, staged=False):
    """(tick, state) of what is told of a job whose ranks compute so many seconds a tick."""
    pace = Pace(PaceConfig())
    ticks = (make_tick(number, forward=own.tolist()) for number, own in enumerate(seconds))
    told = ((number, pace.update(tick, set(), staged=staged)) for number, tick in enumerate(ticks))
    return [(number, episode.state) for number, episode in told if episode is not None]


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_uneven_work_that_all_do_more_slowly(make_tick, seed):
    """The longest rank of sixteen drowns such a change in its noise, the middle one does not."""
    slower = np.where(np.arange(120) < 60, 0.0, 0.3)[:, None]
    assert [state for _, state in follow(make_tick, uneven(seed) + slower)][:2] == ["suspected", "confirmed"]
    assert follow(make_tick, uneven(seed)) == []


@pytest.mark.long
@pytest.mark.parametrize("ranks", [2, 4])
def test_one_slow_rank_is_no_slow_job(make_tick, ranks):
    """What only the longest rank takes longer is its own matter, also before anybody has accused it."""
    seconds = np.ones((120, ranks)) + 0.01 * np.random.default_rng(0).standard_normal((120, ranks))
    seconds[40:, 1] += 0.4
    assert follow(make_tick, seconds) == []


@pytest.mark.slow
@pytest.mark.parametrize("level", [1, 80])
def test_work_that_grows_steadily_has_turned_slow_at_no_step(make_tick, level):
    """Sequences that become longer in a curriculum, from the begin or from some step on, are no slow job."""
    noise = 1 + 0.01 * np.random.default_rng(0).standard_normal((240, 4))
    growing = 1.0 + 0.008 * np.maximum(np.arange(240) - level, 0)[:, None]
    assert follow(make_tick, growing * noise) == []


@pytest.mark.slow
def test_work_that_has_grown_and_stays_has_turned_slow_at_no_step(make_tick):
    """A warm-up in which the pace falls."""
    growing = 1.0 + 0.01 * np.minimum(np.arange(240), 100)[:, None]
    assert follow(make_tick, growing * (1 + 0.03 * np.random.default_rng(0).standard_normal((240, 4)))) == []


@pytest.mark.long
def test_a_jump_in_work_that_grows_is_told(make_tick):
    """Where growth is slow beside it."""
    growing = (1.0 + 0.001 * np.arange(240))[:, None] * (1 + 0.01 * np.random.default_rng(0).standard_normal((240, 4)))
    growing[120:] *= 1.3
    assert follow(make_tick, growing)[0][1] == "suspected"


def test_an_accused_rank_speaks_for_itself(run):
    """While a rank is known to be slow the job's pace says nothing."""
    assert run([0.0] * 40 + [0.35] * 40, accused={0})[0] == []


@pytest.mark.long
def test_it_recovers(run):
    """Back at its usual pace the episode is over."""
    told, _ = run([0.0] * 40 + [0.35] * 40 + [0.0] * 20)
    assert told[-1][1] == "recovered"


@pytest.mark.long
def test_restored_it_goes_on(run):
    """State is data."""
    pace, again = Pace(PaceConfig()), Pace(PaceConfig())
    run([0.0] * 40 + [0.35] * 20, pace=pace)
    again.load(pace.state())
    assert run([0.35] * 20, pace=again)[0] == run([0.35] * 20, pace=pace)[0] != []


def test_its_words_name_both_paces(run):
    """The sentence gives the time of a step now and before, and what grew most."""
    told = said(run([0.0] * 40 + [0.35] * 20, op="data")[1], PaceConfig())
    assert "1.41 s a step instead of 1.06 s" in told.summary
    assert "mostly in data" in told.summary
    assert [number.name for number in told.evidence] == ["pace", "grown_data"]


@pytest.mark.parametrize(
    ("op", "accused", "words", "clears"),
    [
        ("forward", set(), "No single rank is to blame.", True),
        ("forward", {2}, "That is without what rank 2 lost: see the finding on that.", False),
        ("forward", {2, 3, 5}, "That is without what ranks 2-3, 5 lost: see the finding on that.", False),
        ("communication", set(), "by the network, or by the link of one rank.", False),
    ],
)
def test_it_contradicts_no_other_finding(run, op, accused, words, clears):
    """Ranks that another finding accuses are not cleared, nor is a link where transfers take longer."""
    told = said(run([0.0] * 40 + [0.35] * 20, op=op)[1], PaceConfig(), accused)
    assert told.summary.endswith(words)
    assert bool(told.cleared) == clears
