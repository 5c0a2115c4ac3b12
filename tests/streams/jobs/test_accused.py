"""How a rank that is accused is named, by every detector alike."""

import pytest

from streams.episodes.tracker import Episode, Measured
from streams.jobs.accused import AccusedRank, back_among_peers


@pytest.mark.parametrize(
    ("rank", "words", "name"),
    [
        (AccusedRank(0), "Rank 0", "rank 0"),
        (AccusedRank(3, node="node-1"), "Rank 3 on node-1", "rank 3"),
        (AccusedRank(3, node="node-1", device="GPU-a", group="dp"), "Rank 3 on node-1", "rank 3 in dp"),
    ],
)
def test_a_rank_is_named_by_what_is_known_of_it(rank, words, name):
    """What is not known is left out; the number 0 is a rank."""
    assert rank.words() == words
    assert rank.subject().name == name
    assert rank.subject("link").name == f"{name} link"


def test_a_subject_holds_where_the_rank_is():
    """Stage 0 is a stage; an unknown node or device is no entry."""
    subject = AccusedRank(3, "node-1", "GPU-a", stage=0, group="dp").subject()
    assert (subject.ranks, subject.stage, subject.group) == ((3,), 0, "dp")
    assert (subject.nodes, subject.devices) == (("node-1",), ("GPU-a",))
    assert (AccusedRank(3).subject().nodes, AccusedRank(3).subject().devices) == ((), ())


def test_the_name_of_a_subject_does_not_change_with_the_node():
    """It goes into the finding's id: a rank whose node is known only later keeps its finding."""
    assert AccusedRank(3).subject().name == AccusedRank(3, "node-1", "GPU-a", 1).subject().name


def test_a_rank_that_is_well_again_is_told_with_its_steps():
    """Since when, and until when."""
    episode = Episode[int, Measured](subject=3, cause="unknown", first=60.0, last=120.0)
    words = back_among_peers(AccusedRank(3, "node-1"), episode)
    assert words == "Rank 3 on node-1 is back among its peers at step 120; it was slow from step 60."
