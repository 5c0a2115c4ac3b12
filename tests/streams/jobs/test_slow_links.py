"""A rank whose network link is slow: far from all its peers, while everybody waits."""

import pytest

from streams.jobs.accused import AccusedRank
from streams.jobs.slow_links import LinksConfig, SlowLinks, said
from tests.timings import Link, linked

RANKS = 4


@pytest.fixture
def run(make_calls, join):
    """Judge samples of a second; (sample, rank, state) of what is told, and the last episode."""

    def judge(rtts, wait=0.5, links=None, start=0, near_s=0.001):
        links, told, last = links or SlowLinks(LinksConfig()), [], None
        for number, far_s in enumerate(rtts, start):
            samples = [Link(rank, far_s if rank == 2 else near_s, retransmits=rank) for rank in range(RANKS)]
            rows = [(rank, number, float(number), wait) for rank in range(RANKS)]
            rows += [(rank, number, number + 0.5, min(wait, 0.5)) for rank in range(RANKS)] if wait else []
            batch = join(make_calls(rows, members=RANKS), linked(samples))
            for episode in links.update(batch):
                told.append((number, episode.subject, episode.state))
                last = episode
        return told, last

    return judge


def test_it_fires_after_four_samples_and_is_sure_after_eight(run):
    """Samples on end, at five times the peers' round trip."""
    told, episode = run([0.05] * 10)
    assert next(one for one in told if one[2] == "suspected") == (3, 2, "suspected")
    assert next(one for one in told if one[2] == "confirmed") == (7, 2, "confirmed")
    assert (episode.cause, episode.measured.rtt_s, episode.measured.peers_rtt_s) == ("link", 0.05, 0.001)


@pytest.mark.parametrize(("rtt_s", "wait"), [(0.004, 0.5), (0.05, 0.0)])
def test_a_near_rank_and_a_job_that_does_not_wait_are_no_news(run, rtt_s, wait):
    """Some round trips are longer than others; where nobody waits nobody is held back."""
    assert run([rtt_s] * 12, wait)[0] == []


def test_a_link_that_was_slow_once_stays_so_at_half_the_bars(run):
    """Round trips and waiting vary from second to second by as much; what never came up to the bars is no slow link."""
    near = {"near_s": 0.0001}
    links = SlowLinks(LinksConfig())
    run([0.0025], links=links, **near)
    told, _ = run([0.0015] * 7, wait=0.05, links=links, start=1, **near)
    assert 0.1 <= links.wait_ratio() < 0.2
    assert [state for _, _, state in told][-1] == "confirmed"
    assert run([0.0015] * 12, **near)[0] == []
    assert run([0.0025] * 12, wait=0.05, **near)[0] == []


def test_one_good_sample_before_an_episode_starts_the_count_again(run):
    """Suspicion takes samples on end."""
    assert run([0.05, 0.05, 0.05, 0.001] * 3)[0] == []


def test_it_is_over_after_four_good_samples(run):
    """Back near its peers; meanwhile other verdicts on waiting were held back."""
    links = SlowLinks(LinksConfig())
    run([0.05] * 8, links=links)
    assert links.suspects()
    assert run([0.001] * 4, links=links, start=8)[0] == [(11, 2, "recovered")]
    assert not links.suspects()


def test_restored_it_goes_on(run):
    """State is data."""
    links, again = SlowLinks(LinksConfig()), SlowLinks(LinksConfig())
    run([0.05] * 5, links=links)
    again.load(links.state())
    assert run([0.05] * 5, links=again, start=5) == run([0.05] * 5, links=links, start=5)


def test_each_time_that_a_link_is_slow_is_an_episode_of_its_own(run):
    """A job may have no step numbers: a second finding of the first one's id would be taken for a late revision."""
    links, names = SlowLinks(LinksConfig()), []
    for start in (0, 12, 24):
        names.append(said(run([0.05] * 8, links=links, start=start)[1], AccusedRank(2)).subject.name)
        over = run([0.001] * 4, links=links, start=start + 8)[1]
        assert (over.state, said(over, AccusedRank(2)).subject.name) == ("recovered", names[-1])
        again = SlowLinks(LinksConfig())
        again.load(links.state())
        links = again
    assert names == ["rank 2 link", "rank 2 link time 2", "rank 2 link time 3"]


def test_its_words_name_both_distances(run):
    """The sentence and the subject's name."""
    told = said(run([0.05] * 8)[1], AccusedRank(2, "node-1"))
    assert told.subject.name == "rank 2 link"
    assert "Rank 2 on node-1 is 50.0 ms away from its nearest peer" in told.summary
