"""What findings amount to for a tracker."""

import itertools

from paceline.events import Cost
from paceline.tracking import finding_book
from paceline.tracking.finding_book import FindingBook
from tests.derived_events import HOSTILE, finding


def cost(seconds: float) -> Cost:
    return Cost(lost_s=seconds, gpu_hours=seconds / 3600, throughput_lost_ratio=0.1)


def test_the_newest_revision_counts_whatever_order_they_come_in() -> None:
    revisions = [finding(revision=number, cost=cost(float(number))) for number in (1, 2, 3)]
    for order in itertools.permutations(revisions):
        book = FindingBook()
        for revision in order:
            book.update(revision)
        assert book.tally().values == {
            "paceline/findings": 1,
            "paceline/lost_s": 3.0,
            "paceline/lost_gpu_hours": 3 / 3600,
        }


def test_the_same_again_is_no_news_and_a_suspicion_is_none() -> None:
    book = FindingBook()
    assert [book.update(finding()), book.update(finding())] == [True, False]
    assert not book.update(finding(id="f2", state="suspected"))
    assert not book.update(finding(id="f3", state="of-a-later-version"))
    assert book.tally().values["paceline/findings"] == 1


def test_kinds_are_not_added_up() -> None:
    """A slow rank and the throttled device below it are one loss."""
    book = FindingBook()
    for number, kind, seconds in ((1, "straggler", 5.0), (2, "straggler", 6.0), (3, "device_fault", 10.0)):
        book.update(finding(id=f"f{number}", kind=kind, cost=cost(seconds)))
    tally = book.tally()
    assert tally.values["paceline/lost_s"] == 11.0
    assert tally.tags == ["paceline:device_fault", "paceline:straggler"]


def test_a_recovered_one_still_counts_and_says_so() -> None:
    book = FindingBook()
    book.update(finding())
    book.update(finding(revision=2, state="recovered"))
    assert book.tally().text == "Rank 3 is slow since step 100. [recovered]"


def test_names_from_outside_are_harmless_and_short() -> None:
    book = FindingBook()
    for number in range(100):
        book.update(finding(id=f"f{number}", kind=HOSTILE * 3, summary=HOSTILE * 10))
    tally = book.tally()
    assert len(tally.text) <= finding_book.MOST_CHARACTERS
    assert all(line.isprintable() for line in tally.text.split("\n"))
    assert [len(tag) for tag in tally.tags] == [64]


def test_it_is_bounded_and_still_counts() -> None:
    book = FindingBook()
    for number in range(finding_book.MOST + 10):
        book.update(finding(id=f"f{number}"))
    assert len(book._newest) == finding_book.MOST
    assert book.tally().values["paceline/findings"] == finding_book.MOST + 10
