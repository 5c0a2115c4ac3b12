"""Ranks that are set up differently: who differs, what is not compared, and when it is over."""

from typing import get_args

import pytest

from paceline.events import RankFact, RankFacts
from streams.jobs import configuration
from streams.jobs.configuration import MOST_FACTS, MOST_WORDS, Configuration, compared, said
from tests.streams.job_lines import JobDiagnosis


def tell(decision, fact, *words, first=0):
    ranks = list(range(first, first + len(words)))
    return decision.update(RankFacts(ranks=ranks, words={fact: list(words)}))


@pytest.mark.parametrize("count", [1, 4])
def test_ranks_that_agree_are_no_matter(count):
    """Neither is one rank alone, nor a fact that nobody tells."""
    decision = Configuration()
    assert tell(decision, "nccl_version", *["2.27.5"] * count) is None
    assert tell(decision, "network", *[""] * count) is None


def test_who_differs_from_a_clear_majority_is_named():
    """At once, with its word and the others'."""
    episode = tell(Configuration(), "network", "IB", "IB", "IB", "Socket")
    told = said(episode, {3: "node-1"})
    assert (episode.state, episode.cause, told.subject.ranks) == ("confirmed", "configuration", (3,))
    (one,) = told.evidence
    assert (one.name, one.rank, one.value, one.peers) == ("network", 3, 1, 3)
    assert "Socket, where 3 ranks have IB" in one.rule
    assert "network: rank 3 on node-1 has Socket, where 3 ranks have IB" in told.summary


@pytest.mark.parametrize("words", [["a", "b"], ["a", "a", "b", "b"], ["a", "b", "c"], ["a", "a", "a", "b", "b"]])
def test_without_a_clear_majority_nobody_is_accused(words):
    """It is told all the same."""
    told = said(tell(Configuration(), "nccl_version", *words), {})
    assert told.subject.ranks == ()
    assert "none is the rule" in told.summary


def test_a_rank_that_does_not_tell_is_left_out():
    """It is in no majority and in no minority."""
    assert tell(Configuration(), "channels", "32", "", "32", "") is None
    told = said(tell(Configuration(), "channels", "32", "", "32", "8"), {})
    assert told.subject.ranks == (3,)


@pytest.mark.parametrize(
    ("fact", "is_compared"),
    [
        ("transport_inside", False),
        ("gpu_direct", False),
        ("hostname", False),
        ("NCCL_ALGO", True),
        ("NCCL_SOCKET_IFNAME", False),
        ("NCCL_IB_HCA", False),
        ("NCCL_TOPO_FILE", False),
        ("NCCL_DEBUG", False),
    ],
)
def test_what_belongs_to_a_node_may_differ(fact, is_compared):
    """Interfaces, adapters, files, and how GPUs of one board reach each other."""
    assert compared(fact) == is_compared
    assert (tell(Configuration(), fact, "a", "a", "b") is not None) == is_compared


def test_what_is_compared_is_a_fact_that_ranks_tell():
    """The table names no fact that nobody knows."""
    assert set(configuration.COMPARED) <= set(get_args(RankFact))


def test_a_later_word_replaces_the_earlier_one_and_ends_it():
    """As after a restart with the right library; another difference then is another episode."""
    decision = Configuration()
    begun = tell(decision, "nccl_version", "2.27", "2.27", "2.19")
    assert tell(decision, "nccl_version", "2.27", "2.27", "2.19") is None
    ended = tell(decision, "nccl_version", "2.27", first=2)
    assert (begun.state, ended.state, ended.revision) == ("confirmed", "recovered", 2)
    again = tell(decision, "nccl_version", "2.19", first=2)
    assert (again.first, again.revision) == (begun.first + 1, 1)
    assert said(ended, {}).over


def test_more_ranks_and_more_facts_are_news():
    """One finding of a job, revised as ranks are heard."""
    decision = Configuration()
    first = tell(decision, "network", "IB", "Socket")
    second = tell(decision, "network", "IB", "IB", "IB", first=2)
    third = tell(decision, "nccl_version", "2.27", "2.19", "2.27", "2.27", "2.19")
    assert [said(one, {}).subject.ranks for one in (first, second, third)] == [(), (1,), (1,)]
    assert [one.revision for one in (first, second, third)] == [1, 2, 3]
    assert {one.name for one in said(third, {}).evidence} == {"network", "nccl_version"}


def test_facts_words_and_names_are_bounded():
    """What a hostile job tells does not grow without end, and a finding stays short."""
    decision = Configuration()
    for number in range(3 * MOST_FACTS):
        tell(decision, f"NCCL_X{number}", "a", "b")
    assert len(decision.words) == MOST_FACTS
    decision = Configuration()
    words = [f"{rank % (2 * MOST_WORDS):0256}" for rank in range(5 * MOST_WORDS)]
    told = said(tell(decision, "nccl_version", *words), {})
    assert len(decision.words["nccl_version"].counts) == MOST_WORDS
    assert len(told.evidence) <= configuration._MOST_NAMED
    assert len(told.summary) < 10_000


def test_the_job_is_told_which_node_to_mend(make_facts):
    """The whole way: two nodes' messages, and the rank that differs now and then."""
    decision = JobDiagnosis()
    found = [one for event in make_facts(odd=5) for one in decision.update(event)]
    assert {(one.kind, one.cause, tuple(one.ranks)) for one in found if one.state != "recovered"} == {
        ("configuration_mismatch", "configuration", (5,))
    }
    assert all("rank 5 on node-1 has 2.19.3" in one.summary for one in found if one.state != "recovered")
    assert [one.state for one in found[:3]] == ["confirmed", "recovered", "confirmed"]
    assert len({one.id for one in found}) == len([one for one in found if one.state == "confirmed"])
    assert all(one.exonerated for one in found)
