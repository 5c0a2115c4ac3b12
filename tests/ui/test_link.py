import math

import pytest

from ui.link import SPANS, Link, read


def test_a_link_comes_back_as_it_went():
    """What is written into an address is read from it."""
    link = Link(job="team a/llm & co", rank=7, node="gpu-1", find="x..y", metric="power_w", span="6h", live=False)
    zoomed = Link(from_s=1.5, to_s=1767600000.125)
    assert read(link.params()) == (link, [])
    assert read(zoomed.params()) == (zoomed, [])


def test_a_page_without_a_link_has_a_short_address():
    """Defaults are left out."""
    assert Link().to("fleet") == "fleet"
    assert Link(job="a b").to("job") == "job?job=a+b"


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("rank", "-1"),
        ("rank", "1.5"),
        ("rank", "1e3"),
        ("rank", "99999999999999999999"),
        ("rank", "٣"),
        ("rank", str(2**20)),
        ("from", "nan"),
        ("from", "-1"),
        ("to", "1e300"),
        ("to", "yesterday"),
        ("span", "7m"),
        ("live", "yes"),
        ("job", "x" * 301),
        ("metric", "m" * 4000),
    ],
)
def test_what_cannot_be_is_told_and_left_out(word, text):
    """The rest of the link holds."""
    link, problems = read({word: text, "node": "gpu-1"})
    assert link == Link(node="gpu-1")
    assert len(problems) == 1
    assert word in problems[0]
    assert len(problems[0]) < 200


def test_a_stretch_that_ends_before_it_begins_is_none():
    """From 9 to 5 is said to be wrong."""
    assert read({"from": "9", "to": "5"}) == (Link(), ["from is not before to"])


def test_half_a_stretch_is_open():
    """Only an end: everything before it."""
    assert read({"to": "5"})[0].stretch(100.0) == (-math.inf, 5.0)


def test_another_job_has_other_ranks():
    """Choosing a job leaves the rank of the one before behind."""
    link = Link(job="a", rank=3)
    assert link.changed(job="b").rank is None
    assert link.changed(job="a").rank == 3
    assert link.changed(job="b", rank=1).rank == 1


@pytest.mark.parametrize("span", SPANS)
def test_a_range_counts_back_from_the_newest_data(span):
    """A clock that is off, or a job that ended, hides nothing: now plays no part."""
    first, last = Link(span=span).stretch(1000.0)
    assert first <= 1000.0 <= last
    assert Link(span=span).stretch(None) == (-math.inf, math.inf)
