"""What is kept of jobs and nodes where events come late, twice, or from whoever was replaced."""

import pytest

from annotator import book as books
from annotator.book import Book
from tests.annotator.world import NOW_S, job, node_described, profile
from tests.derived_events import finding

LONG = "x" * 100_000


def pods(book: Book) -> list[str]:
    return sorted(part.pod for part in book.parts.values())


def test_an_older_description_of_a_producer_does_not_open_a_part_again() -> None:
    book, begun = Book("default"), job(producer="p", sequence=1)
    for event in (begun, job(producer="p", sequence=2, ended_s=NOW_S), begun):
        book.update(event, NOW_S)
    (part,) = book.parts.values()
    assert part.ended_s == NOW_S


def test_of_two_producers_of_a_node_who_told_last_counts() -> None:
    """The collector was started again; what the first one said is delivered once more."""
    book, first = Book("default"), node_described(producer="a", sequence=9, driver="1", time_s=NOW_S - 100)
    for event in (first, node_described(producer="b", sequence=0, driver="2"), first):
        book.update(event, NOW_S)
    assert book.nodes["node-1"].driver == "2"


def test_a_part_takes_the_place_of_an_older_one_with_its_ranks() -> None:
    """A pod was killed with its sidecar and replaced by another, on another node; in whichever order that is heard."""
    old = job(pod="train-a", gpus=range(4), started_s=NOW_S - 300)
    new = job(pod="train-b", node="node-2", gpus=range(4), started_s=NOW_S - 100)
    beside = job(pod="train-c", gpus=range(4, 8), started_s=NOW_S - 400)
    for events in ((old, new, beside), (new, beside, old), (beside, old, new, old)):
        book = Book("default")
        for event in events:
            book.update(event, NOW_S)
        assert pods(book) == ["train-b", "train-c"]


def test_parts_of_other_attempts_and_of_the_same_moment_stay() -> None:
    book = Book("default")
    book.update(job(pod="a", attempt=0, started_s=NOW_S - 300), NOW_S)
    book.update(job(pod="b", attempt=1, started_s=NOW_S - 100), NOW_S)
    book.update(job(pod="c", attempt=1, started_s=NOW_S - 100), NOW_S)
    assert pods(book) == ["a", "b", "c"]


def test_another_run_of_the_same_name_and_attempt_leaves_findings_behind() -> None:
    """They had gone on from its first description on, with nothing measured."""
    book, found = Book("default"), finding(cluster="default")
    book.update(job(started_s=NOW_S - 900), NOW_S - 900)
    book.update(found, NOW_S - 800)
    (verdict,) = book.verdicts(NOW_S - 700)
    assert verdict.standing.fires
    book.update(job(started_s=NOW_S - 900, ended_s=NOW_S - 600), NOW_S - 600)
    book.update(job(producer="q", started_s=NOW_S - 300), NOW_S - 300)
    (verdict,) = book.verdicts(NOW_S)
    assert verdict.standing[:2] == (False, "the job was started again")


@pytest.mark.parametrize("seconds_later", [10.0, 200.0])
def test_a_finding_of_the_next_run_has_its_own_cause(seconds_later: float) -> None:
    """It may have the id of one before, and begins at revision 1; within a run the newest revision counts."""
    book, found = Book("default"), finding(cluster="default", revision=7, cause="data_loading")
    book.update(job(started_s=NOW_S - 900), NOW_S - 900)
    book.update(found, NOW_S - 800)
    book.update(finding(cluster="default", revision=2, cause="unknown"), NOW_S - 700)
    assert [one.cause for one in book.verdicts(NOW_S - 700)] == ["data_loading"]
    book.update(job(started_s=NOW_S - 900, ended_s=NOW_S - 600), NOW_S - 600)
    book.update(job(producer="q", started_s=NOW_S - 300), NOW_S - 300)
    again = finding(cluster="default", revision=1, state="suspected", cause="worker_compute", confidence=0.5)
    book.update(again, NOW_S - 300 + seconds_later)
    (verdict,) = book.verdicts(NOW_S)
    assert (verdict.cause, verdict.confidence, verdict.fired) == ("worker_compute", 0.5, False)


def test_nothing_is_kept_of_parts_that_are_over() -> None:
    book = Book("default")
    for at in range(50):
        book.update(job(pod=f"p{at}", started_s=NOW_S + at), NOW_S)
        book.update(job(pod="same", name="other", attempt=at), NOW_S)
    assert len(book.parts) == len(book._ranks) == 2


def test_names_of_any_length_are_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest nodes, parts of jobs and profiles stay, and each that went is counted."""
    for name in ("NODE_BYTES", "PART_BYTES", "PROFILE_BYTES", "HEARD_BYTES"):
        monkeypatch.setattr(books, name, 2**20)
    book = Book("default")
    for at in range(50):
        name = f"{at}{LONG}"
        for event in (node_described(name, gpus=1), job(name, gpus=range(1)), profile(name)):
            book.update(event, NOW_S)
    for table in (book.nodes, book.parts, book.profiles, book._heard_s):
        assert 0 < len(table) <= 2**20 / len(LONG)
        assert "49xx" in str(list(table)[-1])
    assert len(book._ranks) == len(book.parts)
    assert book.shed >= 3 * 40
