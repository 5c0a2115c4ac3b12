"""Ranks that are expected and never spoke are told, once the job has run for a while without them."""

import pytest

from paceline.events import Coverage, Evidence
from streams.jobs.silence import Silence, said
from streams.snapshots import pack, unpack


def coverage(heard, expected=4):
    return Coverage(ranks_expected=expected, ranks_heard=heard, events_missing=0)


@pytest.fixture
def told(make_tick):
    """(tick, state) of what is told of so many ticks of one step each, in which so many of four ranks were heard."""

    def run(silence, heard, first=0):
        out = []
        for number, ranks in enumerate(heard, start=first):
            silence.count_step()
            episode = silence.update(make_tick(number, forward=[0.1] * 4), coverage(ranks))
            out += [(number, episode.state)] if episode else []
        return out

    return run


@pytest.mark.long
def test_missing_ranks_are_told_after_a_while(make_tick):
    """A job that starts hears its ranks one by one: only after so many steps is one missing."""
    silence, told = Silence(after_steps=50), []
    for number in range(60):
        silence.count_step()
        episode = silence.update(make_tick(number, forward=[0.1] * 3), coverage(3))
        told += [(number, episode.state)] if episode else []
    assert told == [(50, "suspected"), (51, "confirmed"), (54, "confirmed")]
    assert said(coverage(3)).summary.startswith("1 of 4 ranks have not reported")


def test_a_job_that_is_heard_whole_is_no_news(make_tick):
    """All ranks spoke."""
    silence = Silence(after_steps=0)
    assert [silence.update(make_tick(number, forward=[0.1] * 4), coverage(4)) for number in range(9)] == [None] * 9


def test_ticks_count_nothing_before_steps_do(make_tick):
    """The wait is counted in steps of the job; a tick may stand for many of them, or come again."""
    silence = Silence(after_steps=2)
    silence.count_step()
    assert [silence.update(make_tick(1, forward=[0.1] * 3), coverage(3)) for _ in range(9)] == [None] * 9
    silence.count_step()
    ticks = [make_tick(number, forward=[0.1] * 3) for number in (2, 3)]
    assert [bool(silence.update(tick, coverage(3))) for tick in ticks] == [False, True]


def test_ranks_that_are_late_to_speak_are_never_missed(told):
    """All of them spoke within the wait: what was missing before it ends begins no episode."""
    silence = Silence(after_steps=5)
    assert told(silence, [1, 2, 3, 3, 4, 4, 4]) == []
    assert silence.episodes.open() == []


def test_one_tick_without_a_rank_is_no_episode(told):
    """Nor are two that a whole job lies between."""
    silence = Silence(after_steps=0)
    assert told(silence, [3, 4, 4, 3, 4, 4]) == []
    assert silence.episodes.open() == []


def test_it_is_over_when_the_last_rank_has_spoken(told):
    """One of two missing ranks is not enough; two ticks of the whole job are. What begins later is another episode."""
    silence = Silence(after_steps=0)
    assert told(silence, [2, 2, 2, 3, 4, 4]) == [(1, "suspected"), (2, "confirmed"), (5, "recovered")]
    assert told(silence, [3, 3], first=6) == [(7, "suspected")]


def test_it_lasts_from_the_first_step_that_was_judged(make_tick):
    """Not from the start of the job: before, the wait was the reason to say nothing. It costs nothing by itself."""
    silence = Silence(after_steps=3)
    for number in range(6):
        silence.count_step()
        episode = silence.update(make_tick(10 * number, forward=[0.1] * 3), coverage(3))
    tracked = silence.episodes.tracker.get("ranks")
    assert (tracked.first_step, tracked.last_step, tracked.length, tracked.lost_s) == (20, 50, 4.0, 0.0)
    assert tracked.span_s == pytest.approx(0.4)
    assert (tracked.cause, tracked.measured.margin) == ("unknown", 1.0)
    assert episode is None


@pytest.mark.parametrize(("heard", "expected"), [(0, 0), (1, 1), (5, 4), (1, 0)])
def test_who_expects_no_more_than_it_hears_misses_nobody(make_tick, heard, expected):
    """Also where nobody spoke, and where more ranks speak than there should be."""
    silence = Silence(after_steps=0)
    ticks = [make_tick(number, forward=[0.1]) for number in range(5)]
    assert [silence.update(tick, coverage(heard, expected)) for tick in ticks] == [None] * 5


def test_a_tick_that_knows_no_time_is_counted_all_the_same(make_tick):
    """Steps that nobody measured take 0.0 s: the ranks are missing in them, too."""
    silence = Silence(after_steps=0)
    ticks = [make_tick(number, forward=[0.0] * 3) for number in range(2)]
    states = [episode and episode.state for episode in (silence.update(tick, coverage(3)) for tick in ticks)]
    assert states == [None, "suspected"]


@pytest.mark.parametrize("cut", range(9))
def test_restored_it_goes_on_as_if_nothing_had_happened(told, cut):
    """Within the wait, within an episode, and while it ends: state is data, also through bytes."""
    heard = [3, 3, 3, 3, 2, 3, 4, 4, 3, 3]
    first, again = Silence(after_steps=3), Silence(after_steps=3)
    before = told(first, heard[:cut])
    again.load(unpack(1, pack(1, first.state())))
    after = told(again, heard[cut:], first=cut)
    assert before + after == [(3, "suspected"), (4, "confirmed"), (7, "recovered"), (9, "suspected")]
    assert again.steps == len(heard)


def test_what_is_said_counts_the_missing_and_names_nobody():
    """The ranks that never spoke are not known by anything but their number; the evidence is those that did."""
    words = said(coverage(61, 64))
    assert words.summary.startswith("3 of 64 ranks have not reported: verdicts cover only the others.")
    assert (words.subject.kind, words.subject.name, words.subject.ranks) == ("insufficient_data", "ranks", ())
    assert words.evidence == [
        Evidence(name="ranks_heard", value=61, unit="ranks", peers=64, rule="reported, of expected")
    ]


@pytest.mark.parametrize("heard", [4, 5])
def test_when_it_is_over_nobody_is_said_to_be_missing(heard):
    """The finding that ends it says that all were heard, and no number of ranks that never were."""
    assert said(coverage(heard)).over == "All 4 ranks have reported: verdicts cover the whole job."
